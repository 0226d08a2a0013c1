"""Records and batches for the properties in this folder."""

import hypothesis.strategies as st

from storage.batch.build import build
from storage.batch.codecs import CODECS
from storage.batch.header import HEADER_BYTES, Batch, split
from storage.batch.records import Record

BASE_OFFSETS = st.integers(0, 1 << 60)
TIMES_MS = st.integers(0, 1 << 42)
ANY_TIMES_MS = st.integers(-(1 << 63), (1 << 63) - 1)
DATA = st.none() | st.binary(max_size=40) | st.builds(bytes, st.integers(60, 300))
NAMES = st.text(max_size=8)
HEADERS = st.lists(
    st.tuples(NAMES.map(str.encode), st.none() | st.binary(max_size=8)), max_size=3
).map(tuple)


@st.composite
def records(
    draw: st.DrawFn,
    base_offset: int = 0,
    gaps: bool = False,
    times_ms: st.SearchStrategy[int] = TIMES_MS,
    min_size: int = 1,
) -> list[Record]:
    """Records in the order of their offsets, with gaps as after compaction if wanted."""
    count = draw(st.integers(min_size, 8))
    steps = draw(st.lists(st.integers(0, 200 if gaps else 0), min_size=count, max_size=count))
    offset, found = base_offset, []
    for step in steps:
        offset += step
        found.append(Record(offset, draw(times_ms), draw(DATA), draw(DATA), draw(HEADERS)))
        offset += 1
    return found


@st.composite
def batches(draw: st.DrawFn, codecs: tuple[int, ...] = CODECS) -> bytearray:
    """Whole batches of all kinds that `build` can make."""
    base_offset = draw(BASE_OFFSETS)
    found = draw(records(base_offset, gaps=True, times_ms=ANY_TIMES_MS, min_size=0))
    last_offset = found[-1].offset if found else base_offset
    return build(
        found,
        base_offset=base_offset,
        leader_epoch=draw(st.integers(-1, 1 << 30)),
        codec=draw(st.sampled_from(codecs)),
        producer_id=draw(st.integers(-1, 1 << 60)),
        producer_epoch=draw(st.integers(-1, 1 << 14)),
        base_sequence=draw(st.integers(-1, 1 << 30)),
        transactional=draw(st.booleans()),
        control=draw(st.booleans()),
        log_append_time_ms=draw(st.none() | TIMES_MS),
        last_offset_delta=last_offset - base_offset + draw(st.integers(0, 3)),
        delete_horizon_ms=draw(st.none() | TIMES_MS) if found else None,
    )


def only(payload: bytes | bytearray) -> Batch:
    """Return the one batch of a payload."""
    (batch,) = split(payload)
    return batch


def plain(found: Record) -> Record:
    """Return a record that shows its bytes when a test fails."""
    return Record(
        found.offset,
        found.timestamp_ms,
        None if found.key is None else bytes(found.key),
        None if found.value is None else bytes(found.value),
        tuple((bytes(name), None if x is None else bytes(x)) for name, x in found.headers),
    )


def with_body(batch: Batch, body: bytes, **changes: int) -> Batch:
    """Return a batch with another body and other header fields; nobody checks its checksum."""
    header = batch.header._replace(length=HEADER_BYTES - 12 + len(body), **changes)
    return Batch(header, memoryview(bytes(batch.view[:HEADER_BYTES]) + body))
