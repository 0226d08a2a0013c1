"""What can go wrong between two ends of a connection. None of these is a bug of ours."""

from __future__ import annotations


class NetError(Exception):
    """Any of the errors of this room."""


class MalformedRequest(NetError):  # noqa: N818 - it names the thing, like the errors below
    """Bytes that are no message of the protocol; the connection they came on is closed."""


class ConnectionLost(NetError):  # noqa: N818
    """A connection ended, or could not be made; what was asked may or may not have happened."""


class RequestTimedOut(NetError):  # noqa: N818
    """No answer came in time; what was asked may or may not have happened."""


class TooManyInFlight(NetError):  # noqa: N818
    """The other side has not answered enough of what was asked before; nothing was sent."""


class BadSetting(NetError):  # noqa: N818
    """A setting that is unknown, malformed or does not fit the others; it is named."""
