"""The constants of a model of `Replication`."""

from __future__ import annotations

import attrs

from spec.conformance.values import members, name, names, number, read_as
from spec.runner import ModelValue, Value
from spec.runner.config import Config


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
    """Read the constants of a model of `Replication`; `NotComparableError` for another's."""
    return read_as(config, "Replication", _constants)


def _constants(values: dict[str, Value]) -> Constants:
    replicas = names(values["Replicas"])
    return Constants(
        replicas=replicas,
        none=name(values["None"]),
        first_leader=replicas.index(name(values["FirstLeader"])) + 1,
        min_isr=number(values["MinIsr"]),
        unclean_election=values["UncleanElection"] is True,
        acks_one=frozenset(number(each) for each in members(values["AcksOne"])),
        max_records=number(values["MaxRecords"]),
        max_epoch=number(values["MaxEpoch"]),
        max_shrinks=number(values["MaxShrinks"]),
        max_faults=number(values["MaxFaults"]),
        max_delays=number(values["MaxDelays"]),
    )
