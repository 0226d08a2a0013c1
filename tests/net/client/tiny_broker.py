"""A broker of one node and one topic in memory, on our own server, that does as a test tells it.

It looks at sequence numbers as a Kafka leader does, so that a client that numbers batches wrongly,
or sends one twice, is found out. What it cannot be asked, it answers by what the test has put into
`answers`.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import attrs
import trio

from net.server import Request
from net.transport.seam import Endpoint
from net.wire import library
from net.wire.apis import Api
from net.wire.fetch import (
    AbortedTransaction,
    FetchAnswer,
    FetchedPartition,
    encode_fetch_answer,
    parse_fetch,
)
from net.wire.library import Message
from net.wire.produce import ProducedPartition, encode_produce_answer, parse_produce
from storage.batch.header import Header, assign, read_header, split
from tests.net.server.wire import serving

TOPIC_ID = uuid.UUID(int=7)
_OUT_OF_RANGE, _OUT_OF_ORDER, _UNKNOWN_PRODUCER, _FENCED = 1, 45, 59, 74
Fault = Literal["lose the request", "lose the answer", "say nothing"]


@attrs.define
class Producer:
    """What a leader remembers of a producer."""

    epoch: int
    next_sequence: int
    batches: dict[int, int]


@attrs.define
class Log:
    """The log of a partition."""

    batches: list[bytes] = attrs.Factory(list)
    end_offset: int = 0
    producers: dict[int, Producer] = attrs.Factory(dict)

    def append(self, batch: bytes, leader_epoch: int = 0) -> int:
        """Write a batch as it is, but for its offset and epoch."""
        (placed,) = split(bytearray(batch))
        header = assign(placed, self.end_offset, leader_epoch).header
        self.batches.append(bytes(placed.view))
        self.end_offset = header.end_offset
        return header.base_offset

    def produce(self, batch: bytes) -> tuple[int, int]:
        """Write what a producer sent; return an error and where it is."""
        header = read_header(batch)
        if header.producer_id < 0:
            return 0, self.append(batch)
        known = self.producers.get(header.producer_id)
        if known is not None and header.producer_epoch == known.epoch:
            if header.base_sequence in known.batches:
                return 0, known.batches[header.base_sequence]
            if header.base_sequence != known.next_sequence:
                return _OUT_OF_ORDER, -1
        elif header.base_sequence != 0:
            return _UNKNOWN_PRODUCER, -1
        else:
            known = self.producers[header.producer_id] = Producer(header.producer_epoch, 0, {})
        offset = self.append(batch)
        known.next_sequence = header.last_sequence + 1
        known.batches[header.base_sequence] = offset
        return 0, offset

    @property
    def headers(self) -> list[Header]:
        """The headers of all batches."""
        return [read_header(batch) for batch in self.batches]


class TinyBroker:
    """The service. `faults` are used up by produce requests, one each; None is none."""

    def __init__(self, nursery: trio.Nursery, partitions: int) -> None:
        self.endpoint = Endpoint("127.0.0.1", 0)
        self.logs = [Log() for _ in range(partitions)]
        self.faults: deque[Fault | int | None] = deque()
        self.leader = 5
        self.leader_epoch = 0
        self.epoch_ends: dict[int, int] = {}
        self.aborted: list[AbortedTransaction] = []
        self.answers: dict[Api, Message] = {}
        self.asked: list[tuple[Api, Message]] = []
        self.produced = 0
        self._nursery = nursery
        self._next_producer_id = 1000
        self._appended = trio.Event()

    @property
    def bootstrap(self) -> str:
        return str(self.endpoint)

    def serve(self, request: Request) -> None:
        """Answer a request."""
        api = Api(request.api_key)
        if api is Api.PRODUCE:
            self._produce(request)
        elif api is Api.FETCH:
            self._fetch(request)
        else:
            message = library.decode_request(api, request.version, request.body)
            self.asked.append((api, message))
            answer = self._answer(api, message)
            request.reply([library.encode_response(api, request.version, answer)])

    def _produce(self, request: Request) -> None:
        asked = parse_produce(request.version, request.body)
        self.produced += 1
        fault = self.faults.popleft() if self.faults else None
        if fault == "lose the request":
            request.close("as the test wants it")
            return
        topics = []
        for topic, partitions in asked.topics:
            answers = []
            for index, records in partitions:
                if isinstance(fault, int):
                    answers.append(ProducedPartition(index, fault))
                else:
                    code, offset = self.logs[index].produce(bytes(records or b""))
                    answers.append(ProducedPartition(index, code, offset))
            topics.append((topic, answers))
        self._appended.set()
        self._appended = trio.Event()
        if fault == "lose the answer":
            request.close("as the test wants it")
        elif fault != "say nothing":
            request.reply([encode_produce_answer(request.version, topics)])

    def _fetch(self, request: Request) -> None:
        asked = parse_fetch(request.version, request.body)
        topics = []
        for topic, partitions in asked.topics:
            assert topic in ("topic", TOPIC_ID)
            answers = [
                self._read(each.partition, each.fetch_offset, each.current_leader_epoch)
                for each in partitions
            ]
            topics.append((topic, answers))
        parts = encode_fetch_answer(request.version, FetchAnswer(topics))
        if any(each.records_bytes or each.error_code for _, answers in topics for each in answers):
            request.reply(parts)
        else:
            self._nursery.start_soon(self._reply_later, request, parts, asked.max_wait_ms)

    async def _reply_later(self, request: Request, parts: list[bytes], wait_ms: int) -> None:
        with trio.move_on_after(wait_ms / 1000):
            await self._appended.wait()
        request.reply(parts)

    def _read(self, index: int, offset: int, leader_epoch: int) -> FetchedPartition:
        log = self.logs[index]
        if leader_epoch not in (-1, self.leader_epoch):
            return FetchedPartition(index, _FENCED)
        if not 0 <= offset <= log.end_offset:
            return FetchedPartition(index, _OUT_OF_RANGE)
        found = [each for each in log.batches if read_header(each).last_offset >= offset]
        return FetchedPartition(
            index,
            high_watermark=log.end_offset,
            aborted=self.aborted,
            records=found,
            records_bytes=sum(map(len, found)),
        )

    def _answer(self, api: Api, message: Message) -> Message:
        if api in self.answers:
            return self.answers[api]
        if api is Api.METADATA:
            return self._metadata()
        if api is Api.INIT_PRODUCER_ID:
            self._next_producer_id += 1
            return {"error_code": 0, "producer_id": self._next_producer_id, "producer_epoch": 0}
        if api is Api.LIST_OFFSETS:
            return {"topics": [self._listed(topic) for topic in message["topics"]]}
        assert api is Api.OFFSET_FOR_LEADER_EPOCH, api
        return {"topics": [self._ended(topic) for topic in message["topics"]]}

    def _metadata(self) -> Message:
        partitions = [
            {
                "partition_index": index,
                "leader_id": self.leader,
                "leader_epoch": self.leader_epoch,
                "replica_nodes": [5],
                "isr_nodes": [5],
            }
            for index in range(len(self.logs))
        ]
        node = {"node_id": 5, "host": self.endpoint.host, "port": self.endpoint.port}
        topic = {"name": "topic", "topic_id": TOPIC_ID, "partitions": partitions}
        return {"brokers": [node], "controller_id": 5, "cluster_id": "tiny", "topics": [topic]}

    def _listed(self, topic: Message) -> Message:
        ends = {-2: 0}
        partitions = [
            {
                "partition_index": each["partition_index"],
                "offset": ends.get(
                    each["timestamp"], self.logs[each["partition_index"]].end_offset
                ),
            }
            for each in topic["partitions"]
        ]
        return {"name": topic["name"], "partitions": partitions}

    def _ended(self, topic: Message) -> Message:
        partitions = [
            {
                "partition": each["partition"],
                "leader_epoch": each["leader_epoch"],
                "end_offset": self.epoch_ends.get(each["leader_epoch"], -1),
            }
            for each in topic["partitions"]
        ]
        return {"topic": topic["topic"], "partitions": partitions}


@asynccontextmanager
async def tiny_broker(partitions: int = 1) -> AsyncIterator[TinyBroker]:
    """Run a broker while the block runs."""
    async with trio.open_nursery() as nursery:
        broker = TinyBroker(nursery, partitions)
        async with serving(broker.serve) as running:
            broker.endpoint = running.endpoint
            yield broker
            nursery.cancel_scope.cancel()
