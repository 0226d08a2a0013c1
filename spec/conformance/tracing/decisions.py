"""Which decision a broker learned, and by when it had to: the controller's part of the order."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import attrs

from spec.conformance.tracing.items import Item, forget

if TYPE_CHECKING:
    from spec.conformance.tracing.order import Order


@attrs.define(eq=False)
class _Decision:
    """A decision that brokers learn: it is the newest until the next one of its kind."""

    item: Item
    next: Item | None = None
    learners: list[Item] = attrs.field(factory=list)


class Decisions:
    """Links who learns with what was decided.

    Leaders learn versions. Followers learn epochs, whatever else the record says.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._decided: OrderedDict[str, _Decision] = OrderedDict()
        self._newest: dict[str, str] = {}
        self._wanted: dict[str, list[Item]] = {}
        self._refusals: OrderedDict[str, _Decision] = OrderedDict()
        self._open_refusals: list[_Decision] = []
        self._taken_back: dict[str, list[Item]] = {}

    def decide(self, item: Item) -> None:
        """The controller has decided something."""
        for refusal in self._open_refusals:
            self._follow(refusal, item)
        self._open_refusals.clear()
        state = item.line.state or {}
        for kind in ("epoch", "version"):
            self._new(kind, f"{kind} {state.get(kind)}", item)

    def _new(self, kind: str, name: str, item: Item) -> None:
        newest = self._newest.get(kind)
        if name == newest:
            return
        if newest is not None and newest in self._decided:
            self._follow(self._decided[newest], item)
        self._newest[kind] = name
        decision = self._decided[name] = _Decision(item)
        forget(self._decided)
        for learner in self._wanted.pop(name, []):
            self._connect(learner, decision)
            self._order.found(learner)

    def _follow(self, decision: _Decision, item: Item) -> None:
        decision.next = item
        for learner in decision.learners:
            self._order.soft(learner, item)

    def learn(self, item: Item) -> None:
        """A broker learns a decision."""
        view = (item.line.state or {})["view"]
        leads = view["leader"] == item.line.node
        name = f"version {view['version']}" if leads else f"epoch {view['epoch']}"
        decision = self._decided.get(name)
        if decision is not None:
            self._connect(item, decision)
        else:
            self._wanted.setdefault(name, []).append(item)
            self._order.wait(item)

    def _connect(self, learner: Item, decision: _Decision) -> None:
        self._order.hard(decision.item, learner)
        learner.after.append(decision.item)
        learner.learned = decision.item
        decision.learners.append(learner)
        if decision.next is not None:
            self._order.soft(learner, decision.next)

    def refuse(self, name: str, last: Item | None) -> None:
        """The controller refuses a proposal, which changes nothing there."""
        if last is None:
            return
        refusal = self._refusals[name] = _Decision(last)
        forget(self._refusals)
        self._open_refusals.append(refusal)
        for item in self._taken_back.pop(name, []):
            self._connect(item, refusal)
            self._order.found(item)

    def take_back(self, item: Item, name: str) -> None:
        """A leader learns that its proposal was refused."""
        refusal = self._refusals.get(name)
        if refusal is not None:
            self._connect(item, refusal)
        else:
            self._taken_back.setdefault(name, []).append(item)
            self._order.wait(item)
