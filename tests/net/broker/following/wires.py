"""A follower and its leader with nothing but a wire between them, which a test may cut or tamper.

Everything else is real: partitions, sessions, fetchers, the codec. Time stands still unless a test
moves it.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence

import attrs

from net.broker.fetching import FollowerSessions
from net.broker.following import FetcherConfig, Fetchers
from net.broker.following.seams import Follower
from net.driving import Timers
from net.errors import ConnectionLost, MalformedRequest
from net.transport.seam import Buffer, Part
from net.wire.apis import Api
from net.wire.fetch import FetchRequest, parse_fetch
from protocol.replication import ReplicaConfig
from tests.net.broker.fetching.worlds import MAX_ROUNDS, Clock, Node, content

LEADER, FOLLOWER = 1, 2


@attrs.define(eq=False)
class Sent:
    """A request on its way, and back."""

    wire: "Wire"
    version: int
    correlation_id: int
    fetch: FetchRequest
    on_answer: Callable[[memoryview], None]
    on_failure: Callable[[Exception], None]

    def reply(self, parts: Sequence[Part]) -> None:
        body = b"".join(content(part) for part in parts)
        self.wire.world.arriving.append((self, self.wire.world.tamper(body)))


class Wire:
    """What `Fetchers` dials: it has answers in order, and fails as a channel does."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.open: deque[Sent] = deque()
        self.closed = False

    def request(
        self,
        api: int,
        version: int,
        parts: Sequence[Buffer],
        on_answer: Callable[[memoryview], None],
        on_failure: Callable[[Exception], None],
        timeout_ms: int,
    ) -> int:
        assert api == Api.FETCH
        assert timeout_ms > 0
        world = self.world
        world.correlation += 1
        fetch = parse_fetch(version, b"".join(parts))
        sent = Sent(self, version, world.correlation, fetch, on_answer, on_failure)
        self.open.append(sent)
        world.sent.append(fetch)
        world.most_in_flight = max(world.most_in_flight, len(self.open))
        if world.is_connected:
            world.sessions.handle(sent, fetch)
        else:
            world.lost.append(self)
        return sent.correlation_id

    def close(self) -> None:
        self.closed = True
        self.fail(ConnectionLost("closed"))

    def fail(self, error: Exception) -> None:
        while self.open:
            self.open.popleft().on_failure(error)


class World:
    """Two brokers, and as many partitions as a test wants."""

    def __init__(self, count: int = 1, config: ReplicaConfig | None = None) -> None:
        self.clock = Clock()
        self.timers = Timers(self.clock)
        self.sent: list[FetchRequest] = []
        self.arriving: deque[tuple[Sent, bytes]] = deque()
        self.lost: list[Wire] = []
        self.wires: list[Wire] = []
        self.names: list[tuple[int, str]] = []
        self.correlation = 0
        self.most_in_flight = 0
        self.is_connected = True
        self.is_known = True
        self.tamper: Callable[[bytes], bytes] = lambda body: body
        self.throttled: set[int] = set()
        self.rate: int | None = None
        config = config or ReplicaConfig()
        self.leader = Node(LEADER, self.timers, count, config)
        self.sessions = FollowerSessions(self.leader, self.timers)
        self.fetchers = Fetchers(
            FetcherConfig(FOLLOWER),
            self.dial,
            self.timers,
            random.Random(1),
            is_throttled=lambda partition: partition.key.partition in self.throttled,
            rate=lambda: self.rate,
            named=self.note,
        )
        self.follower = Node(FOLLOWER, self.timers, count, config, self.fetchers.ask)

    def dial(self, leader: int) -> Wire | None:
        assert leader == LEADER
        if not self.is_known:
            return None
        self.wires.append(Wire(self))
        return self.wires[-1]

    def note(self, partition: Follower, name: str) -> None:
        self.names.append((partition.key.partition, name))

    def start(self, epoch: int = 1) -> None:
        """Let one lead and the other follow."""
        self.leader.lead(epoch)
        self.follower.follow(LEADER, epoch)
        self.settle()

    def settle(self, after_ms: int = 0) -> None:
        """Let everything happen that does at this time."""
        self.clock.now_ms += after_ms
        for _ in range(MAX_ROUNDS):
            if self.arriving:
                self._arrive(*self.arriving.popleft())
            elif self.lost:
                self.lost.pop().fail(ConnectionLost("nobody there"))
            elif self.timers.next_ms <= self.clock.now_ms:
                self.timers.ring_due()
            else:
                return
        raise AssertionError("it never ends")

    def _arrive(self, sent: Sent, body: bytes) -> None:
        if sent not in sent.wire.open:
            return
        assert sent.wire.open.popleft() is sent, "answers come in order"
        buffer = bytearray(body)
        try:
            sent.on_answer(memoryview(buffer))
        except MalformedRequest as error:
            sent.on_failure(error)
            sent.wire.fail(ConnectionLost(str(error)))
        # The buffer is used again: who kept a part of it would see this.
        buffer[:] = b"\xff" * len(buffer)

    def cut(self) -> None:
        """Lose the connection."""
        self.wires[-1].fail(ConnectionLost("cut"))

    def ends(self) -> list[int]:
        """Where the follower's logs end."""
        return [each.log.end_offset for each in self.follower.partitions.values()]
