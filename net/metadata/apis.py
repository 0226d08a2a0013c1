"""The quorum's requests on the receiving side: Vote, BeginQuorumEpoch, EndQuorumEpoch.

A handler turns bytes into an event for the node; the event's correlation is the function that turns
the answering effect into bytes. `net.metadata.describe.HANDLERS` has all of them by API, those of
`fetch_apis` included. As in Kafka, a request that names another cluster, or anything but the one
partition of the metadata, gets an error for all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from net.errors import MalformedRequest
from net.metadata.log import TOPIC
from net.metadata.node import QuorumNode
from net.transport.seam import Part
from net.wire.apis import Api
from net.wire.library import Message, decode_request, encode_response
from protocol.errors import ErrorCode, RemoteProtocolError
from protocol.machine import Effect, Event
from protocol.quorum import effects as do
from protocol.quorum import events as e
from protocol.types import NO_LEADER, Epoch, NodeId

INVALID_VOTER_KEY: Final = 125


class Connected(Protocol):
    """The connection that a request came on."""

    @property
    def peer(self) -> str:
        """Who is at the other end: an address and a port."""


class Asked(Protocol):
    """What a handler needs of a request; `net.server.Request` has it."""

    api_key: int
    version: int
    body: memoryview

    @property
    def connection(self) -> Connected:
        """Where it came from."""

    def reply(self, parts: list[Part], /) -> None:
        """Answer, once."""


Handler = Callable[[QuorumNode, Asked], None]


def handle_vote(node: QuorumNode, request: Asked) -> None:
    """A node wants this voter's vote, or wants to know whether it would get it."""
    found = admitted(node, request)
    if found is None:
        return
    message, asked = found

    def answer(effect: Effect) -> None:
        granted = isinstance(effect, do.SendVoteAnswer) and effect.granted
        reply_partition(node, request, *answered(effect), {"vote_granted": granted})

    if is_for_another(node, message):
        reply_partition(node, request, INVALID_VOTER_KEY, *known(node), {"vote_granted": False})
        return
    receive(
        node,
        e.VoteRequested(
            answer,
            asked["replica_id"],
            asked["replica_epoch"],
            asked["last_offset_epoch"],
            asked["last_offset"],
            asked.get("pre_vote", False),
        ),
    )


def handle_begin_quorum_epoch(node: QuorumNode, request: Asked) -> None:
    """A leader says that it leads."""
    found = admitted(node, request)
    if found is None:
        return
    message, asked = found
    if is_for_another(node, message):
        reply_partition(node, request, INVALID_VOTER_KEY, *known(node))
        return
    epoch, leader = asked["leader_epoch"], asked["leader_id"]

    def answer(effect: Effect) -> None:
        if isinstance(effect, do.Accept):
            reply_partition(node, request, ErrorCode.NONE, epoch, leader)
        else:
            reply_partition(node, request, *answered(effect))

    receive(node, e.LeaderAnnounced(answer, epoch, leader))


def handle_end_quorum_epoch(node: QuorumNode, request: Asked) -> None:
    """A leader says that it has resigned."""
    found = admitted(node, request)
    if found is None:
        return
    _, asked = found
    receive(node, e.EpochEnded(asked["leader_epoch"], asked["leader_id"]))
    reply_partition(node, request, ErrorCode.NONE, *known(node))


def receive(node: QuorumNode, event: Event) -> None:
    """Let the node handle what came; nonsense ends the connection that it came on."""
    try:
        node.receive(event)
    except RemoteProtocolError as error:
        raise MalformedRequest(str(error)) from error


def admitted(node: QuorumNode, request: Asked) -> tuple[Message, Message] | None:
    """Decode a request and find the partition that it is about; `None` if it was refused."""
    message = decode_request(request.api_key, request.version, request.body)
    if not is_of_cluster(node, message.get("cluster_id")):
        reply_error(request, ErrorCode.INCONSISTENT_CLUSTER_ID)
        return None
    topics = message["topics"]
    name = topics[0].get("topic_name", topics[0].get("name")) if len(topics) == 1 else None
    partitions = topics[0]["partitions"] if name == TOPIC else []
    index = (
        partitions[0].get("partition_index", partitions[0].get("partition"))
        if len(partitions) == 1
        else None
    )
    if index != 0:
        reply_error(request, ErrorCode.INVALID_REQUEST)
        return None
    return message, partitions[0]


def is_of_cluster(node: QuorumNode, cluster_id: str | None) -> bool:
    """Whether a request is for this cluster; one that does not say is."""
    return cluster_id is None or cluster_id == node.identity.cluster_id


def is_for_another(node: QuorumNode, message: Message) -> bool:
    """Whether a request was meant for another voter, and reached this one by mistake."""
    voter: NodeId = message.get("voter_id", NO_LEADER)
    return voter not in (NO_LEADER, node.identity.node)


def known(node: QuorumNode) -> tuple[Epoch, NodeId]:
    """Give what this node knows: epoch and leader."""
    leader, epoch = node.leader
    return epoch, leader


def answered(effect: Effect) -> tuple[int, Epoch, NodeId]:
    """Give the error, epoch and leader that an answering effect tells."""
    match effect:
        case do.Refuse(_, error, epoch, leader):
            return int(error), epoch, leader
        case do.SendVoteAnswer(_, _, epoch, leader):
            return 0, epoch, leader
    raise TypeError(f"{type(effect).__name__} answers no request of the quorum")


def reply_error(request: Asked, error: int) -> None:
    """Answer with an error for all of it."""
    message = {"error_code": int(error), "topics": []}
    request.reply([encode_response(request.api_key, request.version, message)])


def reply_partition(
    node: QuorumNode,
    request: Asked,
    error: int,
    epoch: Epoch,
    leader: NodeId,
    more: Message | None = None,
) -> None:
    """Answer for the one partition."""
    partition = {
        "partition_index": 0,
        "error_code": int(error),
        "leader_id": leader,
        "leader_epoch": epoch,
        **(more or {}),
    }
    message = {
        "error_code": 0,
        "topics": [{"topic_name": TOPIC, "partitions": [partition]}],
        "node_endpoints": endpoints(node, leader),
    }
    request.reply([encode_response(request.api_key, request.version, message)])


def endpoints(node: QuorumNode, leader: NodeId) -> list[Message]:
    """Tell where the leader is, if that is known."""
    found = node.identity.endpoints.get(leader)
    if found is None:
        return []
    return [{"node_id": leader, "host": found.host, "port": found.port}]


QUORUM_HANDLERS: Final[Mapping[int, Handler]] = {
    Api.VOTE: handle_vote,
    Api.BEGIN_QUORUM_EPOCH: handle_begin_quorum_epoch,
    Api.END_QUORUM_EPOCH: handle_end_quorum_epoch,
}
