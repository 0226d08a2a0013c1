"""What a client tells its application. The errors of `net.errors` stay inside: they are retried."""

from __future__ import annotations

from net.errors import NetError


class ClientError(NetError):
    """Any of the errors below."""


class KafkaError(ClientError):
    """A broker's answer, with Kafka's code."""

    def __init__(self, code: int, message: str | None = None) -> None:
        name = error_name(code)
        super().__init__(f"{name}: {message}" if message else name)
        self.code = int(code)
        self.name = name
        self.message = message


class DeliveryFailed(KafkaError):  # noqa: N818 - it names the thing, like the errors below
    """A record was not delivered; `unknown`: it may be in the log all the same."""

    def __init__(self, code: int, unknown: bool, message: str | None = None) -> None:
        super().__init__(code, message)
        self.unknown = unknown


class BufferExhausted(ClientError):  # noqa: N818
    """No room became free for a record in time; nothing was sent."""


class RecordTooLarge(ClientError):  # noqa: N818
    """A record that no request may hold; nothing was sent."""


class UnsupportedApi(ClientError):  # noqa: N818
    """The broker serves no version of an API that is known here."""


class ClientTimedOut(ClientError):  # noqa: N818
    """What was asked did not come about in time; the reason of the last try is named."""


class NoOffset(ClientError):  # noqa: N818
    """A partition has no position, or one that is not in its log, and no reset is wanted."""


class LogTruncated(ClientError):  # noqa: N818
    """Records that were read are no longer in the log (KIP-320); it is the same up to `offset`."""

    def __init__(self, topic: str, partition: int, position: int, offset: int) -> None:
        super().__init__(
            f"{topic}-{partition}: position {position} is behind offset {offset}, where the log was"
            " cut"
        )
        self.topic = topic
        self.partition = partition
        self.position = position
        self.offset = offset


def error_name(code: int) -> str:
    """Return Kafka's name of an error code, or the number if there is none."""
    # Loaded when it is needed, because it is a large table that a happy client never reads.
    from kio.schema.errors import ErrorCode

    try:
        return ErrorCode(code).name.upper()
    except ValueError:
        return f"error {code}"
