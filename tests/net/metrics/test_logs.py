"""Log lines: one event, one line, and nobody forges another."""

import io
import json
import logging
import warnings
from collections.abc import Iterator

import pytest

from net.metrics import configure_logging


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, raising = list(root.handlers), root.level, logging.raiseExceptions
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.raiseExceptions = raising
    logging.captureWarnings(False)


def test_json_lines_have_the_same_five_fields() -> None:
    stream = io.StringIO()
    configure_logging("json", "info", stream)
    extra = {"fields": {"epoch": 4, "odd": {1}}}
    logging.getLogger("net.x").info("took %s", "over\nnow", extra=extra)
    logging.getLogger("net.x").debug("not shown")
    (line,) = stream.getvalue().splitlines()
    found = json.loads(line)
    assert found.pop("time").endswith("Z")
    assert found == {
        "level": "info",
        "logger": "net.x",
        "message": "took over\nnow",
        "fields": {"epoch": 4, "odd": "{1}"},
    }


def test_an_exception_is_within_its_json_line() -> None:
    stream = io.StringIO()
    configure_logging("json", "info", stream)
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("x").exception("oh")
    (line,) = stream.getvalue().splitlines()
    assert "ValueError: why" in json.loads(line)["exception"]


def test_text_lines_cannot_be_forged() -> None:
    stream = io.StringIO()
    configure_logging("text", "info", stream)
    logging.getLogger("x").warning(
        "client %s", "a\n2026 ERROR y: b\x1b[31m", extra={"fields": {"k": "v\nw"}}
    )
    (line,) = stream.getvalue().splitlines()
    assert line.endswith("WARNING x: client a\\n2026 ERROR y: b\\x1b[31m k=v\\nw")


@pytest.mark.parametrize("style", ["text", "json"])
def test_a_long_message_is_cut_and_a_wrong_one_still_written(style: str) -> None:
    stream = io.StringIO()
    configure_logging(style, "info", stream)
    logging.getLogger("x").info("y" * 1_000_000)
    logging.getLogger("x").info("%d", "no number")
    first, second = stream.getvalue().splitlines()
    assert len(first) < 20_000
    assert "no number" in second


def test_setting_up_again_replaces_what_was_set_up() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logging("text", "info", first)
    configure_logging("text", "error", second)
    logging.getLogger("x").error("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


def test_a_warning_of_python_is_a_line_like_any_other() -> None:
    stream = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        configure_logging("json", "info", stream)
        warnings.warn("odd", UserWarning, stacklevel=1)
    (line,) = stream.getvalue().splitlines()
    assert "odd" in json.loads(line)["message"]
