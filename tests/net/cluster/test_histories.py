"""The judge of the histories sees what it is there to see: each of these logs is wrong."""

from __future__ import annotations

import pytest

from tests.net.cluster.histories import problems
from tests.net.cluster.loads import Acked

RIGHT = [(0, b"w-0-x"), (1, b"w-1-x"), (2, b"w-2-x")]


def _acked(*offsets: int) -> list[Acked]:
    return [Acked(0, offset, RIGHT[offset][1]) for offset in offsets]


def test_a_right_log_passes() -> None:
    assert problems(RIGHT, _acked(0, 1, 2), is_idempotent=True) == []
    # What nobody was told of may be there.
    assert problems(RIGHT, _acked(1), is_idempotent=True) == []


@pytest.mark.parametrize(
    ("log", "wrong"),
    [
        (RIGHT[:2], "lost"),
        ([(0, b"w-0-x"), (1, b"w-5-x"), (2, b"w-2-x")], "lost"),
        ([*RIGHT, (3, b"w-2-x")], "repeated"),
        ([(0, b"w-0-x"), (1, b"w-2-x"), (2, b"w-1-x")], "out of order"),
        ([(0, b"w-0-x"), (2, b"w-2-x")], "offsets"),
    ],
)
def test_a_wrong_log_is_called_what_it_is(log: list[tuple[int, bytes]], wrong: str) -> None:
    found = problems(log, _acked(0, 1, 2), is_idempotent=True)
    assert any(each.startswith(wrong) for each in found)


def test_an_ack_without_an_offset_says_that_the_record_is_somewhere() -> None:
    assert problems(RIGHT, [Acked(0, None, b"w-1-x")], is_idempotent=True) == []
    assert problems(RIGHT, [Acked(0, None, b"w-7-x")], is_idempotent=True)


def test_without_idempotence_a_batch_may_be_there_twice_but_not_before_its_time() -> None:
    again = [*RIGHT, (3, b"w-2-x")]
    assert problems(again, _acked(0, 1, 2), is_idempotent=False) == []
    early = [(0, b"w-2-x"), (1, b"w-1-x"), (2, b"w-2-x")]
    assert "out of order" in problems(early, [], is_idempotent=False)
