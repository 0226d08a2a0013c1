"""Producer ids: brokers get them in blocks, and no id is ever in two of them.

What a broker does not use of its block when it stops is lost; there are enough.
"""

from __future__ import annotations

from typing import Final

from protocol.controller.actions.brokers import known_broker
from protocol.controller.actions.table import Answer, Draft, RefusedError, command
from protocol.controller.effects import ProducerIdBlock
from protocol.controller.events import AllocateProducerIds
from protocol.controller.records import ProducerIdsRecord
from protocol.controller.rules import ControllerRules
from protocol.controller.state import ControllerState
from protocol.errors import ErrorCode
from protocol.idempotence.fold import ProducerId

MAX_PRODUCER_ID: Final[ProducerId] = 2**63 - 1


@command("AllocateProducerIds", AllocateProducerIds)
def allocate_producer_ids(
    rules: ControllerRules,
    state: ControllerState,
    event: AllocateProducerIds,
    now_ms: int,
) -> Answer:
    """Give a broker the next block; a request that is sent twice costs one more."""
    del rules, now_ms
    broker = known_broker(state, event.node)
    if event.broker_epoch != broker.epoch:
        raise RefusedError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {event.node} has epoch {broker.epoch}, not {event.broker_epoch}",
        )
    first, count = state.image.next_producer_id, state.config.producer_id_block
    if first > MAX_PRODUCER_ID - count:
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, "there are no producer ids left")
    draft = Draft(state.image)
    draft.add(ProducerIdsRecord(event.node, event.broker_epoch, first + count))
    return Answer(draft, ProducerIdBlock(first, count))
