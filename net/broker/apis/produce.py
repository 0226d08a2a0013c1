"""Produce: check each batch, hand it to its partition, answer when all of them have been.

The records are not decoded, except where a compacted topic has to know that each has a key. The
bytes of a batch are used before the handler returns, so they are never copied.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

from net.broker.hints import endpoints_of, leader_hint
from net.broker.partition import Duplicate, Partition
from net.server.request import Request
from net.wire.common import NodeEndpoint
from net.wire.produce import (
    ProducedPartition,
    ProduceRequest,
    encode_produce_answer,
    encode_single,
    parse_produce,
)
from protocol.errors import ErrorCode
from protocol.replication.effects import ProduceDone, Refuse
from storage.batch.header import LENGTH_FROM, Batch, Header, split, stamp
from storage.batch.validate import check_produced
from storage.errors import InvalidBatch

if TYPE_CHECKING:
    from net.broker.broker import Broker

_ACKS = (-1, 0, 1)
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class Answer:
    """The answer of one request, which leaves when its last partition is done."""

    __slots__ = ("_broker", "_missing", "_moved", "_request", "_topics", "_wants_reply")

    def __init__(self, broker: Broker, request: Request, asked: ProduceRequest) -> None:
        self._broker = broker
        self._request = request
        self._wants_reply = asked.acks != 0
        self._topics: list[tuple[str, list[ProducedPartition]]] = [
            (name, [_UNANSWERED] * len(partitions)) for name, partitions in asked.topics
        ]
        self._missing = sum(len(partitions) for _, partitions in asked.topics)
        self._moved: set[int] = set()
        if not self._missing:
            self._send()

    def put(self, topic: int, place: int, done: ProducedPartition) -> None:
        """Note what came of one partition."""
        if done.error_code in _MOVED:
            hint = leader_hint(self._broker.image, self._topics[topic][0], done.partition)
            if hint is not None:
                self._moved.add(hint.leader_id)
                done = done._replace(current_leader=hint)
        self._topics[topic][1][place] = done
        self._missing -= 1
        if not self._missing:
            self._send()

    def _endpoints(self) -> list[NodeEndpoint]:
        return endpoints_of(self._broker.image, self._moved, self._request.connection.listener_name)

    def _send(self) -> None:
        if self._wants_reply:
            endpoints = self._endpoints() if self._moved else ()
            body = encode_produce_answer(self._request.version, self._topics, 0, endpoints)
            self._request.reply((body,))
        elif any(each.error_code for _, partitions in self._topics for each in partitions):
            # Who wants no answer learns of an error by losing the connection, and asks anew.
            self._request.close("a produce request with acks=0 was refused")
        else:
            self._request.no_reply()


_UNANSWERED = ProducedPartition(-1)


class Produced(abc.ABC):
    """One batch of a request: what the machines know the request by."""

    __slots__ = ("acks", "batch", "header", "index", "time_ms", "timeout_ms")

    batch: Batch
    header: Header

    def __init__(self, asked: ProduceRequest, index: int) -> None:
        self.acks = asked.acks
        self.timeout_ms = asked.timeout_ms
        self.index = index
        self.time_ms = -1

    def answer(self, effect: ProduceDone | Duplicate | Refuse) -> None:
        """Hear what became of the batch."""
        if isinstance(effect, Refuse):
            error = effect.error
            if error is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                # So much waits for the followers that nothing was appended. Clients know no
                # throttling of single batches, but that they may try again after this error.
                error = ErrorCode.NOT_ENOUGH_REPLICAS
            done = ProducedPartition(self.index, error)
        else:
            done = ProducedPartition(
                self.index, 0, effect.base_offset, self.time_ms, effect.log_start_offset
            )
        self.put(done)

    @abc.abstractmethod
    def put(self, done: ProducedPartition) -> None:
        """Let this be the answer."""


class OneOfMany(Produced):
    """A batch that is answered together with others."""

    __slots__ = ("_answer", "_place", "_topic")

    def __init__(
        self, asked: ProduceRequest, index: int, answer: Answer, topic: int, place: int
    ) -> None:
        super().__init__(asked, index)
        self._answer = answer
        self._topic = topic
        self._place = place

    def put(self, done: ProducedPartition) -> None:
        """Let this be the answer."""
        self._answer.put(self._topic, self._place, done)


class Single(Produced):
    """The only batch of a request, which most are: it writes the answer itself.

    What is rare, a refusal or a producer that wants no answer, is left to an `Answer`.
    """

    __slots__ = ("_broker", "_name", "_request")

    def __init__(
        self, asked: ProduceRequest, index: int, broker: Broker, request: Request, name: str
    ) -> None:
        self.acks = asked.acks
        self.timeout_ms = asked.timeout_ms
        self.index = index
        self.time_ms = -1
        self._broker = broker
        self._request = request
        self._name = name

    def answer(self, effect: ProduceDone | Duplicate | Refuse) -> None:
        """Hear what became of the batch."""
        if isinstance(effect, Refuse) or not self.acks:
            super().answer(effect)
            return
        request = self._request
        body = encode_single(
            request.version,
            self._name,
            self.index,
            effect.base_offset,
            self.time_ms,
            effect.log_start_offset,
        )
        request.reply((body,))

    def put(self, done: ProducedPartition) -> None:
        """Let this be the answer."""
        topics = [(self._name, [(self.index, None)])]
        asked = ProduceRequest(None, self.acks, self.timeout_ms, topics)
        Answer(self._broker, self._request, asked).put(0, 0, done)


def produce(request: Request, broker: Broker) -> None:
    """Append what a producer sends."""
    asked = parse_produce(request.version, request.body)
    topics = asked.topics
    if asked.transactional_id is not None:
        answer = Answer(broker, request, asked)
        _refuse_all(asked, answer, ErrorCode.INVALID_REQUEST, "transactions are not served")
    elif asked.acks not in _ACKS:
        answer = Answer(broker, request, asked)
        _refuse_all(asked, answer, ErrorCode.INVALID_REQUIRED_ACKS, None)
    elif len(topics) == 1 and len(topics[0][1]) == 1:
        name, ((index, records),) = topics[0]
        _produce_one(broker, Single(asked, index, broker, request, name), name, records)
    else:
        answer = Answer(broker, request, asked)
        for topic, (name, partitions) in enumerate(topics):
            for place, (index, records) in enumerate(partitions):
                produced = OneOfMany(asked, index, answer, topic, place)
                _produce_one(broker, produced, name, records)


def _produce_one(broker: Broker, produced: Produced, name: str, records: memoryview | None) -> None:
    index = produced.index
    partition = broker.replicas.find_by_name(name, index)
    if not isinstance(partition, Partition):
        produced.put(ProducedPartition(index, partition))
        return
    try:
        batch = _checked(broker, partition, produced, name, records)
    except InvalidBatch as invalid:
        produced.put(ProducedPartition(index, invalid.error, error_message=invalid.reason))
        return
    header = produced.header = batch.header
    produced.batch = batch
    counters = partition.counters
    counters.bytes_in += header.length + LENGTH_FROM
    counters.batches_in += 1
    counters.records_in += header.record_count
    partition.produce(produced)
    # The connection uses these bytes for its next request.
    del produced.batch


def _checked(
    broker: Broker,
    partition: Partition,
    produced: Produced,
    name: str,
    records: memoryview | None,
) -> Batch:
    """Return the batch that was sent, with the time that the topic wants it to have."""
    config = partition.log.config
    max_bytes = config.max_batch_bytes
    batch = check_produced(
        split(b"" if records is None else records, max_bytes),
        compacted=config.compact,
        max_batch_bytes=max_bytes,
    )
    now_ms = broker.wall()
    policy = broker.timestamps_of(name)
    if policy.log_append_time:
        produced.time_ms = now_ms
        return stamp(batch, now_ms)
    if not policy.accepts(batch.header.max_timestamp_ms, now_ms):
        raise InvalidBatch(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {batch.header.max_timestamp_ms} is too far from the broker's clock",
        )
    return batch


def _refuse_all(
    asked: ProduceRequest, answer: Answer, error: ErrorCode, message: str | None
) -> None:
    for topic, (_, partitions) in enumerate(asked.topics):
        for place, (index, _) in enumerate(partitions):
            answer.put(topic, place, ProducedPartition(index, error, error_message=message))
