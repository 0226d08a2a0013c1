"""The constants of a model, read from its .cfg, for the side that is written in Python."""

from __future__ import annotations

import attrs

from spec.runner import ModelValue, Value, parse_value
from spec.runner.config import Config
from spec.runner.errors import RunnerError


class NotComparableError(RunnerError):
    """The model's constants are not those of `Replication`."""


@attrs.frozen
class Constants:
    """What `Replication.tla` calls by the same names; replica number i is `replicas[i - 1]`."""

    replicas: tuple[ModelValue, ...]
    none: ModelValue
    first_leader: int
    min_isr: int
    unclean_election: bool
    acks_one: frozenset[int]
    max_records: int
    max_epoch: int
    max_shrinks: int
    max_faults: int
    max_delays: int


def read_constants(config: Config) -> Constants:
    """Read the constants of a model of `Replication`; raise `NotComparableError` for another's."""
    values = {
        name: parse_value(text[1:].strip())
        for name, text in config.constants.items()
        if text.startswith("=")
    }
    try:
        return _constants(values)
    except (KeyError, TypeError, ValueError) as problem:
        raise NotComparableError(f"not the constants of Replication: {problem!r}") from None


def _constants(values: dict[str, Value]) -> Constants:
    names = values["Replicas"]
    if not isinstance(names, frozenset):
        raise TypeError("Replicas is not a set")
    replicas = tuple(sorted((_name(each) for each in names), key=lambda each: each.name))
    acks_one = values["AcksOne"]
    if not isinstance(acks_one, frozenset):
        raise TypeError("AcksOne is not a set")
    return Constants(
        replicas=replicas,
        none=_name(values["None"]),
        first_leader=replicas.index(_name(values["FirstLeader"])) + 1,
        min_isr=_number(values["MinIsr"]),
        unclean_election=values["UncleanElection"] is True,
        acks_one=frozenset(_number(each) for each in acks_one),
        max_records=_number(values["MaxRecords"]),
        max_epoch=_number(values["MaxEpoch"]),
        max_shrinks=_number(values["MaxShrinks"]),
        max_faults=_number(values["MaxFaults"]),
        max_delays=_number(values["MaxDelays"]),
    )


def _name(value: Value) -> ModelValue:
    if not isinstance(value, ModelValue):
        raise TypeError(f"{value!r} is not a model value")
    return value


def _number(value: Value) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a number")
    return value
