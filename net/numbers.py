"""Where the numbers of a node are, for whoever measures it: `net.metrics` asks for them."""

from __future__ import annotations

from collections.abc import Iterator

from net.broker.broker import Broker
from net.controller.node import ControllerNode
from net.metadata.image import Change
from net.metadata.node import QuorumNode
from net.metrics.counters import ControllerCounters
from net.metrics.samples import (
    BrokerSample,
    ClusterSample,
    PartitionSample,
    QuorumSample,
    Sources,
)
from net.server import Server
from net.settings.broker import BrokerSettings
from net.wire.apis import Api
from protocol.replication import Leader, Status
from protocol.types import NO_LEADER


def sources_of(
    settings: BrokerSettings,
    quorum: QuorumNode,
    server: Server,
    broker: Broker | None,
    controller: ControllerNode | None,
) -> Sources:
    """Say where a node's numbers are."""
    decided = None if controller is None else Decided(quorum, controller)
    return Sources(
        settings.node_id,
        partitions=lambda: _partitions(broker) if broker is not None else (),
        broker=lambda: _broker(broker) if broker is not None else None,
        quorum=lambda: _quorum(quorum, settings, controller),
        cluster=lambda: None if decided is None else decided.sample(),
        server=server.counters,
        broker_counters=broker.counters if broker is not None else None,
        controller_counters=None if decided is None else decided.counters,
        api_name=lambda key: Api(key).name.lower(),
        is_ready=lambda: _is_ready(quorum, broker),
    )


def _is_ready(quorum: QuorumNode, broker: Broker | None) -> bool:
    return broker.is_ready if broker is not None else quorum.leader[0] != NO_LEADER


def _partitions(broker: Broker) -> Iterator[PartitionSample]:
    for key, partition in broker.replicas.partitions.items():
        state = partition.state
        leads = isinstance(state.role, Leader)
        record = broker.image.partitions.get(key)
        yield PartitionSample(
            key.topic,
            key.partition,
            partition.counters,
            leads,
            state.log.start_offset,
            state.log.end_offset,
            state.high_watermark,
            partition.log.size_bytes,
            len(record.replicas) if record is not None else 0,
            len(state.view.isr) if leads else 0,
            state.config.min_isr,
            state.status is Status.OFFLINE,
        )


def _broker(broker: Broker) -> BrokerSample:
    waiting = 0
    for partition in broker.replicas.partitions.values():
        role = partition.state.role
        if isinstance(role, Leader):
            waiting += len(role.waiting) + len(role.writes)
    lifecycle = broker.lifecycle
    return BrokerSample(
        fenced=lifecycle is None or lifecycle.is_fenced,
        epoch=broker.epoch,
        waiting_produces=waiting,
        waiting_fetches=broker.fetching.waiting,
        fetch_sessions=broker.fetching.session_count,
        metadata_offset=broker.metadata_offset,
    )


def _quorum(
    quorum: QuorumNode, settings: BrokerSettings, controller: ControllerNode | None
) -> QuorumSample:
    leader, epoch = quorum.leader
    return QuorumSample(
        leader,
        epoch,
        quorum.high_watermark,
        quorum.state.log.end_offset,
        settings.is_controller,
        controller is not None and controller.is_active,
    )


class Decided:
    """What a controller decides while it is the active one, as the metadata tell."""

    def __init__(self, quorum: QuorumNode, controller: ControllerNode) -> None:
        self.counters = ControllerCounters()
        self._quorum = quorum
        self._controller = controller
        self._epoch = -1
        quorum.images.subscribe(self._changed)

    def sample(self) -> ClusterSample | None:
        """Tell what the active controller sees; `None` if this is not the one."""
        if not self._is_active():
            return None
        image = self._controller.deciding
        return ClusterSample(
            len(image.brokers),
            sum(each.fenced for each in image.brokers.values()),
            len(image.topics),
            len(image.partitions),
            sum(each.leader == NO_LEADER for each in image.partitions.values()),
        )

    def _is_active(self) -> bool:
        if not self._controller.is_active:
            return False
        epoch = self._quorum.leader[1]
        if epoch != self._epoch:
            self._epoch = epoch
            self.counters.terms += 1
        return True

    def _changed(self, change: Change) -> None:
        if not self._is_active():
            return
        counters = self.counters
        for key in change.partitions:
            before, after = change.before.partitions.get(key), change.after.partitions.get(key)
            if before is None or after is None or after.leader == NO_LEADER:
                continue
            if after.leader_epoch > before.leader_epoch and after.leader != before.leader:
                counters.elections += 1
                counters.unclean_elections += after.leader not in before.isr | before.elr
        for node in change.brokers:
            was, now = change.before.brokers.get(node), change.after.brokers.get(node)
            if was is not None and now is not None:
                counters.brokers_fenced += now.fenced and not was.fenced
