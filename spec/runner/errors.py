"""The errors the runner raises on purpose, each with one line that says what to do.

They are for mistakes in how the runner is used (no Java, a missing file, a malformed dump).
What TLC finds wrong with a model is not an exception: it is an `Outcome`.
"""

from __future__ import annotations


class RunnerError(Exception):
    """Something the user can put right; its text is a single clear line."""


class ToolchainError(RunnerError):
    """Java or the TLA+ tools are missing, too old, or not what they claim to be."""


class JobError(RunnerError):
    """A run was asked for that cannot be started, such as one of a missing module."""


class ValueSyntaxError(RunnerError):
    """A text is not a TLA+ value; says what was wrong and at which character."""

    def __init__(self, problem: str, text: str, position: int) -> None:
        start = max(0, position - 20)
        near = text[start : position + 40].replace("\n", " ")
        super().__init__(f"{problem} at character {position}, near {near!r}")
        self.problem = problem
        self.text = text
        self.position = position


class FileFormatError(RunnerError):
    """A dump, trace or scenario file is malformed; names the file and the line."""

    def __init__(self, path: object, line: int, problem: str) -> None:
        super().__init__(f"{path}:{line}: {problem}")
        self.line = line
        self.problem = problem
