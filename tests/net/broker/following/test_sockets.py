"""A follower and its leader on real sockets, with the real server, channels and clock."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from net.broker.fetching import ConsumerFetches, FollowerSessions
from net.broker.following import FetcherConfig, Fetchers
from net.broker.partition import Partition
from net.channel import Channel, ChannelConfig, Correlations
from net.driving import Timers
from net.server.listening import Listening
from net.server.request import Request
from net.server.server import Server
from net.transport.seam import Endpoint
from net.transport.tcp import TcpNetwork
from net.wire.apis import Api, Scope
from net.wire.fetch import (
    FetchPartition,
    FetchRequest,
    encode_fetch,
    parse_fetch,
    parse_fetch_answer,
)
from storage.batch.header import split
from storage.testing.numbered import batches_of
from tests.net.broker.fetching.worlds import TOPIC_ID, Node

LEADER, FOLLOWER = 1, 2
PATIENCE_S = 20
CONFIG = ChannelConfig(negotiate=False)


class Cluster:
    """Two brokers in one loop, with a real connection between them."""

    def __init__(self, nursery: trio.Nursery, count: int) -> None:
        self.nursery = nursery
        self.network = TcpNetwork()
        self.timers = Timers()
        self.leader = Node(LEADER, self.timers, count)
        self.sessions = FollowerSessions(self.leader, self.timers)
        self.consumers = ConsumerFetches(self.leader, self.timers)
        self.endpoint = Endpoint("127.0.0.1", 0)
        self.channels: list[Channel] = []
        self.fetchers = Fetchers(FetcherConfig(FOLLOWER), self.dial, self.timers, random.Random(1))
        self.follower = Node(FOLLOWER, self.timers, count, send=self.fetchers.ask)

    def serve(self, request: Request) -> None:
        fetch = parse_fetch(request.version, request.body)
        if fetch.replica_id >= 0:
            self.sessions.handle(request, fetch)
        else:
            self.consumers.handle(request, fetch)

    def dial(self, _leader: int) -> Channel:
        channel = Channel(
            self.network,
            self.nursery,
            self.endpoint,
            self.timers,
            CONFIG,
            Correlations(),
            random.Random(1),
        )
        self.channels.append(channel)
        return channel

    def follow(self) -> None:
        self.leader.lead()
        self.follower.follow(LEADER)


@asynccontextmanager
async def running(count: int = 1) -> AsyncIterator[Cluster]:
    """Serve until the test is done; nothing may take longer than a test may."""
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            cluster = Cluster(nursery, count)
            listening = Listening("x", cluster.endpoint, cluster.serve, Scope.BROKER)
            endpoints = await nursery.start(Server(cluster.network, [listening]).run)
            cluster.endpoint = endpoints["x"]
            nursery.start_soon(cluster.timers.run)
            yield cluster
            nursery.cancel_scope.cancel()


async def until_committed(partition: Partition, offset: int) -> None:
    """Wait until a partition knows that everything before an offset is committed."""
    changed = trio.Event()

    def look() -> None:
        if partition.state.high_watermark >= offset:
            changed.set()

    watch = partition.watch(look)
    look()
    await changed.wait()
    watch.cancel()


def test_many_partitions_are_copied_byte_for_byte() -> None:
    async def main() -> None:
        async with running(10) as cluster:
            cluster.follow()
            for round_ in range(5):
                for index in range(10):
                    cluster.leader.produce(index, records=3, value_bytes=2_000)
                for partition in cluster.follower.partitions.values():
                    await until_committed(partition, 3 * (round_ + 1))
            for index in range(10):
                leader, follower = (
                    [bytes(batch.view) for batch in batches_of(node.partitions[index].log)]
                    for node in (cluster.leader, cluster.follower)
                )
                assert leader == follower
                assert len(leader) == 5
            assert not cluster.follower.violations
            assert len(cluster.channels) == 1

    trio.run(main)


def test_a_connection_that_breaks_is_made_again_and_nothing_is_lost() -> None:
    async def main() -> None:
        async with running() as cluster:
            cluster.follow()
            cluster.leader.produce()
            await until_committed(cluster.follower.partitions[0], 1)
            cluster.channels[0].close()
            cluster.leader.produce()
            await until_committed(cluster.follower.partitions[0], 2)
            assert len(cluster.channels) == 2

    trio.run(main)


def test_a_consumer_on_a_socket_waits_and_gets_what_comes() -> None:
    async def main() -> None:
        async with running() as cluster:
            cluster.leader.lead(replicas=(1,))
            wanted = FetchRequest(60_000, 1, [(TOPIC_ID, [FetchPartition(0, 0, 1 << 20)])])
            channel = cluster.dial(LEADER)
            found: list[int] = []

            def read(body: memoryview) -> None:
                ((_, (told,)),) = parse_fetch_answer(16, body).topics
                found.extend(each.header.base_offset for each in split(told.records[0]))

            async with trio.open_nursery() as asking:
                asking.start_soon(
                    channel.ask, Api.FETCH, 16, [encode_fetch(16, wanted)], read, 30_000
                )
                while not cluster.consumers.parked:
                    await trio.lowlevel.checkpoint()
                cluster.leader.produce()
            assert found == [0]

    trio.run(main)
