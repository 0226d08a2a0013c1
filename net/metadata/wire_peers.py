"""The quorum's messages to other nodes, as requests on channels.

The versions are the newest of Kafka's that are spoken between brokers. The channels should be the
quorum's own, and not negotiate: a fetch that waits at the leader holds up what comes behind it on
the same connection. `net.metadata.apis` is the other side of all this.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from net.channel import Channels
from net.errors import MalformedRequest, NetError, TooManyInFlight
from net.metadata.batches import checked, epochs_of
from net.metadata.fetch_apis import METADATA_ID
from net.metadata.log import TOPIC
from net.metadata.peers import Sent, SnapshotPart, Told
from net.transport.seam import Endpoint
from net.wire.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    encode_fetch,
    parse_fetch_answer,
)
from net.wire.library import Message, decode_response, encode_request
from protocol.machine import Event
from protocol.quorum import effects as do
from protocol.quorum import events as e
from protocol.quorum.log import SnapshotId
from protocol.replication.log import EpochEnd
from protocol.types import NO_LEADER, Epoch, NodeId
from storage.errors import InvalidBatch

_log = logging.getLogger(__name__)

_FETCH: Final = (1, 17)
_VOTE: Final = (52, 2)
_BEGIN_EPOCH: Final = (53, 1)
_END_EPOCH: Final = (54, 1)
_FETCH_SNAPSHOT: Final = (59, 1)


@attrs.frozen
class PeerConfig:
    """How long answers are waited for, and how much of a snapshot is asked for at a time."""

    request_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    """Beyond what a fetch may wait at the leader."""
    part_bytes: int = 1024 * 1024
    part_timeout_ms: int = 5_000


class WirePeers:
    """The voters of a quorum, by their node ids, over channels."""

    def __init__(
        self,
        node: NodeId,
        cluster_id: str,
        voters: Mapping[NodeId, Endpoint],
        channels: Channels,
        config: PeerConfig | None = None,
    ) -> None:
        self._node = node
        self._cluster_id = cluster_id
        self._voters = voters
        self._channels = channels
        self._config = config or PeerConfig()

    def send(self, effect: Sent, told: Told) -> None:
        """Put a message on its way; `told` gets what comes of it."""
        match effect:
            case do.SendVoteRequest():
                self._vote(effect, told)
            case do.AnnounceLeader(to, epoch):
                self._tell(_BEGIN_EPOCH, to, {"leader_id": self._node, "leader_epoch": epoch}, told)
            case do.EndEpoch(to, epoch):
                ended = {"leader_id": self._node, "leader_epoch": epoch, "preferred_candidates": []}
                self._tell(_END_EPOCH, to, ended, _ignore)
            case do.AskForLeader(to):
                self._ask_for_leader(to, told)
            case do.SendFetch():
                self._fetch(effect, told)

    def _vote(self, effect: do.SendVoteRequest, told: Told) -> None:
        partition = {
            "partition_index": 0,
            "replica_epoch": effect.epoch,
            "replica_id": self._node,
            "last_offset_epoch": effect.last_epoch,
            "last_offset": effect.end_offset,
            "pre_vote": effect.pre_vote,
        }

        def answered(body: memoryview) -> None:
            found = _partition(_VOTE, body)
            if found is None or found["error_code"]:
                return
            known = found["leader_epoch"], found["leader_id"]
            granted = found["vote_granted"]
            told(e.VoteAnswered(effect.to, *known, granted, effect.pre_vote, effect.attempt))

        self._request(_VOTE, effect.to, self._about(effect.to, partition), answered, _lost)

    def _tell(self, api: tuple[int, int], to: NodeId, partition: Message, told: Told) -> None:
        def answered(body: memoryview) -> None:
            found = _partition(api, body)
            if found is not None and found["error_code"]:
                told(e.EpochLearned(to, found["leader_epoch"], found["leader_id"]))

        message = self._about(to, {"partition_index": 0, **partition})
        if api == _END_EPOCH:
            del message["voter_id"]
        self._request(api, to, {**message, "leader_endpoints": []}, answered, _lost)

    def _about(self, to: NodeId, partition: Message) -> Message:
        topics = [{"topic_name": TOPIC, "partitions": [partition]}]
        return {"cluster_id": self._cluster_id, "voter_id": to, "topics": topics}

    def _ask_for_leader(self, to: NodeId, told: Told) -> None:
        """As Kafka's observers do: whoever is asked for records of no epoch names the leader."""

        def answered(body: memoryview) -> None:
            found = _fetched(body)
            if found is not None and found.current_leader is not None:
                leader, epoch = found.current_leader
                told(e.EpochLearned(to, max(epoch, 0), leader))

        body = self._fetch_body(do.SendFetch(to, 0, 0, 0, 0, 1, 0))
        self._send(_FETCH, to, body, answered, _lost, self._config.request_timeout_ms)

    def _fetch(self, effect: do.SendFetch, told: Told) -> None:
        def answered(body: memoryview) -> None:
            told(_fetch_event(effect, _fetched(body)))

        timeout_ms = effect.max_wait_ms + self._config.fetch_timeout_ms
        body = self._fetch_body(effect)
        self._send(
            _FETCH, effect.to, body, answered, lambda _error: told(e.FetchRefused()), timeout_ms
        )

    def _fetch_body(self, effect: do.SendFetch) -> bytes:
        partition = FetchPartition(
            0, effect.offset, effect.max_bytes, effect.epoch, effect.last_epoch
        )
        request = FetchRequest(
            effect.max_wait_ms,
            1,
            [(METADATA_ID, [partition])],
            self._node,
            max_bytes=effect.max_bytes,
            cluster_id=self._cluster_id,
        )
        return encode_fetch(_FETCH[1], request)

    def fetch_part(
        self,
        leader: NodeId,
        epoch: Epoch,
        snapshot: SnapshotId,
        position: int,
        got: Callable[[SnapshotPart | None], None],
    ) -> None:
        """Ask the leader for bytes of its snapshot."""
        partition = {
            "partition": 0,
            "current_leader_epoch": epoch,
            "snapshot_id": {"end_offset": snapshot.end_offset, "epoch": snapshot.epoch},
            "position": position,
        }
        message = {
            "cluster_id": self._cluster_id,
            "replica_id": self._node,
            "max_bytes": self._config.part_bytes,
            "topics": [{"name": TOPIC, "partitions": [partition]}],
        }

        def answered(body: memoryview) -> None:
            found = _partition(_FETCH_SNAPSHOT, body)
            got(None if found is None or found["error_code"] else _part(found))

        body = encode_request(*_FETCH_SNAPSHOT, message)
        timeout_ms = self._config.part_timeout_ms
        self._send(_FETCH_SNAPSHOT, leader, body, answered, lambda _error: got(None), timeout_ms)

    def _request(
        self,
        api: tuple[int, int],
        to: NodeId,
        message: Message,
        answered: Callable[[memoryview], None],
        failed: Callable[[Exception], None],
    ) -> None:
        body = encode_request(*api, message)
        self._send(api, to, body, answered, failed, self._config.request_timeout_ms)

    def _send(
        self,
        api: tuple[int, int],
        to: NodeId,
        body: bytes,
        answered: Callable[[memoryview], None],
        failed: Callable[[Exception], None],
        timeout_ms: int,
    ) -> None:
        endpoint = self._voters.get(to)
        if endpoint is None:
            failed(NetError(f"nobody knows where node {to} is"))
            return
        try:
            channel = self._channels.channel_to(endpoint)
            channel.request(*api, [body], answered, failed, timeout_ms)
        except TooManyInFlight as error:
            failed(error)


