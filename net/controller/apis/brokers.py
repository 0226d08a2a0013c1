"""What brokers ask for themselves: to register, to stay alive, to go, and for producer ids."""

from __future__ import annotations

import logging
import uuid
from typing import Final

from net.controller.apis.exchange import (
    OK,
    Exchange,
    Failure,
    Handling,
    Table,
    failure_of,
)
from net.wire.apis import Api
from net.wire.library import Message
from protocol.controller import (
    AllocateProducerIds,
    Heartbeat,
    HeartbeatAnswer,
    ProducerIdBlock,
    Refuse,
    RegisterBroker,
    Registered,
    Reply,
    Unregister,
)
from protocol.errors import ErrorCode

_log = logging.getLogger(__name__)

MAX_LISTENERS: Final = 16
MAX_NAME_CHARS: Final = 255


def broker_registration(exchange: Exchange) -> None:
    """Let a broker take part, as this incarnation."""
    message = exchange.message
    failure = _objection(exchange)
    if failure is not None:
        exchange.respond(_registered(message, failure, -1))
        return
    # A broker knows its last epoch only if it stopped in good order (KIP-966).
    previous: int = max(message.get("previous_broker_epoch", -1), 0)
    endpoints = tuple(
        (each["name"], each["host"], each["port"], each["security_protocol"])
        for each in message["listeners"]
    )

    def done(answer: Reply | Refuse) -> None:
        value = answer.value if isinstance(answer, Reply) else None
        epoch = value.epoch if isinstance(value, Registered) else -1
        exchange.respond(_registered(message, failure_of(answer), epoch))

    exchange.node.command(
        lambda correlation: RegisterBroker(
            correlation,
            message["broker_id"],
            str(message["incarnation_id"]),
            previous_broker_epoch=previous,
            clean_shutdown=previous > 0,
            endpoints=endpoints,
            rack=message["rack"] or "",
        ),
        done,
    )


def _objection(exchange: Exchange) -> Failure | None:
    message = exchange.message
    if message["cluster_id"] != exchange.node.cluster_id:
        return Failure(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"this is the cluster {exchange.node.cluster_id}, not {message['cluster_id']}",
        )
    if message["incarnation_id"] == uuid.UUID(int=0):
        return Failure(ErrorCode.INVALID_REQUEST, "a broker needs an incarnation")
    if message.get("is_migrating_zk_broker"):
        return Failure(ErrorCode.INVALID_REQUEST, "there is no ZooKeeper to migrate from")
    listeners: list[Message] = message["listeners"]
    if not 1 <= len(listeners) <= MAX_LISTENERS:
        return Failure(ErrorCode.INVALID_REQUEST, f"{len(listeners)} listeners, 1 to 16 may be")
    names = [message["rack"] or ""]
    names += [text for each in listeners for text in (each["name"], each["host"])]
    if any(len(name) > MAX_NAME_CHARS for name in names):
        return Failure(ErrorCode.INVALID_REQUEST, "a name of more than 255 characters")
    return None


def _registered(message: Message, failure: Failure, epoch: int) -> Message:
    if failure.code != ErrorCode.NONE:
        # The answer has no place for a reason.
        _log.warning("broker %s may not register: %s", message["broker_id"], failure.text)
    return {"error_code": int(failure.code), "broker_epoch": epoch}


def registration_refused(message: Message, failure: Failure) -> Message:
    """Refuse a registration."""
    del message
    return {"error_code": int(failure.code), "broker_epoch": -1}


def broker_heartbeat(exchange: Exchange) -> None:
    """Keep a broker's session alive; unfence it when it has seen its own registration."""
    message = exchange.message
    node, epoch = message["broker_id"], message["broker_epoch"]
    registered_at = exchange.node.registered_at(node, epoch)
    offset: int = message["current_metadata_offset"]
    caught_up = registered_at is not None and offset >= registered_at

    def done(answer: Reply | Refuse) -> None:
        value = answer.value if isinstance(answer, Reply) else None
        if not isinstance(value, HeartbeatAnswer):
            exchange.respond(heartbeat_refused(message, failure_of(answer)))
            return
        exchange.respond(
            {
                "error_code": int(OK.code),
                "is_caught_up": caught_up,
                "is_fenced": value.fenced,
                "should_shut_down": value.may_stop,
            }
        )

    exchange.node.command(
        lambda correlation: Heartbeat(
            correlation,
            node,
            epoch,
            wants_shutdown=message["want_shut_down"],
            caught_up=caught_up and not message["want_fence"],
        ),
        done,
    )


def heartbeat_refused(message: Message, failure: Failure) -> Message:
    """Refuse a heartbeat."""
    del message
    return {"error_code": int(failure.code), "is_caught_up": False, "is_fenced": True}


def unregister_broker(exchange: Exchange) -> None:
    """Forget a broker."""
    node = exchange.message["broker_id"]
    exchange.node.command(
        lambda correlation: Unregister(correlation, node),
        lambda answer: exchange.respond(failure_of(answer).fields),
    )


def unregister_refused(message: Message, failure: Failure) -> Message:
    """Refuse to forget a broker."""
    del message
    return failure.fields


def allocate_producer_ids(exchange: Exchange) -> None:
    """Give a broker a block of producer ids."""
    message = exchange.message

    def done(answer: Reply | Refuse) -> None:
        block = answer.value if isinstance(answer, Reply) else None
        if not isinstance(block, ProducerIdBlock):
            exchange.respond(allocation_refused(message, failure_of(answer)))
            return
        exchange.respond(
            {
                "error_code": int(OK.code),
                "producer_id_start": block.first,
                "producer_id_len": block.count,
            }
        )

    exchange.node.command(
        lambda correlation: AllocateProducerIds(
            correlation, message["broker_id"], message["broker_epoch"]
        ),
        done,
    )


def allocation_refused(message: Message, failure: Failure) -> Message:
    """Refuse to give producer ids."""
    del message
    return {"error_code": int(failure.code), "producer_id_start": -1, "producer_id_len": 0}


TABLE: Final[Table] = {
    Api.BROKER_REGISTRATION: Handling(broker_registration, registration_refused, forwarded=False),
    Api.BROKER_HEARTBEAT: Handling(broker_heartbeat, heartbeat_refused, forwarded=False),
    Api.UNREGISTER_BROKER: Handling(unregister_broker, unregister_refused),
    Api.ALLOCATE_PRODUCER_IDS: Handling(allocate_producer_ids, allocation_refused, forwarded=False),
}
