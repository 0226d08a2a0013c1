"""The shape of every message, taken from kio's data classes, which are generated from Kafka's.

kio has each version of each message as classes of its own. Only their fields are used: its readers
raise on tagged fields that they do not know, where KIP-482 wants them skipped, and its writers want
instances of the class of exactly one version. Tests use both as the judge of what is done here.

Values are plain. Times are whole milliseconds, "no time" is -1, and "no id" is the zero UUID.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import types
import typing
import uuid
from typing import Any, Final

import attrs

from net.wire.primitives import INT16, INT32

FIXED: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
}
"""The kinds whose values have one size, with their letters for `struct`."""

STRING: Final = "string"
BYTES: Final = ("bytes", "records")
UUID: Final = "uuid"
STRUCT: Final = "struct"

NO_UUID: Final = uuid.UUID(int=0)
NO_TIME_MS: Final = -1
_FIXED_BYTES: Final = {"?": 1, "b": 1, "h": 2, "H": 2, "i": 4, "q": 8, "d": 8}
_UUID_BYTES: Final = 16
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@attrs.frozen
class Field:
    """One field of a struct; `kind` is that of the elements if it is an array.

    `nullable` says nothing of ids and times: they have a value for "none".
    """

    name: str
    kind: str
    is_array: bool
    nullable: bool
    tag: int | None
    struct: Struct | None
    default: Any

    @property
    def letter(self) -> str | None:
        """How `struct` calls it, `None` if values differ in size."""
        return None if self.is_array else FIXED.get(self.kind)


@attrs.frozen
class Struct:
    """Named fields in the order of the wire; `path` leads here from the top of the message."""

    path: tuple[str, ...]
    fields: tuple[Field, ...]
    flexible: bool

    @property
    def smallest_bytes(self) -> int:
        """The least that a value takes on the wire."""
        smallest = sum(
            smallest_field_bytes(each, self.flexible) for each in self.fields if each.tag is None
        )
        return smallest + 1 if self.flexible else smallest


def smallest_field_bytes(field: Field, flexible: bool) -> int:
    """Return the least that a field without a tag takes on the wire."""
    if field.is_array:
        return 1 if flexible else INT32.size
    if field.struct is not None and field.nullable:
        return 1
    return smallest_element_bytes(field, flexible)


def smallest_element_bytes(field: Field, flexible: bool) -> int:
    """Return the least that a value of a field's kind takes on the wire."""
    if field.struct is not None:
        return field.struct.smallest_bytes
    if field.kind in FIXED:
        return _FIXED_BYTES[FIXED[field.kind]]
    if field.kind == UUID:
        return _UUID_BYTES
    if flexible:
        return 1
    return INT16.size if field.kind == STRING else INT32.size


def struct_of(entity: type[Any], path: tuple[str, ...] = ()) -> Struct:
    """Describe one of kio's classes and everything below it."""
    fields = tuple(_field(each, path) for each in dataclasses.fields(entity))
    return Struct(path, fields, entity.__flexible__)


def _field(field: dataclasses.Field[Any], path: tuple[str, ...]) -> Field:
    element, is_array, nullable = _type(field.type)
    nested = None
    if dataclasses.is_dataclass(element):
        nested = struct_of(typing.cast("type[Any]", element), (*path, field.name))
    kind = STRUCT if nested else str(field.metadata["kafka_type"])
    tag = field.metadata.get("tag")
    if nested and nullable and not is_array and tag is not None:
        raise TypeError(f"{field.name}: no message has a tagged struct that may be null")
    if field.default is dataclasses.MISSING:
        default = _zero(kind, is_array, nested)
    elif field.default is None and not is_array and kind in (UUID, "datetime_i64"):
        default = NO_UUID if kind == UUID else NO_TIME_MS
    else:
        default = plain(field.default)
    return Field(field.name, kind, is_array, nullable, tag, nested, default)


def _type(annotation: Any) -> tuple[Any, bool, bool]:
    """Take `tuple[X, ...] | None` apart: X, whether it is an array, whether it may be null."""
    inner, nullable = _without_none(annotation)
    if typing.get_origin(inner) is not tuple:
        return inner, False, nullable
    element, _ = _without_none(typing.get_args(inner)[0])
    return element, True, nullable


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if typing.get_origin(annotation) not in (types.UnionType, typing.Union):
        return annotation, False
    inner = [each for each in typing.get_args(annotation) if each is not types.NoneType]
    return inner[0], True


def _zero(kind: str, is_array: bool, nested: Struct | None) -> Any:
    """What Kafka's own classes hold when nobody has set a field that has no default."""
    if is_array:
        return []
    if nested is not None:
        return {each.name: each.default for each in nested.fields}
    if kind == "records":
        return None
    zeros = {STRING: "", "bytes": b"", UUID: NO_UUID, "bool": False, "float64": 0.0}
    return zeros.get(kind, 0)


def plain(value: Any) -> Any:
    """Turn a value of kio's into what messages hold here."""
    if dataclasses.is_dataclass(value):
        return {
            each.name: _plain_field(each, getattr(value, each.name))
            for each in dataclasses.fields(value)
        }
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, datetime.timedelta):
        return value // _MILLISECOND
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // _MILLISECOND
    if isinstance(value, enum.Enum):
        return value.value
    return value


def _plain_field(field: dataclasses.Field[Any], value: Any) -> Any:
    kind = field.metadata.get("kafka_type")
    if kind == UUID:
        is_array = isinstance(value, tuple)
        return [each or NO_UUID for each in value] if is_array else value or NO_UUID
    if kind == "datetime_i64" and value is None:
        return NO_TIME_MS
    return plain(value)
