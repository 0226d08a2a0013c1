"""kio as the judge: messages of any version, as kio writes them and as kio reads them.

Plain values are turned into kio's and back by kio's own reading of its classes, so that nothing of
`net.wire.schema` is believed.
"""

import dataclasses
import datetime
import functools
import io
import typing
import uuid
from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.serial._introspect import classify_field, get_schema_field_type, is_optional

from net.wire.apis import VERSIONS, Api

Message = dict[str, Any]
NO_UUID = uuid.UUID(int=0)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)
UNKNOWN_TAG = 1000

KINDS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "string": st.text(max_size=20),
    "bytes": st.binary(max_size=200),
    "records": st.binary(max_size=200),
    "uuid": st.just(NO_UUID) | st.uuids(),
    "error_code": st.sampled_from([each.value for each in ErrorCode]),
    "timedelta_i32": st.integers(-(2**31), 2**31 - 1),
    "timedelta_i64": st.integers(-(2**40), 2**40),
    # kio knows times in whole seconds only.
    "datetime_i64": st.integers(0, 2**32).map(lambda seconds: seconds * 1000),
}
SAMPLES: dict[str, Any] = {
    **dict.fromkeys(("int8", "int16", "uint16", "int32", "int64"), 7),
    "bool": True,
    "float64": 0.5,
    "string": "näme",
    "bytes": b"bytes",
    "records": b"records",
    "uuid": uuid.UUID(int=1 << 100),
    "error_code": 3,
    "timedelta_i32": 1500,
    "timedelta_i64": 1500,
    "datetime_i64": 5000,
}


def entity_of(api: int, version: int, is_request: bool) -> Any:
    """Load kio's class of a message."""
    return load_request_schema(api, version) if is_request else load_response_schema(api, version)


def every_message() -> Iterator[tuple[Api, int, bool]]:
    """Yield every version that works here, in both directions."""
    for api, served in VERSIONS.items():
        for version in range(served.serves_from, served.serves_to + 1):
            yield api, version, True
            yield api, version, False


def nested_of(field: Any) -> Any:
    """Return the class of a field's struct, if it is one."""
    inner = classify_field(field).type_
    return inner if dataclasses.is_dataclass(inner) else None


def kind_of(field: Any) -> str:
    """Return kio's name for the type of a field that is no struct."""
    return get_schema_field_type(field)


def is_array(field: Any) -> bool:
    """Whether a field is an array."""
    return bool(classify_field(field).is_array)


def is_nullable(field: Any) -> bool:
    """Whether a field itself may be null; kio also says so of an array of ids that may be zero."""
    return bool(is_optional(field)) and typing.get_origin(field.type) is not tuple


@functools.cache
def messages(entity: Any) -> st.SearchStrategy[Message]:
    """Draw plain messages of one version."""
    return st.fixed_dictionaries({each.name: _values(each) for each in dataclasses.fields(entity)})


def _values(field: Any) -> st.SearchStrategy[Any]:
    nested = nested_of(field)
    one = messages(nested) if nested else KINDS[kind_of(field)]
    if is_array(field):
        many = st.lists(one, max_size=3)
        return many | st.none() if is_nullable(field) else many
    if nested is None and kind_of(field) == "datetime_i64" and is_optional(field):
        return one | st.just(-1)
    if is_optional(field) and (nested or kind_of(field) != "uuid"):
        return one | st.none()
    return one


def sample(entity: Any) -> Message:
    """Make a message with something in every field."""
    values: Message = {}
    for field in dataclasses.fields(entity):
        nested = nested_of(field)
        one = sample(nested) if nested else SAMPLES[kind_of(field)]
        values[field.name] = [one, one] if is_array(field) else one
    return values


def to_kio(entity: Any, message: Message) -> Any:
    """Turn a plain message into kio's; fields that are not given are left to kio."""
    given = {
        field.name: _to_kio(field, message[field.name])
        for field in dataclasses.fields(entity)
        if field.name in message
    }
    return entity(**given)


def _to_kio(field: Any, value: Any) -> Any:
    if value is None:
        return None
    nested = nested_of(field)
    if is_array(field):
        return tuple(to_kio(nested, x) if nested else _one(kind_of(field), x) for x in value)
    return to_kio(nested, value) if nested else _one(kind_of(field), value)


def _one(kind: str, value: Any) -> Any:
    if kind.startswith("timedelta"):
        return value * MILLISECOND
    if kind == "datetime_i64":
        return None if value == -1 else EPOCH + value * MILLISECOND
    if kind == "uuid":
        return None if value == NO_UUID else value
    return ErrorCode(value) if kind == "error_code" else value


def from_kio(instance: Any) -> Message:
    """Turn kio's message into a plain one."""
    return {
        field.name: _from_kio(field, getattr(instance, field.name))
        for field in dataclasses.fields(instance)
    }


def _from_kio(field: Any, value: Any) -> Any:
    nested = nested_of(field)
    if is_array(field):
        if value is None:
            return None
        return [from_kio(each) if nested else _plain(kind_of(field), each) for each in value]
    if nested:
        return None if value is None else from_kio(value)
    return _plain(kind_of(field), value)


def _plain(kind: str, value: Any) -> Any:
    if kind.startswith("timedelta"):
        return value // MILLISECOND
    if kind == "datetime_i64":
        return -1 if value is None else (value - EPOCH) // MILLISECOND
    if kind == "uuid":
        return value or NO_UUID
    return value.value if kind == "error_code" else value


def write(entity: Any, message: Message) -> bytes:
    """Write a plain message with kio."""
    buffer = io.BytesIO()
    entity_writer(entity)(buffer, to_kio(entity, message))
    return buffer.getvalue()


def read(entity: Any, data: bytes) -> Message:
    """Read a message with kio; it must take all of the bytes."""
    instance, size = entity_reader(entity)(data, 0)
    assert size == len(data)
    return from_kio(instance)


@functools.cache
def from_the_future(entity: Any) -> Any:
    """Give a class and every class below it a tagged field that nobody here knows."""
    fields: list[Any] = []
    for field in dataclasses.fields(entity):
        nested = nested_of(field)
        annotation: Any = field.type
        default = field.default
        if nested:
            newer = from_the_future(nested)
            annotation = tuple[newer, ...] if is_array(field) else newer  # type: ignore[valid-type]
            annotation = annotation | None if is_nullable(field) else annotation
            if dataclasses.is_dataclass(default):
                default = newer(
                    **{x.name: getattr(default, x.name) for x in dataclasses.fields(nested)}
                )
        made = dataclasses.field(default=default, metadata=field.metadata, kw_only=True)
        fields.append((field.name, annotation, made))
    marks = {"kafka_type": "bytes", "tag": UNKNOWN_TAG}
    future = dataclasses.field(default=b"from the future", metadata=marks, kw_only=True)
    # kio leaves out what equals the default, so the default is changed once the class is made.
    fields.append(("future", bytes, future))
    space = {name: vars(entity)[name] for name in ("__version__", "__flexible__", "__api_key__")}
    made_class: Any = dataclasses.make_dataclass(
        entity.__name__, fields, namespace=space, frozen=True
    )
    future_field = made_class.__dataclass_fields__["future"]
    future_field.default = b""
    return made_class
