"""The trace of a node: what its machines did, line by line, for `hwmark validate`.

A line is in the file before anything that follows from it leaves the node, so that a node that is
killed has not said more than its trace. There is one file per node, which goes on at a restart.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Line = Mapping[str, Any]


class TraceFile:
    """Lines of JSON, each written whole."""

    def __init__(self, folder: str, name: str) -> None:
        """`OSError` if the file cannot be had."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        path = str(Path(folder) / f"{name}.ndjson")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o644)
        # What was killed here before may have left half a line.
        os.write(self._file, b"\n")

    def write(self, line: Line) -> None:
        """Add a line."""
        os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        """Write no more."""
        os.close(self._file)
