"""What a simulated disk does wrong, as a value, and ways to say which operation fails.

Operations are called like the methods of `Disk`; the path of a rename is its source. A rule for
`fail` or `ignore` may count its calls, so every disk should get one of its own.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import attrs

Fail = Callable[[str, str], OSError | None]
"""Given an operation and a path: the error that it ends with instead of being done, if any."""
Ignore = Callable[[str, str], bool]
"""Given an operation and a path: whether it claims to be done and is not."""


@attrs.frozen
class Faults:
    """How a simulated disk misbehaves; as it stands, not at all except in a crash."""

    short_reads: float = 0.0
    """How probable it is that `preadv` reads less than it could."""
    short_writes: float = 0.0
    torn_sectors: bool = False
    """Whether a crash may leave a sector half written."""
    deferred: bool = False
    """Whether submitted work waits for `run_next`."""
    fail: Fail | None = None
    ignore: Ignore | None = None


def matching(operation: str, *, prefix: str = "", suffix: str = "") -> Ignore:
    """Name an operation on paths that begin and end like this; `*` is any operation."""

    def matches(asked: str, path: str) -> bool:
        named = operation in ("*", asked)
        return named and path.startswith(prefix) and path.endswith(suffix)

    return matches


def fail_always(
    operation: str, *, prefix: str = "", suffix: str = "", code: int = errno.EIO
) -> Fail:
    """Fail an operation on paths that begin and end like this."""
    matches = matching(operation, prefix=prefix, suffix=suffix)

    def fail(asked: str, path: str) -> OSError | None:
        return OSError(code, os.strerror(code), path) if matches(asked, path) else None

    return fail


def fail_once(
    operation: str,
    *,
    prefix: str = "",
    suffix: str = "",
    code: int = errno.EIO,
    after: int = 0,
) -> Fail:
    """Fail such an operation a single time, `after` that many of them have passed."""
    always = fail_always(operation, prefix=prefix, suffix=suffix, code=code)
    passed = 0

    def fail(asked: str, path: str) -> OSError | None:
        nonlocal passed
        error = always(asked, path)
        if error is None:
            return None
        passed += 1
        return error if passed == after + 1 else None

    return fail


def any_of(*rules: Fail) -> Fail:
    """Fail as the first of these rules says that has something to say."""

    def fail(asked: str, path: str) -> OSError | None:
        errors = [rule(asked, path) for rule in rules]
        return next((error for error in errors if error is not None), None)

    return fail
