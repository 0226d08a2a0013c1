"""How log lines look: text for people, or one JSON object a line for machines. To standard error.

    log.info("took over", extra={"fields": {"partition": "t-0", "epoch": 4}})

What comes from others' bytes is escaped, so that nobody writes lines of their own into the log.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

MAX_CHARACTERS: Final = 16 * 1024
"""A longer message is cut; a traceback counts by itself."""

_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class TextFormatter(logging.Formatter):
    """`time level logger: message key=value`, and a traceback below if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one line, and more only for a traceback."""
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        text = _one_line(_cut(_message(record) + fields))
        line = f"{_time(record)} {record.levelname:<7} {record.name}: {text}"
        trace = _trace(self, record)
        return f"{line}\n{trace}" if trace else line


class JsonFormatter(logging.Formatter):
    """One object a line: time, level, logger, message, fields, and exception if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one line, whatever the message contains."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _cut(_message(record)),
            "fields": dict(_fields(record)),
        }
        trace = _trace(self, record)
        if trace:
            line["exception"] = trace
        return json.dumps(line, default=str)


def configure_logging(
    style: str = "text", level: str = "info", stream: TextIO | None = None
) -> logging.Handler:
    """Send every log line to a stream, replacing what was set up before; return the handler."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    root = logging.getLogger()
    for old in tuple(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(_LEVELS[level])
    # What libraries warn of is a line like any other, not text between the lines.
    logging.captureWarnings(True)
    # A log line that cannot be written is no reason to write a traceback beside it.
    logging.raiseExceptions = False
    return handler


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        return f"{record.msg} {record.args}"


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    fields = getattr(record, "fields", None)
    return fields if isinstance(fields, Mapping) else {}


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info else ""


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "..."


def _one_line(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
