"""Puts the lines of a trace into an order in which the spec could have taken their steps.

The order respects what must be (`hard`): each broker's lines in turn, a message sent before it is
received, a decision made before it is learned. It also tries to respect what the spec wants and
time does not promise (`soft`): a record is learned before the next one is decided, because the
spec's brokers learn the newest only; a fetch is counted before its sender moves on, because then it
need not be a late one; a refused proposal is taken back before the controller decides anything
else. Where both cannot be, soft gives way. TLC is told the order as a proposal and judges by itself.

Lines are fed in any order that keeps each broker's own, and taken out in the order found, some
`lookahead` later, so that memory is bounded by that and not by the trace.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import attrs

from protocol.controller.trace import CONTROLLER
from spec.conformance.trace_lines import Line

_MESSAGES_KEPT = 50_000
_LEARNING = ("BecomeLeader", "BecomeFollower", "LearnIsr")


@attrs.define(eq=False)
class Item:
    """A line with steps, and what has to come before it.

    `restarted` is the first line of a new incarnation, which goes with the controller's decision.
    `late` are the fetches that their sender leaves behind if they are not counted before this.
    """

    position: int
    line: Line
    nodes: tuple[int, ...]
    blocked: int = 0
    held_back: int = 0
    unsent: bool = False
    taken: bool = False
    first: int = 0
    last: int = 0
    restarted: Line | None = None
    before_this: list[Item] = attrs.field(factory=list)
    then: list[Item] = attrs.field(factory=list)
    rather_then: list[Item] = attrs.field(factory=list)
    late: list[Item] = attrs.field(factory=list)
    fetches: dict[str, Fetch] = attrs.field(factory=dict)


@attrs.define(eq=False)
class Sent:
    """A message: the last step of its sender before it, and the first one after it."""

    by: int
    after: Item | None
    until: Item | None = None


@attrs.define(eq=False)
class Fetch:
    """A fetch as a leader took it; `sent` by the follower, its answer `taken_by` that, if it was."""

    sent: Sent | None = None
    taken_by: Item | None = None


class Order:
    """Feeds on lines, and gives items in order."""

    def __init__(self) -> None:
        self.waiting = 0
        self._position = 0
        self._ready: list[tuple[int, int, Item]] = []
        self._held: dict[int, Item] = {}
        self._unresolved: dict[int, Item] = {}
        self._last: dict[int, Item] = {}
        self._open: dict[int, list[Sent]] = {}
        self._sent: OrderedDict[str, Sent] = OrderedDict()
        self._wanted: dict[str, list[tuple[Item, Fetch | None]]] = {}
        self._answers: OrderedDict[str, tuple[Item, Fetch]] = OrderedDict()
        self._takers: dict[str, Item] = {}
        self._answered: dict[int, str] = {}
        self._decisions = _Decisions(self)
        self._restarts: dict[tuple[int, int], Item] = {}
        self._returned: dict[tuple[int, int], Line] = {}
        self._born: set[int] = set()

    def feed(self, line: Line) -> None:
        """Take the next line."""
        if line.node != CONTROLLER and line.steps and line.steps[0]["name"] == "Restart":
            self._return(line)
            return
        if not line.steps:
            self._note(line, self._last.get(line.node))
            if line.refused and line.received is not None:
                self._decisions.refuse(line.received, self._last.get(CONTROLLER))
            return
        item = self._new_item(line)
        self._link(item)
        self._note(line, item)
        self._settle(item)

    def take(self) -> Item | None:
        """Give the next item; None if there is none that could be next."""
        while self._ready or self._held:
            if self._ready:
                _, _, item = heapq.heappop(self._ready)
            else:
                # Everything waits for what it would rather come after: the earliest gives way.
                item = self._held.pop(min(self._held))
            if item.taken or item.blocked:
                continue
            if item.held_back and self._held.get(item.position) is item:
                continue
            return self._taken(item)
        return None

    def give_up(self) -> bool:
        """Nothing more will be fed: let the first of the items go whose message nobody sent."""
        if not self._unresolved:
            return False
        item = self._unresolved.pop(min(self._unresolved))
        item.unsent = True
        item.blocked = sum(1 for each in item.before_this if not each.taken)
        self._settle(item)
        return True

    def _taken(self, item: Item) -> Item:
        item.taken = True
        self.waiting -= 1
        self._held.pop(item.position, None)
        for other in item.then:
            other.blocked -= 1
            self._settle(other)
        for other in item.rather_then:
            other.held_back -= 1
            self._settle(other)
        return item

    def _settle(self, item: Item) -> None:
        if item.taken or item.blocked:
            return
        if item.held_back > 0:
            self._held[item.position] = item
        else:
            self._held.pop(item.position, None)
            heapq.heappush(self._ready, (item.position, id(item), item))

    def _new_item(self, line: Line) -> Item:
        self._position += 1
        self.waiting += 1
        item = Item(self._position, line, (line.node,))
        self._append(line.node, item)
        return item

    def _append(self, node: int, item: Item) -> None:
        """Make an item the latest of a node."""
        self.hard(self._last.get(node), item)
        self._last[node] = item
        for sent in self._open.pop(node, []):
            sent.until = item

    def hard(self, first: Item | None, then: Item) -> None:
        """Say that `first` comes before `then`."""
        if first is not None and not first.taken and first is not then:
            first.then.append(then)
            then.before_this.append(first)
            then.blocked += 1

    def soft(self, first: Item, then: Item | None) -> None:
        """Say that `first` had better come before `then`."""
        if then is not None and not first.taken and not then.taken and first is not then:
            first.rather_then.append(then)
            then.held_back += 1
            if not then.blocked:
                self._settle(then)

    def wait(self, item: Item) -> None:
        """An item refers to a line that was not fed yet."""
        item.blocked += 1
        self._unresolved[item.position] = item

    def found(self, item: Item) -> None:
        """The line that an item refers to was fed."""
        item.blocked -= 1
        self._unresolved.pop(item.position, None)
        self._settle(item)

    def _note(self, line: Line, after: Item | None) -> None:
        """Remember what a line sent, or which answer it is about to write."""
        for name in line.sent:
            sent = Sent(line.node, after)
            self._sent[name] = sent
            self._open.setdefault(line.node, []).append(sent)
            for item, fetch in self._wanted.pop(name, []):
                self._connect(item, fetch, sent)
                self.found(item)
            _forget(self._sent)
        if line.received is not None and not line.steps and line.node != CONTROLLER:
            self._answered[line.node] = line.received

    def _link(self, item: Item) -> None:
        line = item.line
        for step in line.steps:
            name = step["name"]
            if name == "LeaderHandleFetch":
                self._link_fetch(item, step)
            elif name == "FollowerHandleAnswer":
                self._link_answer(item, line.received or self._answered.pop(line.node, ""))
            elif name in _LEARNING:
                self._decisions.learn(item, name)
            elif name == "RejectIsr":
                self._decisions.take_back(item, line.received or "")
            elif name == "CommitIsr":
                self._want(item, line.received or "", None)
            elif name in ("CleanRestart", "LossyRestart"):
                self._link_restart(item, step)
        if line.node == CONTROLLER:
            self._decisions.decide(item)

    def _link_fetch(self, item: Item, step: dict[str, Any]) -> None:
        name = step["request"]
        fetch = item.fetches.get(name)
        if fetch is None:
            fetch = item.fetches[name] = Fetch()
            self._want(item, name, fetch)
        if not step.get("parked"):
            self._answers[name] = (item, fetch)
            _forget(self._answers)
            taker = self._takers.pop(name, None)
            if taker is not None:
                fetch.taken_by = taker
                self.hard(item, taker)
                self.found(taker)

    def _want(self, item: Item, name: str, fetch: Fetch | None) -> None:
        sent = self._sent.get(name)
        if sent is not None:
            self._connect(item, fetch, sent)
        else:
            self._wanted.setdefault(name, []).append((item, fetch))
            self.wait(item)

    def _connect(self, item: Item, fetch: Fetch | None, sent: Sent) -> None:
        self.hard(sent.after, item)
        if fetch is not None:
            fetch.sent = sent
            if sent.until is not None:
                self._before_moving_on(item, sent.until)
            else:
                sent_until_later = _Later(self, item)
                self._watch(sent, sent_until_later)

    def _watch(self, sent: Sent, later: _Later) -> None:
        # The follower has not moved on as far as is known: look again when this item is taken.
        later.sent = sent
        later.item.before_this.append(later.item)
        later.item.before_this.pop()
        self._pending_untils.append(later)

    def _before_moving_on(self, item: Item, until: Item) -> None:
        until.late.append(item)
        self.soft(item, until)

    def _link_answer(self, item: Item, name: str) -> None:
        known = self._answers.get(name)
        if known is not None:
            known[1].taken_by = item
            self.hard(known[0], item)
        else:
            self._takers[name] = item
            self.wait(item)
