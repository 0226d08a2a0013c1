"""The file `quorum-state`: the epoch that a node has seen, and for whom it has voted in it.

It is Kafka's file, version 1. A node that forgets its vote may vote twice, and two leaders in one
epoch lose what is committed; so a file that cannot be read stops the node, with an error that says
what to do. Who led is not kept: a node that starts finds out.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from protocol.types import NO_LEADER, Epoch, NodeId
from storage.checkpoint import MAX_INT32, read_whole
from storage.disk.seam import Disk
from storage.errors import DamagedFile

QUORUM_STATE: Final = "quorum-state"
_VERSIONS: Final = (0, 1)
_NO_DIRECTORY: Final = "A" * 22
_ADVICE: Final = (
    "a node that forgets its vote may break the quorum; restore the file, or empty this node's"
    " metadata folder and let it join anew"
)


class Vote(NamedTuple):
    """An epoch, and who got this node's vote in it; -1 for nobody."""

    epoch: Epoch = 0
    voted: NodeId = NO_LEADER


def encode_vote(vote: Vote) -> bytes:
    """Write the file."""
    fields = {
        "leaderId": NO_LEADER,
        "leaderEpoch": vote.epoch,
        "votedId": vote.voted,
        "votedDirectoryId": _NO_DIRECTORY,
        "data_version": 1,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_vote(content: bytes, file: str) -> Vote:
    """Read the file; `DamagedFile` if it is none. Fields not known are ignored."""
    try:
        fields = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise _damaged(file, "no JSON") from error
    if not isinstance(fields, dict):
        raise _damaged(file, "no JSON object")
    version = fields.get("data_version")
    if type(version) is not int or version not in _VERSIONS:
        raise _damaged(file, f"data_version {version!r}, where 0 and 1 are known")
    epoch, voted = fields.get("leaderEpoch"), fields.get("votedId")
    if type(epoch) is not int or not 0 <= epoch <= MAX_INT32:
        raise _damaged(file, f"leaderEpoch is {epoch!r}")
    if type(voted) is not int or not NO_LEADER <= voted <= MAX_INT32:
        raise _damaged(file, f"votedId is {voted!r}")
    return Vote(epoch, voted)


def load_vote(disk: Disk, path: str, last_epoch: Epoch) -> Vote:
    """Read the vote of a node whose log ends with `last_epoch`, 0 if it is empty. It blocks."""
    if not disk.exists(path):
        if last_epoch:
            raise _damaged(path, f"missing, although the log has records of epoch {last_epoch}")
        return Vote()
    vote = decode_vote(read_whole(disk, path), path)
    if vote.epoch < last_epoch:
        raise _damaged(path, f"epoch {vote.epoch}, although the log has one of {last_epoch}")
    return vote


def _damaged(file: str, reason: str) -> DamagedFile:
    return DamagedFile(file, f"{reason}; {_ADVICE}")
