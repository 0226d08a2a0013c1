"""Puts the lines of a trace into an order in which the spec could have taken their steps.

The order respects what must be (`hard`): each broker's lines in turn, a message sent before it is
received, a decision made before it is learned. It also tries to respect what the spec wants and
time does not promise (`soft`): a record is learned before the next one is decided, because the
spec's brokers learn the newest only; a fetch is counted before its sender moves on, because then it
need not be a late one; a refused proposal is taken back before the controller decides anything
else. Where both cannot be, soft gives way. To TLC the order is a proposal; it judges by itself.

Lines are fed in any order that keeps each broker's own, and taken out in the order found, some
lookahead later, so that memory is bounded by that and not by the length of the trace.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from itertools import pairwise
from typing import Any

from protocol.controller.trace import CONTROLLER
from spec.conformance.tracing.decisions import Decisions
from spec.conformance.tracing.items import Fetch, Item, Sent, forget
from spec.conformance.tracing.lines import Line

_LEARNING = ("BecomeLeader", "BecomeFollower", "LearnIsr")
_RESTARTS = ("CleanRestart", "LossyRestart")
_PROPOSING = ("ExpandIsr", "ShrinkIsr")


class Order:
    """Feeds on lines of one partition, and gives items in order."""

    def __init__(self) -> None:
        self.waiting = 0
        self._position = 0
        self._ready: list[tuple[int, Item]] = []
        self._held: dict[int, Item] = {}
        self._unresolved: dict[int, Item] = {}
        self._last: dict[int, Item] = {}
        self._states: dict[int, object] = {}
        self._open: dict[int, list[Sent]] = {}
        self._sent: OrderedDict[str, Sent] = OrderedDict()
        self._wanted: dict[str, list[tuple[Item, Fetch | None]]] = {}
        self._answers: OrderedDict[str, tuple[Item, Fetch]] = OrderedDict()
        self._takers: dict[str, Item] = {}
        self._answered: dict[int, str] = {}
        self._restarts: dict[int, list[tuple[int, Item]]] = {}
        self._writing: dict[int, list[int]] = {}
        self._same: set[int] = set()
        self._decisions = Decisions(self)

    def feed(self, line: Line) -> None:
        """Take the next line."""
        if line.node != CONTROLLER and line.steps and line.steps[0]["name"] == "Restart":
            self._return(line)
            return
        self._note_writing(line)
        if line.steps:
            item = self._new_item(line)
            self._link(item)
            self._note(line, item)
            self._settle(item)
        else:
            self._note(line, self._last.get(line.node))
            if line.refused and line.received is not None:
                self._decisions.refuse(line.received, self._last.get(CONTROLLER))

    def take(self) -> Item | None:
        """Give the next item; None if there is none that could be next."""
        while self._ready:
            _, item = heapq.heappop(self._ready)
            if not (item.taken or item.blocked or item.held_back > 0):
                return self._taken(item)
        if self._held:
            # Everything waits for what it would rather come after: the earliest gives way.
            return self._taken(self._held[min(self._held)])
        return None

    def give_up(self) -> bool:
        """Nothing more will be fed: let the first of those go that refer to what is not there."""
        if self._restarts:
            self._resume(next(iter(self._restarts)), None)
            return True
        if not self._unresolved:
            return False
        item = self._unresolved.pop(min(self._unresolved))
        item.unsent = True
        item.blocked -= item.missing
        item.missing = 0
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
        """File an item by whether it could be next."""
        self._held.pop(item.position, None)
        if item.taken or item.blocked:
            return
        if item.held_back > 0:
            self._held[item.position] = item
        else:
            heapq.heappush(self._ready, (item.position, item))

    def _new_item(self, line: Line) -> Item:
        self._position += 1
        self.waiting += 1
        item = Item(self._position, line, (line.node,))
        item.unchanged = self._states.get(line.node) == line.state
        self._states[line.node] = line.state
        self._append(line.node, item)
        return item

    def _append(self, node: int, item: Item) -> None:
        """Make an item the latest of a node."""
        self.hard(self._last.get(node), item)
        self._last[node] = item
        if all(step["name"] == "Consume" for step in item.line.steps):
            # Whoever is read from goes on waiting for its fetch.
            return
        for sent in self._open.pop(node, []):
            sent.until = item
            for counting in sent.counted:
                self._before_moving_on(counting, item)

    def hard(self, first: Item | None, then: Item) -> None:
        """Say that `first` comes before `then`."""
        if first is not None and not first.taken and first is not then:
            first.then.append(then)
            then.blocked += 1

    def soft(self, first: Item, then: Item | None) -> None:
        """Say that `first` had better come before `then`."""
        if then is not None and not first.taken and not then.taken and first is not then:
            first.rather_then.append(then)
            then.held_back += 1
            self._settle(then)

    def wait(self, item: Item) -> None:
        """An item refers to a line that was not fed yet."""
        item.blocked += 1
        item.missing += 1
        self._unresolved[item.position] = item

    def found(self, item: Item) -> None:
        """The line that an item refers to was fed."""
        if item.missing == 0:
            return
        item.blocked -= 1
        item.missing -= 1
        if item.missing == 0:
            self._unresolved.pop(item.position, None)
        self._settle(item)

    def _note(self, line: Line, after: Item | None) -> None:
        """Remember what a line sent, or which answer it is about to write."""
        if line.action == "RejectIsr":
            # It was refused, and asks for no change instead; copies of that are the same.
            self._same.add(line.node)
        elif any(step["name"] in _PROPOSING for step in line.steps):
            self._same.discard(line.node)
        for name in line.sent:
            sent = self._sent[name] = Sent(after, line.node in self._same)
            forget(self._sent)
            self._open.setdefault(line.node, []).append(sent)
            for item, fetch in self._wanted.pop(name, []):
                self._connect(item, fetch, sent)
                self.found(item)
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
                self._decisions.learn(item)
            elif name == "RejectIsr":
                self._decisions.take_back(item, line.received or "")
            elif name == "CommitIsr":
                self._want(item, line.received or "", None)
            elif name in _RESTARTS:
                self._link_restart(item, step["broker"])
        if line.node == CONTROLLER:
            self._decisions.decide(item)

    def _link_fetch(self, item: Item, step: dict[str, Any]) -> None:
        """A leader takes a fetch, or again one that it had parked."""
        name = step["request"]
        fetch = item.fetches.setdefault(name, Fetch())
        if step.get("again"):
            fetch.sent = fetch.sent or self._sent.get(name)
        else:
            fetch.counts = True
            self._want(item, name, fetch)
        if step.get("parked"):
            return
        self._answers[name] = (item, fetch)
        forget(self._answers)
        taker = self._takers.pop(name, None)
        if taker is not None:
            self._take_answer(item, fetch, taker)
            self.found(taker)

    def _want(self, item: Item, name: str, fetch: Fetch | None) -> None:
        """An item receives a message."""
        sent = self._sent.get(name)
        if sent is not None:
            self._connect(item, fetch, sent)
        else:
            self._wanted.setdefault(name, []).append((item, fetch))
            self.wait(item)

    def _connect(self, item: Item, fetch: Fetch | None, sent: Sent) -> None:
        self.hard(sent.after, item)
        item.after.append(sent.after)
        if fetch is None:
            item.same = sent.same
            return
        fetch.sent = sent
        sent.counted.append(item)
        if sent.until is not None:
            self._before_moving_on(item, sent.until)

    def _before_moving_on(self, counting: Item, until: Item) -> None:
        until.late.append(counting)
        self.soft(counting, until)

    def _link_answer(self, item: Item, name: str) -> None:
        """A follower takes the answer to its fetch."""
        known = self._answers.get(name)
        if known is not None:
            self._take_answer(*known, item)
        else:
            self._takers[name] = item
            self.wait(item)

    def _take_answer(self, item: Item, fetch: Fetch, taker: Item) -> None:
        fetch.taken_by = taker
        self.hard(item, taker)
        until = fetch.sent.until if fetch.sent and fetch.counts else None
        if until is None or until is taker or until in taker.then:
            return
        # The follower went on by an empty answer to a copy, and still asked the same: the leader
        # had better take it after that.
        if until in item.rather_then:
            item.rather_then.remove(until)
            until.held_back -= 1
            self._settle(until)
        self.soft(until, item)

    def _link_restart(self, item: Item, broker: int) -> None:
        """The controller registers a broker anew: one step with the broker's first line.

        If it stops again before it writes one, the first line after that tells what it had kept.
        """
        item.nodes = (CONTROLLER, broker)
        epoch = item.line.state["brokers"].get(str(broker), [0])[0] if item.line.state else 0
        self._restarts.setdefault(broker, []).append((epoch, item))
        self.wait(item)

    def _return(self, line: Line) -> None:
        """A broker's first line: it belongs to the controller's step, or to the beginning."""
        registered = [epoch for epoch, _ in self._restarts.get(line.node, ())]
        if line.incarnation in registered:
            self._resume(line.node, line)
        else:
            self._forget_session(line.node)

    def _resume(self, broker: int, line: Line | None) -> None:
        """A broker is back with a line, after one restart or several; or for good without one."""
        registered = self._restarts.pop(broker)
        later = [each for each in registered if line is not None and each[0] > line.incarnation]
        items = [item for _, item in registered[: len(registered) - len(later)]]
        if later:
            self._restarts[broker] = later
        if line is not None:
            self._find_untold(items[0], broker, line)
            items[-1].restarted = line
        self._forget_session(broker)
        for item in items:
            item.found = line
            self._append(broker, item)
            self.found(item)

    def _forget_session(self, node: int) -> None:
        self._answered.pop(node, None)
        self._states.pop(node, None)
        self._writing.pop(node, None)
        self._same.discard(node)

    def _note_writing(self, line: Line) -> None:
        """Remember what storage was asked for, until a line says that it is done."""
        if line.steps and line.state is not None and line.node != CONTROLLER:
            role_changed = any(step["name"] in _LEARNING[:2] for step in line.steps)
            done = role_changed or any(s["name"] == "FollowerHandleAnswer" for s in line.steps)
            left = [] if done else self._writing.get(line.node, [])
            self._writing[line.node] = [end for end in left if end > line.state["end"]]
        if line.writing is not None:
            self._writing.setdefault(line.node, []).append(line.writing)

    def _find_untold(self, item: Item, node: int, line: Line) -> None:
        """Find what storage had done before the broker stopped, without a line that says so."""
        before: Any = self._states.get(node)
        writing = self._writing.get(node)
        if before is None or not writing or line.state is None:
            return
        was, end = before["end"], line.state["end"]
        if before["view"]["leader"] == node:
            ends = [each for each in writing if was < each <= end]
            item.untold = tuple(pairwise([was, *ends]))
        elif was < end <= writing[-1] or end == writing[-1] < was:
            item.untold_fetch = self._answered.get(node, "")
            self._link_answer(item, item.untold_fetch)
