"""Images: what records make of them, what changes, and what a snapshot keeps."""

from itertools import pairwise
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from net.metadata import snapshots
from net.metadata.codec import BadRecord, FloorRecord
from net.metadata.image import Change, ImageLoader, difference, image_of, image_records, log_records
from protocol.controller.records import (
    PartitionRecord,
    Record,
    RemoveTopicRecord,
    TopicRecord,
    replay,
)
from protocol.controller.state import Floor, Image, Partition, TopicConfig
from protocol.quorum import SnapshotId
from storage.disk.posix import PosixDisk
from tests.net.metadata.records import records

many = st.lists(records, max_size=30)


@given(many)
def test_a_snapshot_is_the_very_image(found: list[Record]) -> None:
    image = replay(found)
    assert image_of(image_records(image)) == image
    assert list(image_records(image)) == list(image_records(replay(found)))


@settings(max_examples=20, deadline=None)
@given(many)
def test_a_snapshot_file_is_the_very_image(
    tmp_path_factory: pytest.TempPathFactory, found: list[Record]
) -> None:
    folder, image = tmp_path_factory.mktemp("snapshots"), replay(found)
    disk = PosixDisk()
    snapshots.write(disk, str(folder), SnapshotId(7, 2), image, 1)
    (path,) = folder.iterdir()
    assert path.name == "00000000000000000007-0000000002.checkpoint"
    assert snapshots.read(disk, str(path)) == image
    disk.close()


def differing(before: Image, after: Image) -> Change:
    return difference(before, after, 0)


@given(many, st.lists(many, max_size=4))
def test_a_change_names_all_that_differs(first: list[Record], later: list[list[Record]]) -> None:
    loader = ImageLoader(replay(first), 10)
    told: list[Change] = []
    loader.subscribe(told.append)
    for number, some in enumerate(later):
        end = 11 + number
        loader.apply([(end, each) for each in some], end)
    assert told[0] == difference(Image(), replay(first), 10)
    for before, change in pairwise(told):
        assert change.before is before.after
        assert change.offset == before.offset + 1
        expected = differing(change.before, change.after)
        assert expected.partitions <= change.partitions
        assert expected.topics <= change.topics
        assert expected.brokers <= change.brokers
    assert loader.image == replay([each for some in [first, *later] for each in some])


def test_a_topic_that_is_removed_names_its_partitions() -> None:
    loader = ImageLoader()
    topic = TopicRecord("a", "1", TopicConfig())
    parts = [PartitionRecord(Partition("a", index, (1,), frozenset({1}))) for index in (0, 1)]
    change = loader.apply(list(enumerate([topic, *parts])), 3)
    assert change.partitions == {("a", 0), ("a", 1)}
    change = loader.apply([(3, RemoveTopicRecord("a"))], 4)
    assert change.partitions == {("a", 0), ("a", 1)}
    assert not change.after.partitions
    # Also within one step, of what nobody has ever seen.
    change = loader.apply(list(enumerate([topic, *parts, RemoveTopicRecord("a")], start=4)), 8)
    assert change.partitions == {("a", 0), ("a", 1)}


def test_a_change_names_nothing_else() -> None:
    loader = ImageLoader()
    one = TopicRecord("a", "1", TopicConfig())
    other = TopicRecord("b", "2", TopicConfig())
    loader.apply([(0, one), (1, other)], 2)
    change = loader.apply([(2, RemoveTopicRecord("a"))], 3)
    assert change.topics == {"a"}
    assert not change.partitions
    assert not change.brokers


@given(many, many)
def test_a_snapshot_that_is_loaded_is_told_as_what_differs(
    first: list[Record], second: list[Record]
) -> None:
    loader = ImageLoader(replay(first), 5)
    change = loader.replace(replay(second), 9)
    assert loader.image == change.after == replay(second)
    assert loader.offset == change.offset == 9
    same = {
        key
        for key in change.after.partitions
        if change.before.partitions.get(key) == change.after.partitions[key]
    }
    assert not same & change.partitions


def test_who_leaves_is_told_no_more() -> None:
    loader, told = ImageLoader(), list[Change]()
    loader.subscribe(told.append)
    loader.unsubscribe(told.append)
    loader.apply([], 1)
    assert not told


def test_a_floor_is_no_record_of_a_log() -> None:
    with pytest.raises(BadRecord, match="offset 3"):
        log_records([(3, FloorRecord(Floor()))])


def test_a_snapshot_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    disk = PosixDisk()
    write = disk.write
    seen: list[str] = []

    def watched(path: str, buffers: object, position: int) -> int:
        seen.append(path)
        return write(path, buffers, position)  # type: ignore[arg-type]

    disk.write = watched  # type: ignore[method-assign]
    image = replay([TopicRecord(f"t{n}", "", TopicConfig()) for n in range(2_500)])
    snapshots.write(disk, str(tmp_path), SnapshotId(1, 1), image, 1)
    assert len(seen) == 5
    assert all(path.endswith(".checkpoint.tmp") for path in seen)
    assert [path.suffix for path in tmp_path.iterdir()] == [".checkpoint"]
    disk.close()
