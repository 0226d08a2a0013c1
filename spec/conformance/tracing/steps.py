"""From the lines of a trace to the steps that `TraceReplication.tla` takes.

Three things are counted differently there. An offset of the spec counts batches, for there a record
is a batch; so each offset is looked up by the batch of its epoch that ends there. Records are named
by the order in which they were produced. And epochs and versions begin at 1 when the partition is
created; each is only ever compared with others of its kind, so this shifts them without loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from protocol.controller.trace import CONTROLLER
from spec.conformance.tracing.items import Fetch, Item
from spec.conformance.tracing.lines import Line, TraceError
from spec.runner import Function, Value, function

NOWHERE = 1_000_000_000
"""The place of a step that is not in the window: it has not been taken."""
_UNKNOWN = -1
_HEARTBEAT = "UnfenceBroker"
"""The controller's action on a heartbeat. By one that fences, a broker wants to shut down."""
_CONTROLLER_STEPS = (
    "CommitIsr",
    "ElectLeader",
    "ElectUncleanLeader",
    "FenceBroker",
    "UnfenceBroker",
    "CleanRestart",
    "LossyRestart",
)
_BROKER_STEPS = (
    "Produce",
    "LeaderHandleFetch",
    "FollowerHandleAnswer",
    "BecomeLeader",
    "BecomeFollower",
    "LearnIsr",
    "ExpandIsr",
    "ShrinkIsr",
    "RejectIsr",
    "Consume",
)


class UncoveredError(TraceError):
    """A line of something that the spec does not have, so that it tells nothing of what follows."""


@attrs.define(eq=False)
class Step:
    """A step: its fields for TLA+, and those that name other items, whose places come later."""

    item: Item
    fields: dict[str, Value]
    until: Item | None = None
    late: list[Item] | None = None


@attrs.frozen
class Constants:
    """What the partition was created with; the constants of the spec."""

    replicas: tuple[int, ...]
    first_leader: int
    min_isr: int
    unclean_election: bool


