"""Leave out one kind of fsync or rename, in order to see whether anything notices.

A kind is an operation on files that end like this, during one of the workload's operations, perhaps
only right after a rename or only not after one: a folder is synced for several reasons.
"""

from __future__ import annotations

from typing import Final

import attrs


@attrs.frozen
class LeftOut:
    """Which operations of the disk do nothing and say that they did."""

    operation: str
    suffix: str
    jobs: tuple[str, ...] = ()
    """During which operations of the workload; all if there is none."""
    after_rename: bool | None = None
    """Whether the operation before it was a rename; `None`: either."""

    def __str__(self) -> str:
        when = {None: "", True: "-after-rename", False: "-without-rename"}[self.after_rename]
        return f"{self.operation}-{self.suffix}{when}-{'+'.join(self.jobs) or 'always'}"


class Watch:
    """A rule for `Faults.ignore` that knows what the workload is doing."""

    def __init__(self, left_out: LeftOut | None) -> None:
        self.job = ""
        self.ignored = 0
        self._left_out = left_out
        self._renamed = False

    def __call__(self, operation: str, path: str) -> bool:
        """Whether the operation is to do nothing."""
        renamed, self._renamed = self._renamed, operation == "rename"
        rule = self._left_out
        if rule is None or operation != rule.operation or not path.endswith(rule.suffix):
            return False
        matches = not rule.jobs or self.job in rule.jobs
        matches &= rule.after_rename in (None, renamed)
        self.ignored += matches
        return matches


LEFT_OUT: Final[tuple[LeftOut, ...]] = ()
