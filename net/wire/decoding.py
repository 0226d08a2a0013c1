"""Readers made from a schema: bytes to plain dicts and lists.

They are closures, made once for each version of a message. Fields of fixed size that stand side by
side are read together. An array is refused before anything is made of it if its elements cannot
all be in the bytes that are left, so memory is bounded by the input. Tagged fields that the schema
does not have are skipped, at every depth (KIP-482).
"""

from __future__ import annotations

import copy
import struct
import uuid
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from net.errors import MalformedRequest
from net.wire.primitives import (
    INT32,
    malformed,
    read_length,
    read_nullable_string,
    read_tags,
    skip_tags,
)
from net.wire.schema import (
    BYTES,
    FIXED,
    STRING,
    UUID,
    Field,
    Struct,
    smallest_element_bytes,
)

Reader: TypeAlias = Callable[[memoryview, int], tuple[Any, int]]
_Step: TypeAlias = Callable[[memoryview, int, dict[str, Any]], int]
_UUID_BYTES: Final = 16


def struct_reader(shape: Struct) -> Reader:
    """Make the reader of a struct; running over the end raises what `OUT_OF_BYTES` lists."""
    steps = _steps(shape)

    def read(view: memoryview, at: int) -> tuple[Any, int]:
        values: dict[str, Any] = {}
        for step in steps:
            at = step(view, at, values)
        return values, at

    return read


def _steps(shape: Struct) -> list[_Step]:
    steps: list[_Step] = []
    run: list[Field] = []
    untagged = [field for field in shape.fields if field.tag is None]
    for field in untagged:
        if field.letter is not None:
            run.append(field)
            continue
        if run:
            steps.append(_run_step(run))
            run = []
        steps.append(_field_step(field.name, _field_reader(field, shape.flexible)))
    if run:
        steps.append(_run_step(run))
    if shape.flexible:
        steps.append(_tags_step(shape))
    return steps


def _run_step(run: list[Field]) -> _Step:
    layout = struct.Struct(">" + "".join(field.letter or "" for field in run))
    names = tuple(field.name for field in run)

    def step(view: memoryview, at: int, values: dict[str, Any]) -> int:
        values.update(zip(names, layout.unpack_from(view, at), strict=True))
        return at + layout.size

    return step


def _field_step(name: str, read: Reader) -> _Step:
    def step(view: memoryview, at: int, values: dict[str, Any]) -> int:
        values[name], at = read(view, at)
        return at

    return step


def _tags_step(shape: Struct) -> _Step:
    tagged = [field for field in shape.fields if field.tag is not None]
    if not tagged:
        return lambda view, at, _: skip_tags(view, at)
    readers = {field.tag: (field.name, _field_reader(field, True)) for field in tagged}
    defaults = [(field.name, field.default) for field in tagged]

    def step(view: memoryview, at: int, values: dict[str, Any]) -> int:
        for name, default in defaults:
            values[name] = copy.deepcopy(default)
        tags, behind = read_tags(view, at)
        for tag, begin, end in tags:
            if tag not in readers:
                continue
            name, read = readers[tag]
            values[name], at = read(view, begin)
            if at != end:
                malformed(f"tagged field {name} has {at - begin} bytes and claims {end - begin}")
        return behind

    return step


def _field_reader(field: Field, flexible: bool) -> Reader:
    if field.is_array:
        return _array_reader(field, flexible)
    read = _element_reader(field, flexible)
    if field.struct is not None and field.nullable:
        return _nullable_struct_reader(read)
    return read


def _array_reader(field: Field, flexible: bool) -> Reader:
    read_elements = _elements_reader(field, flexible)
    smallest = smallest_element_bytes(field, flexible)

    def read(view: memoryview, at: int) -> tuple[Any, int]:
        count, at = read_length(view, at, flexible, INT32)
        if count < 0:
            return (None if field.nullable else _null(field)), at
        if count * smallest > len(view) - at:
            malformed(f"{field.name}: {count} elements in {len(view) - at} bytes")
        return read_elements(view, at, count)

    return read


def _elements_reader(
    field: Field, flexible: bool
) -> Callable[[memoryview, int, int], tuple[list[Any], int]]:
    if field.kind in FIXED:
        letter = FIXED[field.kind]

        def read_together(view: memoryview, at: int, count: int) -> tuple[list[Any], int]:
            layout = f">{count}{letter}"
            return list(struct.unpack_from(layout, view, at)), at + struct.calcsize(layout)

        return read_together
    read_element = _element_reader(field, flexible)

    def read_each(view: memoryview, at: int, count: int) -> tuple[list[Any], int]:
        elements = []
        for _ in range(count):
            element, at = read_element(view, at)
            elements.append(element)
        return elements, at

    return read_each


def _nullable_struct_reader(read_struct: Reader) -> Reader:
    # A byte in front says whether it is there (KIP-893).
    def read(view: memoryview, at: int) -> tuple[Any, int]:
        is_there = view[at] < 0x80
        return read_struct(view, at + 1) if is_there else (None, at + 1)

    return read


def _element_reader(field: Field, flexible: bool) -> Reader:
    if field.struct is not None:
        return struct_reader(field.struct)
    if field.kind in FIXED:
        return _fixed_reader(FIXED[field.kind])
    if field.kind == UUID:
        return _read_uuid
    if field.kind == STRING:
        return _string_reader(field, flexible)
    if field.kind in BYTES:
        return _bytes_reader(field, flexible)
    raise TypeError(f"{field.name}: no reader for {field.kind}")


def _fixed_reader(letter: str) -> Reader:
    layout = struct.Struct(">" + letter)

    def read(view: memoryview, at: int) -> tuple[Any, int]:
        return layout.unpack_from(view, at)[0], at + layout.size

    return read


def _read_uuid(view: memoryview, at: int) -> tuple[Any, int]:
    end = at + _UUID_BYTES
    if end > len(view):
        malformed("a message that ends in an id")
    return uuid.UUID(bytes=bytes(view[at:end])), end


def _string_reader(field: Field, flexible: bool) -> Reader:
    nullable = field.nullable and not field.is_array

    def read(view: memoryview, at: int) -> tuple[Any, int]:
        value, at = read_nullable_string(view, at, flexible)
        return (_null(field) if value is None and not nullable else value), at

    return read


def _bytes_reader(field: Field, flexible: bool) -> Reader:
    nullable = field.nullable and not field.is_array

    def read(view: memoryview, at: int) -> tuple[Any, int]:
        length, at = read_length(view, at, flexible, INT32)
        if length < 0:
            return (None if nullable else _null(field)), at
        if length > len(view) - at:
            malformed(f"{field.name}: {length} bytes, with {len(view) - at} left")
        return bytes(view[at : at + length]), at + length

    return read


def _null(field: Field) -> Any:
    raise MalformedRequest(f"{field.name} must not be null")