class Encoder:
    """Turns items, in the order in which they are taken, into steps."""

    def __init__(self, created: Line) -> None:
        state = created.state or {}
        if sorted(state["isr"]) != sorted(state["replicas"]) or state["elr"]:
            raise UncoveredError(
                f"{created.where}: the partition is created with replicas out of sync, and the"
                " spec begins with all of them in sync"
            )
        self.constants = Constants(
            tuple(sorted(state["replicas"])), state["leader"], state["min_isr"], state["unclean"]
        )
        self.acks_one: list[int] = []
        self._epoch_shift = state["epoch"] - 1
        self._version_shift = state["version"] - 1
        self._broker_shift = {int(node): at[0] - 1 for node, at in state["brokers"].items()}
        self._min_isr = state["min_isr"]
        self._units: dict[tuple[int, int], int] = {}
        self._epochs: list[int] = []
        self._records = 0
        self._know_first = set(self.constants.replicas)

    def steps(self, item: Item) -> list[Step]:
        """Give the steps of an item, none if the spec has none there."""
        if item.only_repeats:
            return []
        if item.line.node == CONTROLLER:
            return [made for step in item.line.steps for made in self._decision(item, step)]
        return [step for each in item.line.steps for step in self._broker_steps(item, each)]

    def _decision(self, item: Item, step: dict[str, Any]) -> Iterator[Step]:
        line, name = item.line, step["name"]
        state = line.state or {}
        if name not in _CONTROLLER_STEPS or state["min_isr"] != self._min_isr:
            raise UncoveredError(
                f"{line.where}: {line.action} is not in the spec, it tells nothing of it"
            )
        if sorted(state["replicas"]) != list(self.constants.replicas):
            raise UncoveredError(f"{line.where}: has other replicas, and the spec's stay the same")
        made = self._step(item, name, step["broker"], self._record(state))
        if name in ("CleanRestart", "LossyRestart"):
            yield from self._untold(item, step["broker"])
            self._know_first.discard(step["broker"])
            if item.restarted is not None:
                made.fields["state"] = self._replica(item.restarted)
            made.fields["keeps"] = self._kept(item)
            made.late = item.late
        elif name == "CommitIsr":
            made.fields["same"] = item.same
        elif name == "FenceBroker":
            made.fields["shutdown"] = line.action == _HEARTBEAT
        yield made

    def _untold(self, item: Item, broker: int) -> Iterator[Step]:
        """What storage had done before a broker stopped, and the broker never heard of."""
        if item.untold_fetch is not None:
            yield self._step(item, "FollowerHandleAnswer", broker)
        state = item.found.state if item.found else None
        if state is None or not item.untold:
            return
        epoch = state["epochs"][-1][0]
        for base, end in item.untold:
            self._add_batch(epoch, base, end, state)
            # Nobody was promised anything.
            self.acks_one.append(self._records)
            made = self._step(item, "Produce", broker)
            made.fields["id"] = self._records
            yield made

    def _kept(self, item: Item) -> Value:
        if item.found is None or item.found.state is None:
            return ()
        state = item.found.state
        kept = {"end": state["end"], "hw": state["hw"]}
        return Function({name: self._unit(state, offset) for name, offset in kept.items()})

    def _broker_steps(self, item: Item, step: dict[str, Any]) -> Iterator[Step]:
        line, name = item.line, step["name"]
        if name not in _BROKER_STEPS:
            raise UncoveredError(f"{line.where}: {name} is not in the spec, it tells nothing of it")
        if name == "Produce":
            self._count_batch(line, step)
        if name == "LeaderHandleFetch":
            yield from self._fetch(item, step)
            return
        made = self._step(item, self._known_as(line, name), line.node)
        if name == "FollowerHandleAnswer" and not all(each.taken for each in item.late):
            leaves = self._step(item, "LeaveCopy", line.node)
            leaves.fields["state"] = ()
            leaves.late = item.late
            yield leaves
        if name == "Produce":
            made.fields["id"] = self._records
        elif name in ("ExpandIsr", "ShrinkIsr"):
            made.fields["follower"] = step["follower"]
        elif name == "RejectIsr":
            state = item.learned.line.state if item.learned else None
            made.fields["refused"] = self._record(state) if state else ()
        elif name == "Consume":
            made.fields["count"] = self._unit(line.state or {}, step["end"])
        elif name in ("BecomeLeader", "BecomeFollower", "LearnIsr"):
            made.late = item.late
            made.fields["learned"] = self._learned(item)
        yield made

    def _learned(self, item: Item) -> Value:
        """Give the record that was decided where this broker learned it from."""
        state = item.learned.line.state if item.learned else None
        return self._record_of(state) if state else ()

    def _known_as(self, line: Line, name: str) -> str:
        """Everybody knows the first record at the start of the spec, whenever they heard of it."""
        view = (line.state or {})["view"]
        if name not in ("BecomeLeader", "BecomeFollower") or line.node not in self._know_first:
            return name
        if view["epoch"] - self._epoch_shift != 1:
            return name
        if view["leader"] == line.node and view["version"] - self._version_shift != 1:
            return "LearnIsr"
        return "Stutter"

    def _fetch(self, item: Item, step: dict[str, Any]) -> Iterator[Step]:
        """A fetch that is parked is answered with nothing, and asked again when it is answered."""
        fetch = item.fetches[step["request"]]
        again, parked = bool(step.get("again")), bool(step.get("parked"))
        if again and fetch.taken_by is None:
            return
        if not again and item.unchanged and not item.unsent and parked:
            return
        made = self._step(item, "LeaderHandleFetch", item.line.node)
        state = item.line.state or {}
        follower = step["follower"]
        made.until = fetch.sent.until if fetch.sent else None
        made.late = made.until.late if made.until else []
        made.fields["follower"] = follower
        made.fields["again"] = again
        made.fields["count"] = 0 if parked else self._count(fetch, step["offset"])
        epoch = step.get("epoch", state["view"]["epoch"]) - self._epoch_shift
        offset = self._unit(_sender_state(fetch) or state, step["offset"])
        made.fields["request"] = Function({"offset": offset, "epoch": epoch})
        yield made
        if made.fields["count"] == _UNKNOWN:
            lost = self._step(item, "LoseAnswer", item.line.node)
            lost.fields |= {name: made.fields[name] for name in ("follower", "request")}
            lost.until = made.until
            yield lost
        if parked:
            waits = self._step(item, "GoOnWaiting", item.line.node)
            waits.fields["follower"] = follower
            yield waits

    def _count(self, fetch: Fetch, offset: int) -> int:
        """Count the batches of an answer by what its follower has made of it; -1 if nobody did."""
        if fetch.taken_by is None:
            return _UNKNOWN
        state = (fetch.taken_by.found or fetch.taken_by.line).state
        if state is None:
            return _UNKNOWN
        return max(0, self._unit(state, state["end"]) - self._unit(state, offset))

    def _count_batch(self, line: Line, step: dict[str, Any]) -> None:
        state = line.state or {}
        self._add_batch(state["view"]["epoch"], step["base"], step["end"], state)
        if not step["all"]:
            self.acks_one.append(self._records)

    def _add_batch(self, epoch: int, base: int, end: int, state: dict[str, Any]) -> None:
        """Count a new batch; `state` has the log that it is in."""
        if epoch not in self._epochs:
            self._epochs.append(epoch)
            self._epochs.sort()
        self._units[epoch, end] = self._unit(state, base) + 1
        self._records += 1

    def _step(self, item: Item, act: str, node: int, record: Value = ()) -> Step:
        line = item.line
        acked = (self._unit(line.state or {}, offset) for offset in line.acked)
        fields: dict[str, Value] = {
            "act": act,
            "node": node,
            "nodes": frozenset(item.nodes),
            "state": self._replica(line) if line.node != CONTROLLER else (),
            "record": record,
            "acked": frozenset(acked),
        }
        return Step(item, fields)

    def _unit(self, state: dict[str, Any], offset: int) -> int:
        """Count the batches before an offset of this log."""
        if offset == 0:
            return 0
        for epoch, start in reversed(state["epochs"]):
            if start < offset:
                return self._units.get((epoch, offset), _UNKNOWN)
        # Retention has deleted what was before it, whatever epoch that had.
        for epoch in reversed(self._epochs):
            if (epoch, offset) in self._units:
                return self._units[epoch, offset]
        return _UNKNOWN

    def _replica(self, line: Line) -> Value:
        state = line.state or {}
        runs = [
            Function({"epoch": epoch - self._epoch_shift, "start": self._unit(state, start)})
            for epoch, start in state["epochs"]
        ]
        return Function(
            {
                "end": self._unit(state, state["end"]),
                "from": self._unit(state, state["start"]),
                "runs": tuple(runs),
                "hw": self._unit(state, state["hw"]),
                "view": self._view(state["view"]),
                "remote": self._remote(state),
            }
        )

    def _view(self, view: dict[str, Any]) -> Value:
        joiners = set(view["pending"]) - set(view["isr"])
        joiner = view["joiner"]
        if joiner and joiners:
            joiner -= self._broker_shift.get(min(joiners), 0)
        return Function(
            {
                "leader": view["leader"],
                "epoch": _shifted(view["epoch"], self._epoch_shift),
                "version": _shifted(view["version"], self._version_shift),
                "isr": frozenset(view["isr"]),
                "pending": frozenset(view["pending"]),
                "joiner": joiner,
            }
        )

    def _remote(self, state: dict[str, Any]) -> Value:
        table: dict[int, Value] = {}
        for node in self.constants.replicas:
            end, epoch = state["followers"].get(str(node), (0, 0))
            epoch = _shifted(epoch, self._broker_shift.get(node, 0))
            table[node] = Function({"endOffset": self._unit(state, end), "brokerEpoch": epoch})
        return function(table)

    def _record_of(self, state: dict[str, Any]) -> Function:
        record = {
            "leader": state["leader"],
            "epoch": state["epoch"] - self._epoch_shift,
            "version": state["version"] - self._version_shift,
            "isr": frozenset(state["isr"]),
            "elr": frozenset(state["elr"]),
        }
        return Function(record)

    def _record(self, state: dict[str, Any]) -> Value:
        brokers: dict[int, Value] = {}
        for node in self.constants.replicas:
            epoch, fenced = state["brokers"].get(str(node), (0, True))
            epoch -= self._broker_shift.get(node, 0)
            brokers[node] = Function({"epoch": epoch, "fenced": bool(fenced)})
        return Function({"ctl": self._record_of(state), "broker": function(brokers)})


def _sender_state(fetch: Fetch) -> dict[str, Any] | None:
    """Find the state that a fetch was sent from: an offset of it is one of the follower's log."""
    after = fetch.sent.after if fetch.sent else None
    if after is None:
        return None
    return (after.restarted or after.line).state


def _shifted(number: int, shift: int) -> int:
    """Shift a number of which 0 says that there is none."""
    return number - shift if number else 0
