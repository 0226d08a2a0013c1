"""One node, told what happens to it, word by word: for tests of what it does about each event."""

from __future__ import annotations

from protocol.machine import Effects, Event
from protocol.quorum import NOBODY, Follower, Leader, Quorum, Rules
from protocol.quorum import effects as do
from protocol.quorum import events as e
from protocol.replication.log import Log, appended
from protocol.types import Epoch, NodeId, Offset
from tests.protocol.quorum.parts import CONFIG

THREE = frozenset({1, 2, 3})
FIVE = frozenset({1, 2, 3, 4, 5})
FAR_MS = 10_000


def a_log(*epochs: Epoch) -> Log:
    """Make a log of entries of these epochs."""
    log = Log()
    for end, epoch in enumerate(epochs, start=1):
        log = appended(log, epoch, end)
    return log


class Told:
    """A node of the quorum, and what it did last."""

    def __init__(
        self,
        node: NodeId = 1,
        voters: frozenset[NodeId] = THREE,
        *,
        epoch: Epoch = 0,
        voted: NodeId = NOBODY,
        log: Log | None = None,
        rules: Rules | None = None,
    ) -> None:
        self.machine = Quorum.restarted(
            node, voters, epoch=epoch, voted=voted, log=log, config=CONFIG, rules=rules
        )
        self.now_ms = 0

    def handle(self, event: Event) -> Effects:
        """Tell it of one event."""
        return self.machine.handle(event, self.now_ms)

    def then(self, event: Event) -> Effects:
        """Tell it of one event, and of every write at once that it is done; give all effects."""
        todo, seen = list(self.handle(event)), list[object]()
        while todo:
            effect = todo.pop(0)
            seen.append(effect)
            if isinstance(effect, do.SaveVote):
                todo += self.handle(e.VoteSaved())
            elif isinstance(effect, do.Append):
                todo += self.handle(e.Appended(effect.end_offset))
            elif isinstance(effect, do.Truncate):
                todo += self.handle(e.Truncated(effect.end_offset))
            elif isinstance(effect, do.InstallSnapshot):
                todo += self.handle(e.SnapshotInstalled())
        return tuple(seen)  # type: ignore[arg-type]

    def wait(self) -> None:
        """Let much time pass."""
        self.now_ms += FAR_MS

    def follow(self, leader: NodeId, epoch: Epoch) -> Effects:
        """Let it follow a leader, and ask it."""
        self.then(e.LeaderAnnounced("a", epoch, leader))
        assert isinstance(self.machine.state.role, Follower)
        return self.handle(e.FetchDue())

    def stand(self) -> Epoch:
        """Let it become a candidate, with the pre-votes of all others; give its epoch."""
        self.wait()
        state = self.machine.state
        timer = e.FetchTimedOut() if isinstance(state.role, Follower) else e.ElectionDue()
        self.then(timer)
        for voter in sorted(state.voters - {state.node}):
            attempt = getattr(self.machine.state.role, "attempt", 0)
            self.then(e.VoteAnswered(voter, state.epoch, NOBODY, True, True, attempt))
        return self.machine.state.epoch

    def lead(self) -> Epoch:
        """Let it be elected; give its epoch."""
        epoch = self.stand()
        for voter in sorted(self.machine.state.voters - {self.machine.state.node}):
            self.then(e.VoteAnswered(voter, epoch, NOBODY, True))
        assert isinstance(self.machine.state.role, Leader)
        return epoch

    def propose(self, count: int = 1) -> Effects:
        """Let the controller above propose records."""
        state = self.machine.state
        assert isinstance(state.role, Leader)
        base = state.role.reserved_end
        return self.handle(e.RecordsProposed("p", state.epoch, base, count, ()))

    def fetch(self, node: NodeId, offset: Offset, last_epoch: Epoch, hw: Offset = 0) -> Effects:
        """Let a node fetch from it, which waits for nothing."""
        epoch = self.machine.state.epoch
        return self.handle(e.FetchReceived(node, node, epoch, offset, last_epoch, hw))
