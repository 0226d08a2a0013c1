"""Memory is granted in turn, and buffers are used again."""

from net.server.counters import LATENCY_BUCKETS, ApiCounters, ServerCounters
from net.server.input import GROWN_BYTES, MEDIUM_BYTES, OWN_BYTES, Input
from net.server.memory import BufferPool, RequestQueue
from tests.net.server.wire import frame


class Waiter:
    """Remembers what it was granted."""

    def __init__(self) -> None:
        self.got = 0

    def granted(self, size_bytes: int) -> None:
        self.got = size_bytes


def test_a_small_request_does_not_overtake_a_large_one_that_waits() -> None:
    counters = ServerCounters()
    queue = RequestQueue(100, 0, counters)
    assert queue.take(60, alone=True)
    large, small = Waiter(), Waiter()
    assert not queue.take(80, alone=True)
    queue.wait(large, 80)
    assert not queue.take(10, alone=True)
    queue.wait(small, 10)
    queue.give_back(60)
    assert (large.got, small.got) == (80, 10)
    assert counters.queued_bytes == 90


def test_one_request_is_let_in_however_large_when_nothing_is_in_flight() -> None:
    counters = ServerCounters()
    queue = RequestQueue(100, 0, counters)
    assert queue.take(1000, alone=True)
    waiter, next_one = Waiter(), Waiter()
    queue.wait(waiter, 500)
    queue.wait(next_one, 1)
    queue.give_back(1000)
    assert (waiter.got, next_one.got) == (500, 0)
    queue.give_back(500)
    assert next_one.got == 1


def test_who_leaves_lets_the_next_one_in() -> None:
    queue = RequestQueue(100, 0, ServerCounters())
    assert queue.take(60, alone=True)
    large, small = Waiter(), Waiter()
    queue.wait(large, 80)
    queue.wait(small, 10)
    queue.leave(large)
    queue.leave(large)
    assert (large.got, small.got) == (0, 10)
    assert not queue.starving


def test_a_small_request_that_is_alone_need_not_wait() -> None:
    queue = RequestQueue(100, 20, ServerCounters())
    assert queue.take(100, alone=True)
    assert queue.take(20, alone=True)
    assert not queue.take(20, alone=False)
    assert not queue.take(21, alone=True)


def test_buffers_are_used_again_and_few_are_kept() -> None:
    pool = BufferPool()
    first = pool.borrow(100_000)
    assert len(first) >= 100_000
    pool.give_back(first)
    assert pool.borrow(90_000) is first
    huge = pool.borrow(5_000_000)
    assert len(huge) == 5_000_000
    pool.give_back(huge)
    assert pool.borrow(5_000_000) is not huge
    for each in [pool.borrow(2**20) for _ in range(40)]:
        pool.give_back(each)
    assert pool._kept_bytes <= 16 * 2**20


def test_latencies_fall_into_buckets_of_powers_of_two() -> None:
    counters = ApiCounters()
    for elapsed_us in (0, 1, 2, 3, 4, 10**12):
        counters.took(elapsed_us)
    assert counters.latency[:4] == [1, 1, 2, 1]
    assert counters.latency[-1] == 1
    assert len(counters.latency) == LATENCY_BUCKETS
    assert counters.latency_total_us == 10 + 10**12


def test_a_paused_connection_goes_back_to_a_small_buffer() -> None:
    pool = BufferPool()
    incoming = Input(pool)
    message = frame(bytes(MEDIUM_BYTES // 2))
    incoming.room()[:4] = message[:4]
    incoming.came(4)
    incoming.borrow(len(message))
    assert len(incoming.room()) == GROWN_BYTES - 4
    incoming.room()[: len(message) - 4] = message[4:]
    incoming.came(len(message) - 4)
    incoming.paused()
    assert incoming.take(len(message)) == message[4:]
    incoming.taken()
    assert len(incoming.room()) == OWN_BYTES
    assert pool.may_grow()


def test_only_so_many_connections_have_a_large_buffer() -> None:
    pool = BufferPool()
    inputs = [Input(pool) for _ in range(600)]
    for each in inputs:
        each.borrow(MEDIUM_BYTES)
    assert sum(not each.has_borrowed for each in inputs) == 128
    for each in inputs:
        each.close()
    again = Input(pool)
    again.borrow(MEDIUM_BYTES)
    assert not again.has_borrowed
