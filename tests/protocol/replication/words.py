"""Events, effects and states as words, and back: the vocabulary of the scenario files.

An event is its name in snake case and `field=value` pairs, where the first fields may go without
their names: `became_follower 2 epoch=3`. A set of nodes is `1,2,3` (`-`: nobody), where an epoch
ends `2@5`, how many records there are of which epochs `1x3,2x1`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from protocol.errors import ErrorCode
from protocol.machine import Effect, Event
from protocol.replication import EpochEnd, Leader, Replica, ReplicaState
from protocol.replication.events import (
    ACKS_ALL,
    FetchAnswered,
    FetchReceived,
    OffsetAsked,
    ProduceReceived,
)
from protocol.replication.state import Follower, Parked, Status, Waiting
from protocol.types import NO_LEADER


def snake_case(name: str) -> str:
    """Spell a class name as scenarios do: FetchReceived is fetch_received."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


EVENTS: dict[str, type[Event]] = {
    snake_case(action.event.__name__): action.event for action in Replica.actions
}

# What most scenarios do not care about.
DEFAULTS: dict[type[Event], dict[str, object]] = {
    ProduceReceived: {"payload": None, "record_count": 1, "size_bytes": 10},
    FetchReceived: {"broker_epoch": 1},
    FetchAnswered: {"last_epoch": 0},
}

_NAMED = {
    "acks": {"all": ACKS_ALL},
    "leader": {"none": NO_LEADER},
    "timestamp_ms": {"earliest": OffsetAsked.EARLIEST, "latest": OffsetAsked.LATEST},
}


def nodes(word: str) -> frozenset[int]:
    """Read a set of nodes."""
    return frozenset() if word == "-" else frozenset(int(node) for node in word.split(","))


def epoch_end(word: str) -> EpochEnd:
    """Read where an epoch ends: `2@5`."""
    epoch, _, offset = word.partition("@")
    return EpochEnd(int(epoch), int(offset))


def record_counts(word: str) -> tuple[tuple[int, int], ...]:
    """Read how many records there are of which epochs: `1x3,2x1`."""
    pairs = (each.partition("x") for each in word.split(","))
    return tuple((int(epoch), int(count)) for epoch, _, count in pairs)


_READERS: dict[str, Callable[[str], object]] = {
    "correlation": str,
    "payload": str,
    "reason": str,
    "isr": nodes,
    "replicas": nodes,
    "diverging": epoch_end,
    "epochs": record_counts,
    "error": lambda word: ErrorCode[word],
}


UNTOLD = {"payload", "max_bytes", "min_bytes"}


def field_names(kind: Any) -> list[str]:
    """List the fields of an event or effect."""
    return [field.name for field in attrs.fields(kind)]


def value_of(field: str, word: str) -> object:
    """Read the value of an event's field."""
    if word in _NAMED.get(field, {}):
        return _NAMED[field][word]
    try:
        return _READERS.get(field, int)(word)
    except (ValueError, KeyError):
        raise ValueError(f"{word!r} is no value for {field}") from None


def arguments(fields: list[str], words: list[str]) -> dict[str, str]:
    """Sort words into fields: those without a name are for the first fields."""
    found: dict[str, str] = {}
    for place, word in enumerate(words):
        field, equals, value = word.partition("=")
        if not equals:
            if place >= len(fields) or len(found) < place:
                raise ValueError(f"{word!r} belongs to no field")
            field, value = fields[place], word
        if field not in fields:
            raise ValueError(f"there is no field {field!r}, only {', '.join(fields)}")
        if field in found:
            raise ValueError(f"{field} is given twice")
        found[field] = value
    return found


def event_of(name: str, words: list[str]) -> Event:
    """Read an event."""
    kind = EVENTS[name]
    fields = field_names(kind)
    given = {key: value_of(key, word) for key, word in arguments(fields, words).items()}
    try:
        return kind(**(DEFAULTS.get(kind, {}) | given))
    except TypeError as error:
        raise ValueError(str(error).rpartition("__init__() ")[2]) from None


