"""A leader is killed under load: three brokers, an unmodified client, and what came of it all.

It is a story for a newcomer, told while it happens. The tests in `tests/net/cluster` are the proof.
"""

from __future__ import annotations

import logging
import tempfile
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import attrs
import trio
from rich.console import Console
from rich.text import Text

from hwmark.cluster import all_there
from hwmark.cluster_layout import Plan, make_plan, write_cluster
from hwmark.cluster_supervisor import Supervisor
from hwmark.cluster_up import serving

TOPIC: Final = "demo"
RATE_PER_S: Final = 500
BEFORE_S: Final = 3.0
AFTER_S: Final = 6.0
READ_TIMEOUT_S: Final = 30.0


@attrs.define
class Tally:
    """What a producer was told."""

    sent: int = 0
    failed: int = 0
    acked: dict[int, int] = attrs.field(factory=dict)
    """Value by offset."""
    longest_gap_s: float = 0.0
    _last_s: float | None = None

    def delivered(self, error: Any, message: Any) -> None:
        """Take librdkafka's word for one record."""
        if error is not None:
            self.failed += 1
            return
        self.acked[message.offset()] = int(message.value())
        now_s = trio.current_time()
        if self._last_s is not None:
            self.longest_gap_s = max(self.longest_gap_s, now_s - self._last_s)
        self._last_s = now_s


async def kill_a_leader(console: Console) -> int:
    """Tell the story; return 0 if nothing was lost, doubled or disordered."""
    with tempfile.TemporaryDirectory(prefix="hwmark-demo-") as folder:
        path = Path(folder) / "cluster"
        plan = make_plan(3, 0, {})
        write_cluster(plan, path)
        async with trio.open_nursery() as nursery:
            supervisor = Supervisor(plan, path, serving(path), nursery)
            try:
                return await _story(plan, supervisor, _Teller(console))
            finally:
                await supervisor.stop_all()
                nursery.cancel_scope.cancel()


class _Teller:
    """Prints a line with the time since the story began."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun_s = trio.current_time()

    def __call__(self, text: str) -> None:
        passed_s = trio.current_time() - self._begun_s
        self._console.print(Text(f"{passed_s:6.1f} s  ", "dim") + Text(text))


async def _story(plan: Plan, supervisor: Supervisor, tell: Callable[[str], None]) -> int:
    # Only who runs the demo needs a stranger's client.
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    await supervisor.start_all()
    await all_there(plan, 60.0)
    tell(f"three brokers are up at {plan.bootstrap}")
    admin = AdminClient({"bootstrap.servers": plan.bootstrap}, logger=_silent())
    made = admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC]
    await trio.to_thread.run_sync(made.result)
    await _until(lambda: len(_leader(admin)[1]) == 3)
    leader, in_sync = _leader(admin)
    tell(f"topic {TOPIC}: one partition, three replicas; broker {leader} leads, in sync {in_sync}")
    tally = Tally()
    producer = Producer(
        {
            "bootstrap.servers": plan.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
        },
        # The demo tells what it kills; the client's own lines about that would hide it.
        logger=_silent(),
    )
    tell(f"librdkafka sends {RATE_PER_S} records a second, idempotent, acks=all")
    await _produce(producer, tally, BEFORE_S)
    tell(f"kill -9: broker {leader}, which leads, with {len(tally.acked)} records acknowledged")
    await supervisor.processes[leader].kill()
    await _produce(producer, tally, AFTER_S)
    successor, in_sync = _leader(admin)
    tell(
        f"broker {successor} leads now, in sync {in_sync}; for {tally.longest_gap_s:.1f} s"
        " nothing was acknowledged"
    )
    await supervisor.processes[leader].start()
    await _until(lambda: len(_leader(admin)[1]) == 3)
    tell(f"broker {leader} is back, and in sync again")
    await _produce(producer, tally, 1.0)
    await _until(lambda: producer.poll(0) == 0 and len(producer) == 0)
    read = await trio.to_thread.run_sync(_read, plan.bootstrap, max(tally.acked) + 1)
    return _judge(tally, read, tell)


async def _produce(producer: Any, tally: Tally, seconds: float) -> None:
    end_s = trio.current_time() + seconds
    while trio.current_time() < end_s:
        for _ in range(RATE_PER_S // 100):
            producer.produce(TOPIC, str(tally.sent).encode(), on_delivery=tally.delivered)
            tally.sent += 1
        producer.poll(0)
        await trio.sleep(0.01)


def _leader(admin: Any) -> tuple[int, list[int]]:
    """Tell who leads and who is in sync; -1 while the broker that is asked does not know."""
    partition = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions.get(0)
    return (-1, []) if partition is None else (partition.leader, sorted(partition.isrs))


def _silent() -> logging.Logger:
    logger = logging.getLogger("hwmark.demo.client")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


async def _until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(READ_TIMEOUT_S):
        while not holds():
            await trio.sleep(0.1)


def _read(bootstrap: str, end_offset: int) -> list[tuple[int, int]]:
    """Read the topic from its beginning to this offset."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "demo", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    found: list[tuple[int, int]] = []
    while not found or found[-1][0] < end_offset - 1:
        message: Any = consumer.poll(READ_TIMEOUT_S)
        if message is None:
            break
        if message.error() is None:
            found.append((message.offset(), int(message.value())))
    consumer.close()
    return found


def _judge(tally: Tally, read: list[tuple[int, int]], tell: Callable[[str], None]) -> int:
    at = dict(read)
    lost = [each for each in tally.acked.items() if at.get(each[0]) != each[1]]
    seen: dict[int, int] = defaultdict(int)
    for _, value in read:
        seen[value] += 1
    doubled = [value for value, count in seen.items() if count > 1]
    disordered = [a for (_, a), (_, b) in pairwise(read) if b < a]
    tell(
        f"{tally.sent} sent, {len(tally.acked)} acknowledged, {tally.failed} failed,"
        f" {len(read)} read back: {len(lost)} lost, {len(doubled)} twice,"
        f" {len(disordered)} out of order"
    )
    return 1 if lost or doubled or disordered or not read else 0
