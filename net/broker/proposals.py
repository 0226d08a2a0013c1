"""AlterPartition: the ISR proposals of all leaders of this broker.

A few requests may be under way; what is proposed meanwhile goes together with the next one. A
refusal is told to the replica; a success is not, because the metadata tell it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Final, TypeAlias
from uuid import UUID

from net.broker.controller_link import ControllerLink
from net.broker.partition import Partition
from net.wire.apis import Api
from net.wire.library import Message
from protocol.replication.effects import SendProposal
from protocol.replication.events import ProposalRefused
from protocol.types import BrokerEpoch, NodeId

_log = logging.getLogger(__name__)
Wanted: TypeAlias = tuple[SendProposal, dict[NodeId, BrokerEpoch]]
"""A proposal, with the incarnations that were known when it was decided, however late it leaves."""
_VERSION: Final = 3
_TIMEOUT_MS: Final = 5_000
_MAX_AT_ONCE: Final = 1_000
_MAX_UNDER_WAY: Final = 8


class Proposals:
    """What leaders of this broker have proposed and the controller has not answered."""

    def __init__(self, node: NodeId, link: ControllerLink) -> None:
        self._node = node
        self._link = link
        self._wanted: dict[Partition, Wanted] = {}
        self._under_way = 0

    def propose(self, partition: Partition, wanted: SendProposal) -> None:
        """Send a proposal soon; a newer one of the same partition takes its place."""
        self._wanted[partition] = wanted, partition.broker_epochs()
        self._send()

    def _send(self) -> None:
        if self._under_way >= _MAX_UNDER_WAY or not self._wanted:
            return
        chosen = dict(list(self._wanted.items())[:_MAX_AT_ONCE])
        for partition in chosen:
            del self._wanted[partition]
        self._under_way += 1
        epoch = max(wanted.broker_epoch for wanted, _ in chosen.values())
        named = self._link.request(
            Api.ALTER_PARTITION,
            _VERSION,
            _request(self._node, epoch, chosen),
            partial(self._answered, chosen),
            self._failed,
            _TIMEOUT_MS,
        )
        for partition in chosen:
            partition.proposal_sent(f"p{self._node}-{epoch}-{named}" if named else None)

    def _answered(self, sent: dict[Partition, Wanted], message: Message) -> None:
        self._under_way -= 1
        errors = {
            (topic["topic_id"], each["partition_index"]): each["error_code"]
            for topic in message["topics"]
            for each in topic["partitions"]
        }
        for partition, (wanted, _) in sent.items():
            key = (partition.topic_id, partition.key.partition)
            error = message["error_code"] or errors.get(key, 0)
            if error:
                partition.deliver(ProposalRefused(wanted.version, error))
        self._send()

    def _failed(self, error: Exception) -> None:
        # Nobody knows whether it was heard: the replicas ask again when their time has come.
        self._under_way -= 1
        _log.info("AlterPartition was not answered: %s", error)
        self._send()


def _request(
    node: NodeId,
    broker_epoch: BrokerEpoch,
    chosen: Mapping[Partition, Wanted],
) -> Message:
    topics: dict[UUID, list[Message]] = defaultdict(list)
    for partition, (wanted, known) in chosen.items():
        topics[partition.topic_id].append(
            {
                "partition_index": partition.key.partition,
                "leader_epoch": wanted.leader_epoch,
                "new_isr_with_epochs": [
                    {"broker_id": each, "broker_epoch": known.get(each, -1)}
                    for each in sorted(wanted.isr)
                ],
                "leader_recovery_state": 0,
                "partition_epoch": wanted.version,
            }
        )
    return {
        "broker_id": node,
        "broker_epoch": broker_epoch,
        "topics": [
            {"topic_id": topic_id, "partitions": partitions}
            for topic_id, partitions in topics.items()
        ],
    }
