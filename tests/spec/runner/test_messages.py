"""TLC's output is split into messages as it streams."""

from __future__ import annotations

from collections.abc import Iterator

from spec.runner.messages import Message, read_messages


def test_messages_and_stray_lines_come_in_order() -> None:
    lines = [
        "Parsing file Counter.tla\n",
        "@!@!@STARTMSG 2110:1 @!@!@\n",
        "Invariant Small is violated.\n",
        "@!@!@ENDMSG 2110 @!@!@\n",
        "<<1>>\n",
    ]
    assert list(read_messages(lines)) == [
        "Parsing file Counter.tla",
        Message(2110, 1, "Invariant Small is violated."),
        "<<1>>",
    ]


def test_an_inner_message_comes_first_and_is_repeated_in_the_outer() -> None:
    lines = [
        "@!@!@STARTMSG 1000:1 @!@!@",
        "The exception was",
        ": @!@!@STARTMSG 2132:0 @!@!@",
        "seven",
        "@!@!@ENDMSG 2132 @!@!@",
        "@!@!@ENDMSG 1000 @!@!@",
    ]
    inner, outer = read_messages(lines)
    assert inner == Message(2132, 0, "seven", nested=True)
    assert outer == Message(1000, 1, "The exception was\n: \nseven")


def test_a_message_is_given_before_the_next_line_is_asked_for() -> None:
    asked: list[int] = []

    def lines() -> Iterator[str]:
        for number, line in enumerate(["@!@!@STARTMSG 1:0 @!@!@", "@!@!@ENDMSG 1 @!@!@", "later"]):
            asked.append(number)
            yield line

    assert next(read_messages(lines())) == Message(1, 0, "")
    assert asked == [0, 1]


def test_a_message_cut_off_becomes_stray_lines() -> None:
    assert list(read_messages(["@!@!@STARTMSG 2200:0 @!@!@", "Progress"])) == ["Progress"]