def _partition(api: tuple[int, int], body: memoryview) -> Message | None:
    """Find the answer for the one partition; `None` if all of the request was refused."""
    message = decode_response(*api, body)
    if message["error_code"]:
        _log.warning("a request of the quorum (API %d): error %d", api[0], message["error_code"])
        return None
    try:
        (topic,) = message["topics"]
        (partition,) = topic["partitions"]
    except ValueError as error:
        raise MalformedRequest(f"API {api[0]}: an answer for not just one partition") from error
    found: Message = partition
    return found


def _fetched(body: memoryview) -> FetchedPartition | None:
    answer = parse_fetch_answer(_FETCH[1], body)
    if answer.error_code:
        _log.warning("a fetch of the metadata log: error %d", answer.error_code)
        return None
    try:
        ((_, (partition,)),) = answer.topics
    except ValueError as error:
        raise MalformedRequest("Fetch: an answer for not just one partition") from error
    return partition


def _fetch_event(effect: do.SendFetch, found: FetchedPartition | None) -> Event:
    """Make the event of a leader's answer; its bytes are copied, because they are about to go."""
    if found is None:
        return e.FetchRefused()
    if found.error_code:
        leader, epoch = found.current_leader or (NO_LEADER, 0)
        return e.FetchRefused(max(epoch, 0), leader)
    asked = effect.epoch, effect.offset, effect.last_epoch
    if found.diverging is not None:
        epoch, end_offset = found.diverging
        return e.FetchAnswered(*asked, diverging=EpochEnd(epoch, end_offset))
    if found.snapshot is not None:
        return e.FetchAnswered(*asked, snapshot=SnapshotId(*found.snapshot))
    content = b"".join(found.records)
    try:
        batches = checked(bytearray(content), effect.offset)
    except InvalidBatch as error:
        _log.warning("node %d sent what is no part of its log: %s", effect.to, error)
        return e.FetchRefused()
    high_watermark = max(found.high_watermark, 0)
    return e.FetchAnswered(
        *asked, high_watermark=high_watermark, epochs=epochs_of(batches), payload=batches
    )


def _part(found: Message) -> SnapshotPart:
    snapshot: dict[str, Any] = found["snapshot_id"]
    return SnapshotPart(
        SnapshotId(snapshot["end_offset"], snapshot["epoch"]),
        found["size"],
        found["position"],
        found["unaligned_records"] or b"",
    )


def _lost(error: Exception) -> None:
    """Nobody hears of it: the core asks again when it is time."""
    _log.debug("a message of the quorum is lost: %s", error)


def _ignore(event: Event) -> None:
    """Nobody waits for what comes of it."""
