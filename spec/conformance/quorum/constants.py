"""The constants of a model of `Quorum`, for the side that is written in Python."""

from __future__ import annotations

import attrs

from spec.conformance.values import name, names, number, read_as
from spec.runner import ModelValue, Value
from spec.runner.config import Config

NOBODY = -1


@attrs.frozen
class Constants:
    """What `Quorum.tla` calls by the same names; node number i is `nodes[i - 1]`, voters first."""

    nodes: tuple[ModelValue, ...]
    voters: frozenset[int]
    none: ModelValue
    first_leader: int
    max_epoch: int
    max_records: int
    max_timeouts: int
    max_contests: int
    max_restarts: int
    max_cuts: int
    max_snapshots: int
    max_delays: int


def read_constants(config: Config) -> Constants:
    """Read the constants of a model of `Quorum`; raise `NotComparableError` for another's."""
    return read_as(config, "Quorum", _constants)


def _constants(values: dict[str, Value]) -> Constants:
    voters, observers = names(values["Voters"]), names(values["Observers"])
    nodes = (*voters, *observers)
    none, first = name(values["None"]), name(values["FirstLeader"])
    return Constants(
        nodes=nodes,
        voters=frozenset(range(1, len(voters) + 1)),
        none=none,
        first_leader=NOBODY if first == none else nodes.index(first) + 1,
        max_epoch=number(values["MaxEpoch"]),
        max_records=number(values["MaxRecords"]),
        max_timeouts=number(values["MaxTimeouts"]),
        max_contests=number(values["MaxContests"]),
        max_restarts=number(values["MaxRestarts"]),
        max_cuts=number(values["MaxCuts"]),
        max_snapshots=number(values["MaxSnapshots"]),
        max_delays=number(values["MaxDelays"]),
    )
