"""Which folder is whose log, and which is none."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from storage.checkpoint import MAX_INT32, Mark, TopicPartition, folder_mark

UNIQUE = "0123456789abcdef0123456789abcdef"
partitions = st.builds(
    TopicPartition,
    st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,248}", fullmatch=True),
    st.integers(0, MAX_INT32),
)


@given(partitions)
def test_a_folder_is_named_after_its_partition(partition: TopicPartition) -> None:
    assert TopicPartition.from_folder_name(partition.folder_name) == partition
    assert folder_mark(partition.folder_name) is None


@pytest.mark.parametrize(
    ("name", "topic", "partition"),
    [
        ("a-0", "a", 0),
        ("a-b-12", "a-b", 12),
        ("a-1-2", "a-1", 2),
        ("a--3", "a-", 3),
        ("a-delete-3", "a-delete", 3),
        ("a-3.x-delete-4", "a-3.x-delete", 4),
        ("__consumer_offsets-49", "__consumer_offsets", 49),
        ("a-2147483647", "a", MAX_INT32),
    ],
)
def test_the_last_dash_ends_the_topic(name: str, topic: str, partition: int) -> None:
    assert TopicPartition.from_folder_name(name) == TopicPartition(topic, partition)


@pytest.mark.parametrize(
    "name",
    [
        *("", "-", "a", "a-", "-0", "a-x", "a-01", "a--0x", "a-2147483648", "a-99999999999"),
        *("a b-0", "a/b-0", ".-0", "..-0", "a-0\n", "a-0.tmp", "a-\u0663", "\u00e4-0"),
        *("lost+found", "meta.properties", "recovery-point-offset-checkpoint"),
        *("a" * 250 + "-0", f"a-0.{UNIQUE}-delete", f"a-0.{UNIQUE}-stray", f"a-0.{UNIQUE}-future"),
    ],
)
def test_a_foreign_or_marked_folder_is_no_log(name: str) -> None:
    assert TopicPartition.from_folder_name(name) is None


@given(partitions, st.sampled_from(["delete", "stray"]))
def test_a_marked_folder_is_no_log_and_says_why(partition: TopicPartition, mark: Mark) -> None:
    name = partition.marked_folder_name(UNIQUE, mark)
    assert folder_mark(name) == mark
    assert TopicPartition.from_folder_name(name) is None
    assert len(name) <= 255


def test_marked_folders_are_named_as_kafka_names_them() -> None:
    assert TopicPartition("foo", 3).marked_folder_name(UNIQUE, "delete") == f"foo-3.{UNIQUE}-delete"
    long = TopicPartition("n" + "o" * 248, 5).marked_folder_name(UNIQUE, "delete")
    assert long == "n" + "o" * 212 + f"-5.{UNIQUE}-delete"


@pytest.mark.parametrize("name", ["a-0", "delete", "a-delete", f"a-x.{UNIQUE}-delete", "a-0-stray"])
def test_a_folder_without_partition_or_unique_part_is_not_marked(name: str) -> None:
    assert folder_mark(name) is None