def in_words(value: object) -> str:
    """Spell a value of an event, effect or state."""
    if isinstance(value, frozenset):
        return ",".join(str(node) for node in sorted(value)) or "-"
    if isinstance(value, EpochEnd):
        return f"{value.epoch}@{value.offset}"
    if isinstance(value, ErrorCode):
        return value.name
    return str(value)


def told(thing: Event | Effect) -> str:
    """Spell an event or an effect, without its payload, which nobody reads."""
    words = [snake_case(type(thing).__name__)]
    for field in field_names(type(thing)):
        value = getattr(thing, field)
        if field in UNTOLD or value is None:
            continue
        named = {number: name for name, number in _NAMED.get(field, {}).items()}
        words.append(f"{field}={named.get(value) or in_words(value)}")
    return " ".join(words)


def portrait(state: ReplicaState) -> dict[str, str]:
    """Describe a state, one line for each thing worth a line."""
    lines = dict(_common(state))
    if isinstance(state.role, Leader):
        lines |= _leader(state.role)
    elif isinstance(state.role, Follower):
        lines |= _follower(state.role)
    for parked in state.parked:
        lines[f"parked {parked.correlation}"] = _parked(parked)
    if state.deferred is not None:
        lines["deferred"] = told(state.deferred)
    if state.status is not Status.ONLINE:
        lines["status"] = state.status.value
    return lines


def _common(state: ReplicaState) -> Iterator[tuple[str, str]]:
    log, view = state.log, state.view
    epochs = "".join(f" {epoch}@{start}" for epoch, start in log.epochs)
    yield "log", f"{log.start_offset}..{log.end_offset}{epochs and ' epochs' + epochs}"
    yield "high watermark", str(state.high_watermark)
    leader = "none" if view.leader == NO_LEADER else view.leader
    words = [f"leader={leader} epoch={view.epoch}"]
    if view.version:
        words.append(f"version={view.version} isr={in_words(view.isr)}")
    if view.pending:
        words.append(f"pending={in_words(view.pending)} joiner={view.joiner}")
    yield "view", " ".join(words)


def _leader(leader: Leader) -> dict[str, str]:
    start = leader.epoch_start_offset
    lines = {"role": f"leader from {start} reserved {leader.reserved_end}"}
    if leader.expand_after_ms:
        lines["expands again"] = f"at {leader.expand_after_ms}"
    for each in leader.followers:
        lines[f"follower {each.node}"] = (
            f"end {each.end_offset} broker epoch {each.broker_epoch} "
            f"caught up at {each.caught_up_ms}"
        )
    for name, queue in (("writing", leader.writes), ("waiting", leader.waiting)):
        for write in queue:
            lines[f"{name} {write.correlation}"] = _waiting(write)
    lines["bytes in memory"] = str(leader.waiting_bytes)
    if leader.proposed is not None:
        proposed = leader.proposed
        lines["proposed"] = (
            f"{in_words(proposed.isr)} sent {proposed.attempts} retry at {proposed.retry_ms}"
        )
    return lines


def _waiting(write: Waiting) -> str:
    acks = "all" if write.acks_all else str(int(write.wants_reply))
    return f"{write.base_offset}..{write.end_offset} acks={acks} until {write.expires_ms}"


def _follower(follower: Follower) -> dict[str, str]:
    if follower.write is not None:
        log = follower.write.log
        return {"role": f"follower writing {log.start_offset}..{log.end_offset}"}
    if follower.asked_until_ms is not None:
        return {"role": f"follower asked until {follower.asked_until_ms}"}
    return {"role": f"follower asks at {follower.next_fetch_ms}"}


def _parked(parked: Parked) -> str:
    who = "consumer" if parked.follower is None else f"follower {parked.follower}"
    return f"{who} at {parked.offset} lacks {parked.missing_bytes} until {parked.expires_ms}"
