"""What `order` sorts: lines with steps, the messages between them, and what they wait for."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import attrs

from spec.conformance.tracing.lines import Line

_MESSAGES_KEPT = 50_000


def forget(messages: OrderedDict[str, Any]) -> None:
    """Let go of the oldest message, if there are too many to remember."""
    if len(messages) > _MESSAGES_KEPT:
        messages.popitem(last=False)


@attrs.define(eq=False)
class Item:
    """A line with steps, and how many things have to come before it (`blocked`, `held_back`).

    `restarted` is the first line of a new incarnation, which goes with the controller's decision.
    `late` are fetches that their sender leaves behind if they are not counted before this.
    `unchanged`: the state afterwards is that of the line before. `unsent`: it refers to a message
    or a decision that the trace does not have. `first` and `last` are its steps' places, once they
    have one.

    `learned` is the decision that is learned here, `same` a proposal to change nothing. Of a
    restart, `found` is the line that tells what the disk has kept, if not `restarted` then one
    after more restarts; and what had been written, but was not told before: `untold`, a leader's
    batches by where they begin and end, or `untold_fetch`, whose answer a follower had written.
    """

    position: int
    line: Line
    nodes: tuple[int, ...]
    blocked: int = 0
    missing: int = 0
    held_back: int = 0
    unchanged: bool = False
    unsent: bool = False
    taken: bool = False
    first: int | None = None
    last: int | None = None
    restarted: Line | None = None
    found: Line | None = None
    learned: Item | None = None
    same: bool = False
    untold: tuple[tuple[int, int], ...] = ()
    untold_fetch: str | None = None
    after: list[Item | None] = attrs.field(factory=list)
    then: list[Item] = attrs.field(factory=list)
    rather_then: list[Item] = attrs.field(factory=list)
    late: list[Item] = attrs.field(factory=list)
    fetches: dict[str, Fetch] = attrs.field(factory=dict)

    def __lt__(self, other: Item) -> bool:
        return self.position < other.position

    def let_go(self) -> None:
        """Forget others, when all is done: or each line would keep all lines before it."""
        self.after.clear()
        self.then.clear()
        self.rather_then.clear()
        self.late.clear()
        self.fetches.clear()
        self.learned = None

    @property
    def only_repeats(self) -> bool:
        """Whether this is a fetch that changes nothing, and whose answer nobody takes."""
        steps = self.line.steps
        return (
            self.unchanged
            and not self.unsent
            and all(step["name"] == "LeaderHandleFetch" for step in steps)
            and all(fetch.taken_by is None for fetch in self.fetches.values())
        )


@attrs.define(eq=False)
class Sent:
    """A message: its sender's last step before it, the first after it, and who counted it.

    `same`: a proposal of the ISR as it is.
    """

    after: Item | None
    same: bool = False
    until: Item | None = None
    counted: list[Item] = attrs.field(factory=list)


@attrs.define(eq=False)
class Fetch:
    """A fetch as a leader took it: as its follower sent it, and as that took the answer, if so."""

    sent: Sent | None = None
    taken_by: Item | None = None
    counts: bool = False
