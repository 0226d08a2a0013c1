"""Which decisions of several controllers were made: each active one wrote down its own.

A controller writes a decision down before its records are sent to anybody, so none that was
committed is missing; but the last ones of a deposed controller may never have been. So each line
says where its controller began: at which offset of the metadata log, and after an entry of which
epoch. The last controller's log goes back to that, from there to where the one of that epoch began,
and so on; what is not on the way did not happen.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from spec.conformance.tracing.lines import Line, TraceError


@attrs.frozen
class Activation:
    """A controller that became active, and the first line that says so."""

    source: str
    where: str
    begins: tuple[int, int] | None


Activations: TypeAlias = dict[int, Activation]
"""By the epoch of the quorum."""


def note(known: Activations, line: Line, source: str) -> None:
    """Learn of an activation; raise `TraceError` if it contradicts what is known."""
    new = Activation(source, line.where, line.begins)
    first = known.setdefault(line.incarnation, new)
    if (first.source, first.begins) != (source, line.begins):
        raise TraceError(
            f"{line.where}: is by the controller of epoch {line.incarnation}, as {first.where} is,"
            " but not the same one: `incarnation` must be the epoch of the quorum in which a"
            " controller became active, and `begins` where that was"
        )


def settled(lines: list[Line], activations: Activations) -> list[Line]:
    """Give the controllers' lines of one partition in order, without decisions that were lost."""
    limits = _limits(activations)
    kept = [line for line in lines if _lasts(line, limits.get(line.incarnation))]
    return sorted(kept, key=lambda line: (line.incarnation, line.seq))


def _lasts(line: Line, limit: int | None) -> bool:
    if not line.steps:
        # A refusal changes nothing, whoever refused.
        return True
    return limit is not None and (line.offset is None or line.offset < limit)


def _limits(activations: Activations) -> dict[int, int]:
    """Find the epochs whose decisions are in the last one's log, and up to which offset."""
    limits: dict[int, int] = {}
    epoch, limit = max(activations), 1 << 62
    while True:
        limits[epoch] = limit
        earlier = [each for each in activations if each < epoch]
        if not earlier:
            return limits
        known = activations[epoch]
        if known.begins is None:
            raise TraceError(
                f"{known.where}: does not say where its controller `begins`, and there was another"
                " one before it"
            )
        offset, last_epoch = known.begins
        # A controller that decided nothing wrote nothing: the one before it will do.
        on_the_way = [each for each in earlier if each <= last_epoch]
        if not on_the_way:
            return limits
        epoch, limit = max(on_the_way), min(limit, offset)
