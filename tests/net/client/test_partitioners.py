"""Records without a key stick to a partition, or go round; partitions nobody leads are avoided."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

from net.client import RoundRobinPartitioner, StickyPartitioner
from net.client.murmur2 import partition_of
from net.client.topology import NO_ID, NO_LEADER, PartitionInfo, TopicInfo


def _topic(*leaders: int) -> TopicInfo:
    partitions = tuple(
        PartitionInfo(index, leader, 0, (1,), (1,)) for index, leader in enumerate(leaders)
    )
    return TopicInfo("topic", NO_ID, partitions)


def test_sticky_stays_until_its_batch_is_closed_and_then_goes_elsewhere() -> None:
    sticky, topic = StickyPartitioner(random.Random(1)), _topic(1, 1, 1, 1)
    seen = []
    for _ in range(50):
        first = sticky.choose(topic, None)
        assert all(sticky.choose(topic, None) == first for _ in range(20))
        sticky.batch_closed("topic", (first + 1) % 4)
        assert sticky.choose(topic, None) == first
        sticky.batch_closed("topic", first)
        seen.append(first)
    assert all(a != b for a, b in pairwise(seen))
    assert set(seen) == {0, 1, 2, 3}


def test_round_robin_takes_each_in_turn_whatever_the_key() -> None:
    turns, topic = RoundRobinPartitioner(), _topic(1, 1, 1)
    assert [turns.choose(topic, b"key") for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_partitions_without_a_leader_are_avoided_if_there_are_others() -> None:
    topic, nobody = _topic(NO_LEADER, 1, NO_LEADER, 1), _topic(NO_LEADER, NO_LEADER)
    for partitioner in (StickyPartitioner(random.Random(1)), RoundRobinPartitioner()):
        chosen: Counter[int] = Counter()
        for _ in range(20):
            index = partitioner.choose(topic, None)
            partitioner.batch_closed("topic", index)
            chosen[index] += 1
        assert set(chosen) == {1, 3}
        assert partitioner.choose(nobody, None) in {0, 1}


def test_a_key_goes_where_it_belongs_even_if_nobody_leads_there() -> None:
    topic = _topic(*[NO_LEADER] * 5)
    for key in (b"a", b"b", b"c", b""):
        assert StickyPartitioner().choose(topic, key) == partition_of(key, 5)
