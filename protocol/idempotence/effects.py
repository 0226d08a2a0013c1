"""What the leader's half, `Sequences`, wants done.

Each batch that arrived leads to `Accept`, `AlreadyAppended` or `Refuse`, at once or later.
"""

from __future__ import annotations

import attrs

from protocol.errors import ErrorCode
from protocol.machine import Effect
from protocol.types import Correlation, Offset


@attrs.frozen
class Accept(Effect):
    """The batch is the next one: append it. `BatchAppended` or a refusal tells what came of it."""

    correlation: Correlation


@attrs.frozen
class AlreadyAppended(Effect):
    """Answer a producer: this batch is in the log already, at this offset; append nothing."""

    correlation: Correlation
    base_offset: Offset


@attrs.frozen
class Refuse(Effect):
    """Answer a producer with an error; nothing was appended for this request."""

    correlation: Correlation
    error: ErrorCode


@attrs.frozen
class DropSnapshot(Effect):
    """The snapshot at this offset tells of batches that were cut off: it must not be used again."""

    offset: Offset
