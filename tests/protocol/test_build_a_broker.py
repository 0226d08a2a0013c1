"""The example of docs/build-a-broker.md works, keeps the contract, and is what the page shows."""

import asyncio
import importlib.util
import re
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from protocol.controller import AppendRecords, RecordsCommitted
from protocol.controller import Resigned as ControllerResigned
from protocol.errors import ErrorCode
from protocol.machine import Effect, Event, Machine
from protocol.replication import Leader
from protocol.replication.effects import Append, ProduceDone, Refuse, Reset, SendEntries, Truncate
from protocol.replication.events import (
    ACKS_ALL,
    Appended,
    ConsumerFetchReceived,
    ProduceReceived,
    StorageFailed,
    Truncated,
)
from protocol.testing import CONTROLLER, Check, checks
from tests.protocol.virtual_loop import VirtualLoop

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXAMPLE = DOCS / "examples" / "asyncio_broker.py"
PAGE = DOCS / "build-a-broker.md"
MAX_LINES = 200


def load() -> ModuleType:
    """Import the example, which is in no package."""
    spec = importlib.util.spec_from_file_location("asyncio_broker", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


example = load()


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run to the end on a virtual clock; nothing may be left over."""
    with asyncio.Runner(loop_factory=VirtualLoop, debug=False) as runner:
        runner.run(main)
        assert asyncio.all_tasks(runner.get_loop()) == set()


async def until(condition: Callable[[], bool]) -> None:
    """Let virtual time pass until something is so."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    for _ in range(10_000):
        if condition():
            return
        await loop.pass_ms(10)
    raise TimeoutError


async def produce(broker: Any, value: bytes) -> Effect:
    """Produce one record with acks=all."""
    answer, _ = await example.ask(broker.driver, ProduceReceived, ACKS_ALL, (value,), 1, len(value))
    assert isinstance(answer, Effect)
    return answer


async def consume(broker: Any, offset: int = 0) -> list[bytes]:
    """Read what a broker has under its high watermark."""
    answer, found = await example.ask(broker.driver, ConsumerFetchReceived, offset)
    assert isinstance(answer, SendEntries)
    return [value for _, value in found]


def leaders(cluster: Any) -> list[int]:
    """List who believes to lead, of those that run."""
    return [
        node
        for node, broker in cluster.brokers.items()
        if isinstance(broker.replica.state.role, Leader) and not broker.heart.cancelling()
    ]


def in_sync(cluster: Any) -> frozenset[int]:
    """Tell who is in sync, by the controller's record."""
    isr: frozenset[int] = cluster.controller.machine.state.image.partitions["demo", 0].isr
    return isr


async def start_and_fill(cluster: Any) -> Any:
    """Wait until all are in sync, and produce three records; return the leader."""
    await until(lambda: leaders(cluster) != [] and in_sync(cluster) == {1, 2, 3})
    (leader,) = leaders(cluster)
    broker = cluster.brokers[leader]
    for offset, value in enumerate([b"a", b"b", b"c"]):
        answer = await produce(broker, value)
        assert isinstance(answer, ProduceDone)
        assert answer.base_offset == offset
    return broker


def test_what_is_acknowledged_is_on_every_replica_and_readable_everywhere() -> None:
    async def main() -> None:
        async with example.Cluster() as cluster:
            await start_and_fill(cluster)
            logs = [broker.log for broker in cluster.brokers.values()]
            assert logs == [[(1, b"a"), (1, b"b"), (1, b"c")]] * 3
            replicas = [broker.replica for broker in cluster.brokers.values()]
            await until(lambda: {each.state.high_watermark for each in replicas} == {3})
            for broker in cluster.brokers.values():
                assert await consume(broker) == [b"a", b"b", b"c"]

    run(main())


def test_a_consumer_that_waits_at_a_follower_gets_what_comes() -> None:
    async def main() -> None:
        async with example.Cluster() as cluster:
            leader = await start_and_fill(cluster)
            follower = next(each for each in cluster.brokers.values() if each is not leader)
            # No leader epoch, and the usual limits; it is willing to wait for an hour.
            asked = (3, None, 1 << 20, 1, 3_600_000)
            waits = example.ask(follower.driver, ConsumerFetchReceived, *asked)
            waiting = asyncio.create_task(waits)
            await produce(leader, b"d")
            await until(waiting.done)
            _, found = await waiting
            assert found == [(1, b"d")]

    run(main())


def test_when_the_leader_stops_another_one_leads_and_nothing_is_lost() -> None:
    async def main() -> None:
        async with example.Cluster() as cluster:
            first = await start_and_fill(cluster)
            first.stop()
            await until(lambda: leaders(cluster) != [])
            (leader,) = leaders(cluster)
            second = cluster.brokers[leader]
            assert second is not first
            answer = await produce(second, b"d")
            assert isinstance(answer, ProduceDone)
            assert answer.base_offset == 3
            assert await consume(second) == [b"a", b"b", b"c", b"d"]
            assert in_sync(cluster) == {1, 2, 3} - {first.node}

    run(main())


def test_with_too_few_in_sync_nothing_more_is_acknowledged() -> None:
    async def main() -> None:
        async with example.Cluster() as cluster:
            broker = await start_and_fill(cluster)
            for other in cluster.brokers.values():
                if other is not broker:
                    other.stop()
            await until(lambda: in_sync(cluster) == {broker.node})
            await until(lambda: broker.replica.state.view.isr == {broker.node})
            answer = await produce(broker, b"d")
            assert isinstance(answer, Refuse)
            assert answer.error == ErrorCode.NOT_ENOUGH_REPLICAS

    run(main())


class Adapter:
    """Puts the example's driver into a world that the suite decides about."""

    failure: Event = StorageFailed("the disk is gone")

    async def start(
        self, machine: Machine[Any, Any], began: Callable[[Effect], None], now_ms: int
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop, self.began = loop, began
        self.loop.now_s = now_ms / 1000
        self.current: asyncio.Future[bool] | None = None
        self.disk_failed = False
        self.driver = example.Driver(machine, self.begin, self.store)

    def begin(self, effect: Effect) -> None:
        if isinstance(effect, Append | Truncate | Reset | AppendRecords):
            self.driver.writes.put_nowait(effect)
        self.began(effect)

    async def store(self, write: Effect) -> Event:
        """Take one write at a time, as the example's disk does."""
        self.current = self.loop.create_future()
        failed = self.disk_failed or not await self.current
        self.disk_failed, self.current = failed, None
        match write:
            case _ if failed:
                return self.failure
            case Append(end_offset=end):
                return Appended(end)
            case Truncate(end_offset=end) | Reset(start_offset=end):
                return Truncated(end)
            case AppendRecords(base_offset=base, records=records):
                return RecordsCommitted(base + len(records))
        raise TypeError(write)

    def arrive(self, event: Event) -> None:
        self.driver.deliver(event)

    def set_clock(self, now_ms: int) -> None:
        # The loop's clock is monotonic.
        self.loop.now_s = max(self.loop.now_s, now_ms / 1000)

    def unfinished_writes(self) -> int:
        return int(self.current is not None and not self.current.done())

    def finish_write(self, place: int) -> None:
        assert place == 0
        assert self.current is not None
        self.current.set_result(True)

    def fail_write(self) -> None:
        assert self.current is not None
        self.current.set_result(False)

    async def settle(self) -> None:
        await self.loop.rest()

    async def stop(self) -> None:
        self.driver.close()
        await asyncio.gather(self.driver.disk, return_exceptions=True)


class ControllerAdapter(Adapter):
    """The same driver runs a controller."""

    failure = ControllerResigned()


@pytest.mark.parametrize("check", checks(), ids=str)
def test_the_driver_keeps_the_contract(check: Check) -> None:
    run(check(Adapter))


@pytest.mark.parametrize("check", checks(CONTROLLER), ids=str)
def test_the_driver_keeps_the_contract_with_a_controller(check: Check) -> None:
    run(check(ControllerAdapter))


def test_the_example_is_short() -> None:
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) < MAX_LINES


def quoted(page: str) -> list[str]:
    """List the blocks of Python that a page quotes."""
    return re.findall(r"```python\n(.*?)```", page, flags=re.S)


def test_every_quotation_of_the_page_is_in_the_example() -> None:
    source = EXAMPLE.read_text(encoding="utf-8")
    blocks = quoted(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) >= 5
    assert [block for block in blocks if block not in source] == []


def test_a_quotation_that_is_not_in_the_example_is_seen() -> None:
    (block,) = quoted("text\n```python\n    self._timer.sleep()\n```\n")
    assert block not in EXAMPLE.read_text(encoding="utf-8")
