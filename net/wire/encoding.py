"""Writers made from a schema: plain dicts and lists to bytes.

They are closures, made once for each version of a message. A field that is not given gets the
schema's default; a key that this version does not have is dropped, unless no version has it. A
tagged field is written only when it differs from its default, as Kafka does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Set
from typing import Any, TypeAlias

from net.wire.primitives import INT32, write_count, write_nullable_string, write_tag, write_uvarint
from net.wire.schema import BYTES, FIXED, NO_UUID, STRING, UUID, Field, Struct

Writer: TypeAlias = Callable[[list[bytes], Any], None]
Unknown: TypeAlias = Callable[[tuple[str, ...], Set[str]], None]
"""Is told of keys that a struct does not have in this version; raises if they are mistakes."""


def struct_writer(shape: Struct, unknown: Unknown) -> Writer:
    """Make the writer of a struct; it appends to a list of pieces."""
    names = frozenset(field.name for field in shape.fields)
    steps = _steps(shape, unknown)

    def write(out: list[bytes], values: Any) -> None:
        if not isinstance(values, Mapping):
            raise ValueError(f"{'.'.join(shape.path)}: {type(values).__name__} is no message")
        if not names.issuperset(values):
            unknown(shape.path, values.keys() - names)
        for step in steps:
            step(out, values)

    return write


def _steps(shape: Struct, unknown: Unknown) -> list[Writer]:
    steps: list[Writer] = []
    run: list[Field] = []
    for field in shape.fields:
        if field.tag is not None:
            continue
        if field.letter is not None:
            run.append(field)
            continue
        if run:
            steps.append(_run_step(run))
            run = []
        steps.append(_field_step(field, _field_writer(field, shape.flexible, unknown)))
    if run:
        steps.append(_run_step(run))
    if shape.flexible:
        steps.append(_tags_step(shape, unknown))
    return steps


def _run_step(run: list[Field]) -> Writer:
    layout = struct.Struct(">" + "".join(field.letter or "" for field in run))
    defaults = [(field.name, field.default) for field in run]
    names = ", ".join(field.name for field in run)

    def step(out: list[bytes], values: Any) -> None:
        given = [values.get(name, default) for name, default in defaults]
        try:
            out.append(layout.pack(*given))
        except struct.error as error:
            raise ValueError(f"{names}: {given} do not fit: {error}") from None

    return step


def _field_step(field: Field, write: Writer) -> Writer:
    name, default = field.name, field.default

    def step(out: list[bytes], values: Any) -> None:
        write(out, values.get(name, default))

    return step


def _tags_step(shape: Struct, unknown: Unknown) -> Writer:
    tagged = []
    for field in sorted((each for each in shape.fields if each.tag is not None), key=_tag):
        write = _field_writer(field, True, unknown)
        by_default: list[bytes] = []
        write(by_default, field.default)
        tagged.append((_tag(field), field.name, write, b"".join(by_default)))

    def step(out: list[bytes], values: Any) -> None:
        tags = []
        for tag, name, write, default in tagged:
            if name in values:
                pieces: list[bytes] = []
                write(pieces, values[name])
                value = b"".join(pieces)
                if value != default:
                    tags.append(write_tag(tag, value))
        out.append(write_uvarint(len(tags)))
        out.extend(tags)

    return step


def _tag(field: Field) -> int:
    return -1 if field.tag is None else field.tag


def _field_writer(field: Field, flexible: bool, unknown: Unknown) -> Writer:
    if field.is_array:
        return _array_writer(field, flexible, unknown)
    write = _element_writer(field, flexible, unknown)
    if field.struct is not None and field.nullable:
        return _nullable_struct_writer(write)
    return write


def _array_writer(field: Field, flexible: bool, unknown: Unknown) -> Writer:
    write_element = _element_writer(field, flexible, unknown)

    def write(out: list[bytes], values: Any) -> None:
        if values is None:
            _check_null(field, field.nullable)
            out.append(write_count(-1, flexible))
            return
        out.append(write_count(len(values), flexible))
        for value in values:
            write_element(out, value)

    return write


def _nullable_struct_writer(write_struct: Writer) -> Writer:
    # A byte in front says whether it is there (KIP-893).
    def write(out: list[bytes], value: Any) -> None:
        if value is None:
            out.append(b"\xff")
            return
        out.append(b"\x01")
        write_struct(out, value)

    return write


def _element_writer(field: Field, flexible: bool, unknown: Unknown) -> Writer:
    if field.struct is not None:
        return struct_writer(field.struct, unknown)
    if field.kind in FIXED:
        return _fixed_writer(field, FIXED[field.kind])
    if field.kind == UUID:
        return _write_uuid
    if field.kind == STRING:
        return _string_writer(field, flexible)
    if field.kind in BYTES:
        return _bytes_writer(field, flexible)
    raise TypeError(f"{field.name}: no writer for {field.kind}")


def _fixed_writer(field: Field, letter: str) -> Writer:
    layout = struct.Struct(">" + letter)

    def write(out: list[bytes], value: Any) -> None:
        try:
            out.append(layout.pack(value))
        except struct.error as error:
            raise ValueError(f"{field.name}: {value!r} does not fit: {error}") from None

    return write


def _write_uuid(out: list[bytes], value: Any) -> None:
    out.append((NO_UUID if value is None else value).bytes)


def _string_writer(field: Field, flexible: bool) -> Writer:
    nullable = field.nullable and not field.is_array

    def write(out: list[bytes], value: Any) -> None:
        if value is None:
            _check_null(field, nullable)
        out.append(write_nullable_string(value, flexible))

    return write


def _bytes_writer(field: Field, flexible: bool) -> Writer:
    nullable = field.nullable and not field.is_array

    def write(out: list[bytes], value: Any) -> None:
        if value is None:
            _check_null(field, nullable)
            out.append(b"\x00" if flexible else INT32.pack(-1))
            return
        out.append(write_uvarint(len(value) + 1) if flexible else INT32.pack(len(value)))
        out.append(value)

    return write


def _check_null(field: Field, nullable: bool) -> None:
    if not nullable:
        raise ValueError(f"{field.name} must not be null")
