"""The constants of a model of `Idempotence`."""

from __future__ import annotations

import attrs

from spec.conformance.values import members, names, number, read_as
from spec.runner import ModelValue, Value
from spec.runner.config import Config


@attrs.frozen
class Constants:
    """What `Idempotence.tla` calls by the same names; producer number i is `producers[i - 1]`."""

    producers: tuple[ModelValue, ...]
    max_batches: int
    max_in_flight: int
    remembered: int
    max_sequence: int
    max_epoch: int
    faults: frozenset[Value]
    max_faults: int
    max_delays: int
    max_snapshots: int


def read_constants(config: Config) -> Constants:
    """Read the constants of a model of `Idempotence`; `NotComparableError` for another's."""
    return read_as(config, "Idempotence", _constants)


def _constants(values: dict[str, Value]) -> Constants:
    return Constants(
        producers=names(values["Producers"]),
        max_batches=number(values["MaxBatches"]),
        max_in_flight=number(values["MaxInFlight"]),
        remembered=number(values["Remembered"]),
        max_sequence=number(values["MaxSequence"]),
        max_epoch=number(values["MaxEpoch"]),
        faults=members(values["Faults"]),
        max_faults=number(values["MaxFaults"]),
        max_delays=number(values["MaxDelays"]),
        max_snapshots=number(values["MaxSnapshots"]),
    )
