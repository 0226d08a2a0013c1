"""A broker without sockets: the test gives it metadata, and is its controller."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pytest
from immutables import Map

from net.broker.apis import forwarding
from net.broker.broker import HANDLERS, Broker
from net.broker.lifecycle import Introduction
from net.driving import Timers
from net.errors import MalformedRequest
from net.metadata.image import ImageLoader
from net.settings.broker import BrokerSettings
from net.wire.apis import Api, Scope, advertised
from net.wire.headers import response_header_bytes
from net.wire.library import Message, decode_response, encode_request, encode_response
from protocol.controller.records import BrokerConfigRecord, Record
from protocol.errors import ErrorCode
from protocol.replication.events import BecameLeader
from storage.checkpoint import TopicPartition
from storage.disk import jobs
from storage.disk.simulated import SimulatedDisk
from storage.log.config import LogConfig
from storage.store import LogStore
from tests.net.broker.desk import Desk
from tests.net.broker.fetching.worlds import Clock, settle
from tests.net.broker.images import broker as broker_record
from tests.net.broker.images import image, topic
from tests.net.settings.nodes import node

FIRST = TopicPartition("t", 0)


class Quorum:
    """What a broker needs of the metadata."""

    leader = (1, 1)

    def __init__(self) -> None:
        self.images = ImageLoader()
        self.applied = 0


class World:
    """Broker 1, and the controller that it talks to."""

    def __init__(self, settings: BrokerSettings | None = None) -> None:
        self.clock = Clock()
        self.timers = Timers(self.clock)
        self.quorum = Quorum()
        self.reasons: list[str] = []
        self.disk = SimulatedDisk(1)
        store = LogStore(self.disk, ("data",))
        jobs.run(store.open(lambda _: LogConfig()))
        nobody: Any = None
        self.broker = Broker(
            settings or node(log_dirs="data"),
            "a cluster",
            store,
            self.quorum,
            nobody,
            nobody,
            self.timers,
            random.Random(1),
            stop=self.reasons.append,
            boot="a boot",
        )
        self.desk = self.broker.link = self.broker.proposals._link = Desk()
        self.broker.producer_ids._link = self.desk

    def start(self, epoch: int = 10) -> None:
        """Register, as the metadata do not tell yet."""
        self.broker.start(Introduction(1, "a cluster", UUID(int=1), (), "", 0))
        settle(self.clock, self.timers)
        self.desk.only().answer(error_code=0, broker_epoch=epoch)
        settle(self.clock, self.timers)

    def tell(self, *records: Record) -> None:
        self.quorum.applied += 1
        self.quorum.images.replace(image(*records), self.quorum.applied)


def ready(settings: BrokerSettings | None = None) -> World:
    """A broker that has registered and read the metadata."""
    world = World(settings)
    world.start()
    world.desk.only()
    world.tell()
    assert world.broker.replicas.has_begun
    return world


class Connection:
    """Where a request came from."""

    def __init__(self) -> None:
        self.closed = False
        self.listener_name = "PLAINTEXT"


class Request:
    """A request, and what became of it."""

    def __init__(self, api: Api, version: int, message: Message) -> None:
        self.api_key = int(api)
        self.version = version
        self.correlation_id = 77
        self.client_id = "a test"
        self.body = memoryview(encode_request(api, version, message))
        self.connection = Connection()
        self.answer: Message | None = None
        self.closed: str | None = None

    def reply(self, parts: Iterable[bytes]) -> None:
        assert self.answer is None
        self.answer = decode_response(self.api_key, self.version, b"".join(parts))

    def close(self, reason: str) -> None:
        assert self.closed is None
        self.closed = reason


def ask(world: World, api: Api, version: int, message: Message) -> Request:
    request = Request(api, version, message)
    world.broker.serve(request)  # type: ignore[arg-type]
    return request


def test_every_api_of_the_listener_has_a_handler_and_no_other() -> None:
    # The server answers ApiVersions by itself.
    assert {*HANDLERS, Api.API_VERSIONS} == set(advertised(Scope.BROKER))


def test_replicas_begin_when_the_metadata_know_of_this_registration() -> None:
    world = World()
    world.tell(*topic((1, 2)))
    world.start(epoch=12)
    # That was an earlier incarnation's.
    assert not world.broker.replicas.has_begun
    assert set(world.broker.image.topics) == {"t"}
    world.tell(broker_record(1, 12), *topic((1, 2)))
    assert world.broker.replicas.partitions[FIRST].leads
    assert world.broker.replicas.partitions[FIRST].state.broker_epoch == 12


def test_nobody_is_served_before_the_metadata_are_read() -> None:
    """A client would take what it is told for the truth, and forget the topics that it knows."""
    world = World()
    world.start()
    request = ask(world, Api.METADATA, 9, {"topics": None})
    assert request.answer is None
    assert request.closed is not None


def test_nothing_is_written_before_it_is_noted_who_writes() -> None:
    world = World()
    world.disk.faults = type(world.disk.faults)(deferred=True)
    world.start()
    world.tell(*topic((1, 2)))
    begun = [world.broker.replicas.has_begun]
    world.disk.run_all()
    assert [*begun, world.broker.replicas.has_begun] == [False, True]
    assert "data/.hwmark_running" in world.disk.files()


def test_a_broker_serves_clients_while_it_takes_part() -> None:
    world = World()
    seen = [world.broker.is_ready]
    world.start()
    seen.append(world.broker.is_ready)
    beat = {"error_code": 0, "is_caught_up": True, "should_shut_down": False}
    world.desk.only().answer(**beat, is_fenced=False)
    seen.append(world.broker.is_ready)
    assert seen == [False, False, True]


def test_settings_that_change_while_the_cluster_runs_are_taken_over() -> None:
    world = World()
    world.start()
    world.tell(*topic((1, 2)))
    partition = world.broker.replicas.partitions[FIRST]
    assert partition.log.config.max_batch_bytes == 1_048_588
    setting = {"message.max.bytes": "777"}
    world.tell(*topic((1, 2)), BrokerConfigRecord(-1, Map(setting)))
    assert world.broker.settings.message_max_bytes == 777
    assert partition.log.config.max_batch_bytes == 777
    assert world.broker.settings_of("t").max_message_bytes == 777
    world.tell(*topic((1, 2), max_message_bytes="888"))
    assert partition.log.config.max_batch_bytes == 888
    assert world.broker.settings_of("t").max_message_bytes == 888


def test_what_must_not_happen_stops_the_node_and_names_the_partition() -> None:
    world = World()
    world.start()
    world.tell(*topic((1, 2)))
    partition = world.broker.replicas.partitions[FIRST]
    partition.deliver(BecameLeader(9, 9, frozenset({2}), frozenset({1, 2})))
    (reason,) = world.reasons
    assert reason.startswith("t-0: LeaderInIsr")


def unknown(world: World, *names: str, allowed: bool = True) -> Request:
    topics = [{"name": name} for name in names]
    message = {"topics": topics, "allow_auto_topic_creation": allowed}
    return ask(world, Api.METADATA, 9, message)


def wanted(asked: Any) -> list[str]:
    return [each["name"] for each in asked.message["topics"]]


def test_a_topic_that_is_asked_for_is_made_once() -> None:
    world = ready()
    request = unknown(world, "a", "b", "a")
    assert request.answer is not None
    codes = {each["error_code"] for each in request.answer["topics"]}
    assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    unknown(world, "a")
    asked = world.desk.only()
    assert asked.api == Api.CREATE_TOPICS
    assert wanted(asked) == ["a", "b"]
    unknown(world, "b", "c")
    assert wanted(world.desk.only()) == ["c"]


@pytest.mark.parametrize("how", ["made", "failed", "refused", "known"])
def test_a_topic_can_be_asked_for_again_when_that_is_over(how: str) -> None:
    world = ready()
    unknown(world, "a")
    asked = world.desk.only()
    if how == "failed":
        asked.fail()
    elif how == "known":
        world.tell(*topic((1,), name="a"))
        world.tell()
    else:
        error = ErrorCode.NONE if how == "made" else ErrorCode.INVALID_TOPIC_EXCEPTION
        asked.answer(topics=[{"name": "a", "error_code": error, "error_message": "no"}])
    unknown(world, "a")
    assert wanted(world.desk.only()) == ["a"]


def test_topics_are_not_made_by_asking_where_that_is_not_wanted() -> None:
    world = ready()
    unknown(world, "a", allowed=False)
    strict = ready(node(log_dirs="data", auto_create_topics_enable="false"))
    unknown(strict, "a")
    assert world.desk.asked == strict.desk.asked == []


def test_only_so_many_topics_are_made_at_a_time() -> None:
    world = ready()
    unknown(world, *(f"t{number}" for number in range(1_500)))
    assert len(wanted(world.desk.only())) == 1_000
    unknown(world, "one more")
    assert world.desk.asked == []


def test_a_topic_with_neither_name_nor_id_is_no_request() -> None:
    world = ready()
    with pytest.raises(MalformedRequest):
        ask(world, Api.METADATA, 12, {"topics": [{"name": None, "topic_id": UUID(int=0)}]})
    assert world.desk.asked == []


def elect(world: World) -> Request:
    return ask(world, Api.ELECT_LEADERS, 2, {"election_type": 0, "topic_partitions": None})


def test_what_is_the_controllers_comes_back_as_the_controller_wrote_it() -> None:
    world = ready()
    request = elect(world)
    asked = world.desk.only()
    assert asked.api == Api.ENVELOPE
    assert b"a test" in asked.message["request_data"]
    told = encode_response(Api.ELECT_LEADERS, 2, {"error_code": 84})
    head = response_header_bytes(Api.ELECT_LEADERS, 2, 77)
    asked.answer(error_code=0, response_data=head + told)
    assert request.answer is not None
    assert request.answer["error_code"] == 84


@pytest.mark.parametrize("how", ["not active", "lost", "unknown"])
def test_a_request_is_passed_on_again_while_the_controller_moves(how: str) -> None:
    world = ready()
    world.desk.is_gone = how == "unknown"
    request = elect(world)
    for _ in range(5):
        if how == "not active":
            world.desk.only().answer(error_code=ErrorCode.NOT_CONTROLLER, response_data=None)
        elif how == "lost":
            world.desk.only().fail()
        assert world.desk.asked == []
        world.clock.now_ms += 250
        settle(world.clock, world.timers)
    world.desk.is_gone = False
    world.clock.now_ms += 250
    settle(world.clock, world.timers)
    head = response_header_bytes(Api.ELECT_LEADERS, 2, 77)
    told = encode_response(Api.ELECT_LEADERS, 2, {"error_code": 0})
    world.desk.next().answer(error_code=0, response_data=head + told)
    assert request.answer is not None
    assert request.closed is None


def test_who_finds_no_controller_for_long_loses_the_connection() -> None:
    world = ready()
    world.desk.is_gone = True
    request = elect(world)
    for _ in range(forwarding._TRIES - 1):
        assert request.closed is None
        world.clock.now_ms += 250
        settle(world.clock, world.timers)
    assert request.closed is not None
    assert "no controller" in request.closed


def test_for_a_client_that_is_gone_nobody_is_asked_again() -> None:
    world = ready()
    request = elect(world)
    request.connection.closed = True
    world.desk.only().fail()
    world.clock.now_ms += 10_000
    settle(world.clock, world.timers)
    assert world.desk.asked == []


def test_an_envelope_that_is_refused_ends_the_connection() -> None:
    world = ready()
    request = elect(world)
    world.desk.only().answer(error_code=ErrorCode.INVALID_REQUEST, response_data=None)
    assert request.closed is not None


def test_the_quorum_is_asked_as_it_is() -> None:
    world = ready()
    message = {"topics": [{"topic_name": "m", "partitions": [{"partition_index": 0}]}]}
    request = ask(world, Api.DESCRIBE_QUORUM, 1, message)
    asked = world.desk.only()
    assert (asked.api, asked.version) == (Api.DESCRIBE_QUORUM, 1)
    asked.answer(error_code=0, topics=[])
    assert request.answer is not None
    lost = ask(world, Api.DESCRIBE_QUORUM, 1, message)
    world.desk.only().fail()
    assert lost.closed is not None


def test_every_api_that_is_passed_on_is_the_controllers() -> None:
    assert set(forwarding.FORWARDED) <= set(advertised(Scope.CONTROLLER))


def test_librdkafka_asks_for_all_topics_in_the_old_way() -> None:
    """Its issue 5049: a null of four bytes where one is right."""
    world = ready()
    world.tell(*topic((1,)))
    for version, flags in ((9, 3), (10, 3), (11, 2), (12, 2)):
        request = Request(Api.METADATA, version, {"topics": None})
        request.body = memoryview(bytes(4) + bytes([1]) + bytes(flags - 1) + b"\0")
        world.broker.serve(request)  # type: ignore[arg-type]
        assert request.answer is not None
        assert [each["name"] for each in request.answer["topics"]] == ["t"]
