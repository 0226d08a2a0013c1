"""Times, hints, whose log a folder has: what is decided from a value or two."""

from uuid import UUID

import pytest
from immutables import Map

from net.broker.hints import endpoint_of, endpoints_of, leader_hint
from net.broker.identity import FILE_NAME, read_topic_id, write_topic_id
from net.broker.timestamps import TimestampPolicy
from net.driving import Timers
from net.settings.topic import topic_settings
from net.transport.seam import Endpoint
from protocol.controller.state import Image, Partition, Registration
from storage.disk.simulated import SimulatedDisk
from tests.net.broker.fetching.worlds import Node
from tests.net.settings.nodes import node

NOW = 1_000_000
ID = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")


@pytest.mark.parametrize(
    ("time_ms", "is_accepted"),
    [
        (NOW, True),
        (NOW - 100, True),
        (NOW - 101, False),
        (NOW + 50, True),
        (NOW + 51, False),
        (-1, True),
    ],
)
def test_times_may_be_so_far_from_the_clock_and_no_further(time_ms: int, is_accepted: bool) -> None:
    said = {"message.timestamp.before.max.ms": "100", "message.timestamp.after.max.ms": "50"}
    policy = TimestampPolicy.of(topic_settings(said, node()))
    assert policy.accepts(time_ms, NOW) is is_accepted
    assert not policy.log_append_time


def test_a_topic_may_take_the_time_of_the_broker() -> None:
    said = {"message.timestamp.type": "LogAppendTime"}
    assert TimestampPolicy.of(topic_settings(said, node())).log_append_time


def partition(leader: int) -> Partition:
    return Partition("t", 0, (1, 2), frozenset({1, 2}), frozenset(), leader, 4, 9)


def image(leader: int = 2) -> Image:
    places = (("IN", "in2", 1, 0), ("OUT", "out2", 2, 0))
    two = Registration(2, 10, "x", rack="r", endpoints=places)
    one = Registration(1, 10, "y", endpoints=(("IN", "in1", 3, 0),))
    return Image(brokers=Map({1: one, 2: two}), partitions=Map({("t", 0): partition(leader)}))


def test_a_hint_names_the_leader_and_its_epoch_if_there_is_one() -> None:
    assert leader_hint(image(), "t", 0) == (2, 4)
    assert leader_hint(image(leader=-1), "t", 0) is None
    assert leader_hint(image(), "t", 1) is None


def test_brokers_are_found_on_the_listener_that_was_asked() -> None:
    assert endpoint_of(image(), 2, "OUT") == Endpoint("out2", 2)
    assert endpoint_of(image(), 1, "OUT") is None
    assert endpoint_of(image(), 3, "IN") is None
    found = endpoints_of(image(), {2, 1, 3}, "IN")
    assert [(each.node_id, each.host, each.port, each.rack) for each in found] == [
        (1, "in1", 3, None),
        (2, "in2", 1, "r"),
    ]
    assert [each.node_id for each in endpoints_of(image(), {1, 2}, "OUT")] == [2]


def test_a_log_says_whose_it_is() -> None:
    log = Node(1, Timers(lambda: 0)).partitions[0].log
    assert read_topic_id(log) is None
    write_topic_id(log, ID)
    assert read_topic_id(log) == ID
    # As Kafka writes it.
    path = f"{log.folder}/{FILE_NAME}"
    assert log.disk.read(path, 0, 100) == b"version: 0\ntopic_id: a6e4EJ2tEdGAtADAT9QwyA"


@pytest.mark.parametrize(
    "content", [b"", b"version: 1\ntopic_id: x", b"\xff" * 40, b"version: 0\n"]
)
def test_what_does_not_say_whose_log_it_is_says_nothing(content: bytes) -> None:
    log = Node(1, Timers(lambda: 0)).partitions[0].log
    assert isinstance(log.disk, SimulatedDisk)
    path = f"{log.folder}/{FILE_NAME}"
    log.disk.create(path)
    log.disk.write(path, (content,), 0)
    assert read_topic_id(log) is None
