"""Any message of any version, as a plain dict; for everything that is not on the hot path.

Names are kio's: Kafka's in snake case, without the `_ms` of times (`timeout`, `max_wait`). Values
are plain: times in whole milliseconds, error codes as numbers, ids as `uuid.UUID` (zero for none),
arrays as lists. Decoding leaves out what the version does not have. Encoding drops it, and fills in
what is not given; a key that no version has is a mistake of ours and raises `TypeError`.

The schema of a version is loaded when it is first used: all of them together take a second.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping, Set
from typing import Any, TypeAlias, cast

from net.errors import MalformedRequest
from net.wire.decoding import Reader, struct_reader
from net.wire.encoding import Writer, struct_writer
from net.wire.primitives import OUT_OF_BYTES, Buffer, refuse_if_large
from net.wire.schema import Struct, struct_of

Message: TypeAlias = dict[str, Any]


def decode_request(api: int, version: int, body: Buffer) -> Message:
    """Read the body of a request; nothing of the buffer is kept."""
    return _decode(api, version, True, body)


def encode_request(api: int, version: int, body: Mapping[str, Any]) -> bytes:
    """Write the body of a request; `ValueError` if a value does not fit."""
    return _encode(api, version, True, body)


def decode_response(api: int, version: int, body: Buffer) -> Message:
    """Read the body of an answer; nothing of the buffer is kept."""
    return _decode(api, version, False, body)


def encode_response(api: int, version: int, body: Mapping[str, Any]) -> bytes:
    """Write the body of an answer; `ValueError` if a value does not fit."""
    return _encode(api, version, False, body)


def _decode(api: int, version: int, is_request: bool, body: Buffer) -> Message:
    view = memoryview(body)
    try:
        if is_request:
            refuse_if_large(len(view))
        read = _reader(api, version, is_request)
        # As Kafka does, nobody looks behind the end: librdkafka has written a few bytes too many.
        message, _ = read(view, 0)
    except OUT_OF_BYTES:
        where = describe(api, version, is_request)
        raise MalformedRequest(f"{where} ends too early, after {len(view)} bytes") from None
    except MalformedRequest as error:
        raise MalformedRequest(f"{describe(api, version, is_request)}: {error}") from None
    except LookupError:
        where = describe(api, version, is_request)
        raise MalformedRequest(f"{where} is unknown") from None
    return cast("Message", message)


def _encode(api: int, version: int, is_request: bool, body: Mapping[str, Any]) -> bytes:
    pieces: list[bytes] = []
    _writer(api, version, is_request)(pieces, body)
    return b"".join(pieces)


def describe(api: int, version: int, is_request: bool) -> str:
    """Name a kind of message, for people."""
    return f"{'request' if is_request else 'answer'} of API {api} version {version}"


@functools.cache
def _reader(api: int, version: int, is_request: bool) -> Reader:
    return struct_reader(shape(api, version, is_request))


@functools.cache
def _writer(api: int, version: int, is_request: bool) -> Writer:
    def unknown(path: tuple[str, ...], keys: Set[str]) -> None:
        mistakes = keys - _names_in_any_version(api, is_request).get(path, frozenset())
        if mistakes:
            where = ".".join((describe(api, version, is_request), *path))
            raise TypeError(f"{where} has no {', '.join(sorted(mistakes))} in any version")

    return struct_writer(shape(api, version, is_request), unknown)


@functools.cache
def shape(api: int, version: int, is_request: bool) -> Struct:
    """Return the schema of a message; `LookupError` if there is none."""
    index = _index()
    try:
        load = index.load_request_schema if is_request else index.load_response_schema
        return struct_of(load(api, version))
    except index.KioIndexError:
        raise LookupError(f"there is no {describe(api, version, is_request)}") from None


@functools.cache
def _names_in_any_version(api: int, is_request: bool) -> Mapping[tuple[str, ...], frozenset[str]]:
    names: dict[tuple[str, ...], frozenset[str]] = {}
    versions = _index().schema_name_map[_index().api_key_map[api]]
    for version in versions:
        _collect(shape(api, version, is_request), names)
    return names


def _collect(struct: Struct, names: dict[tuple[str, ...], frozenset[str]]) -> None:
    own = frozenset(field.name for field in struct.fields)
    names[struct.path] = names.get(struct.path, frozenset()) | own
    for field in struct.fields:
        if field.struct is not None:
            _collect(field.struct, names)


@functools.cache
def _index() -> types.ModuleType:
    # Loaded here, so that who needs only the codecs written by hand does not pay for it.
    import kio.index

    return kio.index
