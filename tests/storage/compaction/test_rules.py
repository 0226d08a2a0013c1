"""What goes and what stays, case by case."""

from __future__ import annotations

from itertools import pairwise

import attrs
import pytest
from crc32c import crc32c

from storage.batch.build import build
from storage.batch.codecs import CODECS, GZIP
from storage.batch.control import MarkerKind, read_marker
from storage.batch.header import HEADER_BYTES, Batch, split
from storage.batch.records import Record, decode
from storage.disk import jobs
from storage.log import cutting
from storage.log.offset_map import OffsetMap
from storage.retention import retained_from
from tests.storage.compaction.world import (
    CONFIG,
    RETENTION_MS,
    World,
    batches,
    check_structure,
    check_view,
    content,
    producers,
    reopen,
    stable_end,
    visible,
)

COMMIT, ABORT = MarkerKind.COMMIT, MarkerKind.ABORT


@pytest.fixture
def world() -> World:
    return World()


def kept(world: World) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of what a consumer sees, except what `settle` has put there."""
    return [
        (each.offset, each.key, each.value)  # type: ignore[misc]
        for each in visible(world.log)
        if each.key != b"last"
    ]


def batch_at(world: World, offset: int) -> Batch | None:
    """The batch that ends with an offset, if there is one."""
    found = [each for each in batches(world.log) if each.header.last_offset == offset]
    return found[0] if found else None


def clean(world: World, passed_ms: int = 0) -> None:
    """Compact everything that was written up to now, this much later."""
    world.settle()
    world.now_ms += passed_ms
    assert world.compact() is not None
    check_structure(world.log)


def test_only_the_last_value_of_a_key_stays_at_its_offset(world: World) -> None:
    world.put((b"a", b"1"), (b"b", b"2"))
    world.put((b"a", b"3"), (b"c", b"4"))
    clean(world)
    assert kept(world) == [(1, b"b", b"2"), (2, b"a", b"3"), (3, b"c", b"4")]


def test_a_report_says_what_was_done(world: World) -> None:
    for number in range(40):
        world.put((b"a", b"%050d" % number))
    world.settle()
    before, size = len(world.log.segments), world.log.size_bytes
    report = world.compact()
    assert report is not None
    assert (report.segments_before, report.segments_after) == (
        before - 1,
        len(world.log.segments) - 1,
    )
    assert report.bytes_before - report.bytes_after == size - world.log.size_bytes
    assert report.records_removed == 39
    assert report.cleaned_until == world.log.active.base_offset
    assert world.marks.cleaned.values[world.log.partition] == 40


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_loses_nothing_keeps_its_bytes(world: World, codec: int) -> None:
    world.put((b"a", b"1" * 200), (b"b", b"2"), codec=codec)
    world.put((b"c", b"1"), (b"d", b"2"), codec=codec, producer=7)
    before = content(world.log, 0, 4)
    clean(world)
    assert content(world.log, 0, 4) == before


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_loses_some_keeps_its_codec_and_its_offsets(world: World, codec: int) -> None:
    world.put((b"a", b"1" * 200), (b"b", b"2" * 200), (b"a", b"3"), codec=codec, producer=7)
    before = batch_at(world, 2)
    clean(world)
    after = batch_at(world, 2)
    assert before is not None
    assert after is not None
    assert after.header.codec == codec
    for field in ("base_offset", "last_offset", "producer_id", "base_sequence", "last_sequence"):
        assert getattr(after.header, field) == getattr(before.header, field)
    assert [each.offset for each in decode(after)] == [1, 2]


def test_a_tombstone_stays_until_its_horizon_has_passed(world: World) -> None:
    world.put((b"a", b"1"))
    world.put((b"a", None))
    clean(world)
    first_cleaned_ms = world.now_ms
    assert kept(world) == [(1, b"a", None)]
    batch = batch_at(world, 1)
    assert batch is not None
    assert batch.header.delete_horizon_ms == first_cleaned_ms + RETENTION_MS
    world.settle()
    world.now_ms = first_cleaned_ms + RETENTION_MS - 1
    assert world.compact() is not None
    assert kept(world) == [(1, b"a", None)]
    world.settle()
    world.now_ms = first_cleaned_ms + RETENTION_MS
    assert world.compact() is not None
    assert kept(world) == []


def test_a_record_without_key_goes_away(world: World) -> None:
    world.put((None, b"1"), (b"a", b"2"), (None, None))
    clean(world)
    assert kept(world) == [(1, b"a", b"2")]


def test_an_aborted_record_goes_away_and_supersedes_nothing(world: World) -> None:
    world.put((b"a", b"1"))
    world.put((b"a", b"2"), (b"b", b"3"), producer=1, transactional=True)
    world.put((b"c", b"4"), producer=2, transactional=True)
    world.end(1, ABORT)
    world.end(2, COMMIT)
    clean(world)
    assert kept(world) == [(0, b"a", b"1"), (3, b"c", b"4")]
    assert world.log.aborted_between(0, world.log.end_offset) == []


def test_aborted_records_go_away_although_their_marker_is_not_in_reach(world: World) -> None:
    world.put((b"a", b"1"))
    world.put((b"a", b"2"), producer=1, transactional=True)
    world.roll()
    world.end(1, ABORT)
    world.flush()
    assert len(world.log.segments) == 2
    assert world.compact() is not None
    assert kept(world) == [(0, b"a", b"1")]
    assert [each[1:3] for each in world.log.aborted_between(0, 3)] == [(1, 2)]


def test_a_marker_stays_as_long_as_its_transaction_has_records(world: World) -> None:
    world.put((b"a", b"1"), producer=1, transactional=True)
    marker = world.end(1, COMMIT)
    world.put((b"b", b"1"), producer=1, transactional=True)
    world.end(1, COMMIT)
    for _ in range(3):
        clean(world, 2 * RETENTION_MS)
        assert batch_at(world, marker) is not None
    assert stable_end(world.log) == world.log.end_offset


@pytest.mark.parametrize("kind", MarkerKind)
def test_a_marker_goes_when_its_transaction_is_gone_and_its_horizon_has_passed(
    world: World, kind: MarkerKind
) -> None:
    world.put((b"a", b"1"), producer=1, transactional=True)
    marker = world.end(1, kind)
    world.put((b"a", b"2"), producer=1, transactional=True)
    last = world.end(1, COMMIT)
    clean(world)
    batch = batch_at(world, marker)
    assert batch is not None
    assert batch.header.delete_horizon_ms == world.now_ms + RETENTION_MS
    found = read_marker(batch)
    assert found is not None
    assert found.kind is kind
    clean(world, RETENTION_MS - 2)
    assert batch_at(world, marker) is not None
    clean(world, RETENTION_MS)
    assert batch_at(world, marker) is None
    assert batch_at(world, last) is not None


def test_what_an_aborted_transaction_leaves_is_forgotten_with_its_marker(world: World) -> None:
    """Else a reader would wait for the marker, and skip what the producer committed later."""
    world.put((b"a", b"0"), producer=1, transactional=True)
    world.roll()
    marker = world.end(1, ABORT)
    world.roll()
    world.put((b"b", b"1"), producer=1, transactional=True)
    world.end(1, COMMIT)
    for _ in range(3):
        clean(world, 2 * RETENTION_MS)
        check_view(world, world.log)
    assert batch_at(world, marker) is None
    for offset in range(world.log.end_offset, 0, -1):
        jobs.run(cutting.truncate(world.log, offset))
        expected = 2 if offset == 3 else world.log.end_offset
        assert stable_end(world.log) == expected


def test_the_last_batch_of_a_producer_stays_empty_for_its_sequence(world: World) -> None:
    world.put((b"c", b"1"))
    world.put((b"a", b"1"), (b"b", b"1"), producer=7)
    world.put((b"a", b"2"), (b"b", b"2"))
    clean(world)
    batch = batch_at(world, 2)
    assert batch is not None
    assert (batch.header.record_count, batch.header.last_sequence) == (0, 1)
    assert batch.header.size_bytes == HEADER_BYTES
    world.log.producers.expire(world.now_ms + 10**9, 1)
    clean(world)
    assert batch_at(world, 2) is None


def test_the_last_marker_of_a_producer_stays_for_its_coordinator(world: World) -> None:
    world.put((b"a", b"1"), producer=1, transactional=True)
    marker = world.end(1, ABORT)
    world.put((b"a", b"1"))
    for _ in range(3):
        clean(world, 2 * RETENTION_MS)
    assert batch_at(world, marker) is not None
    before = producers(world.log)
    disk = world.disk.crash(1)
    for path in disk.files():
        if path.endswith(".snapshot"):
            disk.delete(path)
    assert producers(reopen(disk)[0]) == before


def test_the_last_marker_of_a_producer_stays_although_its_transaction_is_gone(
    world: World,
) -> None:
    world.put((b"a", b"1"), producer=1, transactional=True)
    marker = world.end(1, COMMIT)
    world.put((b"b", b"1"), producer=1)
    world.put((b"a", b"2"))
    for _ in range(3):
        clean(world, 2 * RETENTION_MS)
    batch = batch_at(world, marker)
    assert batch is not None
    assert batch.header.record_count == 1


def test_where_an_epoch_begins_stays_known(world: World) -> None:
    world.put((b"z", b"1"))
    world.epoch = 4
    world.put((b"a", b"1"))
    world.put((b"a", b"2"))
    clean(world)
    batch = batch_at(world, 1)
    assert batch is not None
    assert (batch.header.leader_epoch, batch.header.record_count) == (4, 0)
    assert batch.header.producer_id == -1


def test_a_segment_still_ends_where_the_next_begins(world: World) -> None:
    world.put((b"a", b"1"))
    world.put((b"a", b"2"), producer=1, transactional=True)
    world.end(1, ABORT)
    world.roll()
    end = world.log.end_offset
    world.log.producers.expire(10**9, 1)
    for _ in range(3):
        clean(world, 2 * RETENTION_MS)
    assert world.log.segments[0].end_offset == world.log.segments[1].base_offset >= end


def test_segments_are_put_together_up_to_their_size(world: World) -> None:
    for number in range(60):
        world.put((b"%d" % (number % 50), b"%080d" % number))
    clean(world)
    sizes = [segment.size_bytes for segment in world.log.segments[:-1]]
    assert max(sizes) <= CONFIG.segment_bytes
    clean(world)
    merged = [segment.size_bytes for segment in world.log.segments[:-1]]
    assert max(merged) <= CONFIG.segment_bytes
    assert all(one + other > 1024 for one, other in pairwise(merged[:-1]))


def test_a_batch_that_nobody_can_read_is_kept_as_it_is(world: World) -> None:
    body = bytearray(build([Record(0, 1, b"a", b"1"), Record(1, 1, b"b", b"1")], codec=GZIP))
    body[57:61] = (3).to_bytes(4, "big")
    (batch,) = split(_sealed(body))
    world.log.append([batch])
    world.put((b"a", b"2"))
    world.settle()
    assert world.compact() is not None
    assert bytes(next(batches(world.log)).view) == bytes(batch.view)


def _sealed(payload: bytearray) -> bytearray:
    """Give a batch the checksum that its bytes have now."""
    payload[17:21] = crc32c(payload[21:]).to_bytes(4, "big")
    return payload


class TestTooManyKeys:
    """The map has room for some keys: then only a part is cleaned, and the next time goes on."""

    def test_it_cleans_as_far_as_the_keys_reach(self, world: World) -> None:
        world.put((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"), (b"a", b"3"))
        world.put((b"d", b"1"), (b"a", b"4"))
        world.settle()
        report = world.compact(max_keys=2)
        assert report is not None
        assert report.cleaned_until == 3
        assert [each[0] for each in kept(world)] == [1, 2, 3, 4, 5, 6]
        report = world.compact(max_keys=2)
        assert report is not None
        assert report.cleaned_until == 5
        assert [each[0] for each in kept(world)] == [1, 3, 4, 5, 6]

    def test_a_tombstone_that_was_not_reached_gets_no_horizon(self, world: World) -> None:
        world.put((b"a", None), (b"b", None), (b"c", None))
        world.settle()
        assert world.compact(max_keys=1) is not None
        batch = batch_at(world, 2)
        assert batch is not None
        assert batch.header.delete_horizon_ms is None

    def test_what_was_not_reached_is_left_alone_even_if_it_is_invalid(self, world: World) -> None:
        world.put((b"a", b"1"), (b"b", b"2"), (None, b"3"))
        world.settle()
        for max_keys, expected in ((1, [0, 1, 2]), (9, [0, 1])):
            assert world.compact(max_keys=max_keys) is not None
            assert [each[0] for each in kept(world)] == expected

    def test_a_map_knows_the_last_offset_of_a_key(self) -> None:
        offsets = OffsetMap(0, max_keys=2)
        assert offsets.note(b"a", 1)
        assert offsets.note(memoryview(b"b"), 2)
        assert not offsets.note(b"c", 3)
        assert offsets.note(bytearray(b"a"), 4)
        assert len(offsets) == 2
        assert offsets.is_superseded(b"a", 3)
        assert not offsets.is_superseded(b"a", 4)
        assert not offsets.is_superseded(b"c", 0)

    def test_a_map_without_room_is_refused(self) -> None:
        with pytest.raises(ValueError, match="never gets anywhere"):
            OffsetMap(0, max_keys=0)


def test_compaction_and_retention_both_do_their_part() -> None:
    world = World(config=attrs.evolve(CONFIG, delete=True, retention_bytes=2500))
    for number in range(60):
        world.put((b"%d" % (number % 30), b"%060d" % number), producer=number % 4)
        if number % 20 == 19:
            world.settle()
            world.compact()
            start = retained_from(world.log, world.now_ms, world.log.end_offset)
            jobs.run(cutting.advance_start(world.log, start))
            check_view(world, world.log)
            check_structure(world.log)
    assert world.log.start_offset > 0
    before = producers(world.log)
    log, _ = reopen(world.disk.crash(3), world.log.config)
    assert producers(log) == before
    check_view(world, log)
    check_structure(log)
