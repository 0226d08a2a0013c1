"""Each client in turn produces and consumes while the leader of its partition is killed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.net.cluster.harness import LocalCluster
from tests.net.cluster.histories import check
from tests.net.cluster.loads import (
    ConfluentLoad,
    ConfluentTail,
    KafkaPythonLoad,
    KafkaPythonTail,
    KcatLoad,
    KcatTail,
    MakeLoad,
    MakeTail,
)
from tests.net.cluster.strangers import LITTERS, NEEDS_KCAT

pytestmark = [LITTERS, pytest.mark.slow]

EACH = [
    pytest.param(ConfluentLoad, ConfluentTail, id="confluent-kafka"),
    pytest.param(KafkaPythonLoad, KafkaPythonTail, id="kafka-python"),
    pytest.param(KcatLoad, KcatTail, id="kcat", marks=NEEDS_KCAT),
]


@pytest.mark.parametrize("is_idempotent", [True, False], ids=["idempotent", "plain"])
@pytest.mark.parametrize(("load_by", "tail_by"), EACH)
def test_a_client_goes_on_when_the_leader_is_killed(
    cluster: LocalCluster,
    new_topic: Callable[..., str],
    load_by: MakeLoad,
    tail_by: MakeTail,
    is_idempotent: bool,
) -> None:
    topic = new_topic()
    try:
        with tail_by(cluster.bootstrap, topic) as tail:
            with load_by(cluster.bootstrap, topic, is_idempotent=is_idempotent) as load:
                load.goes_on()
                leader = cluster.leader_of(topic)
                cluster.kill(leader)
                load.goes_on()
                assert cluster.leader_after(topic, 0, leader) != leader
                load.goes_on()
            last = max(each.offset or 0 for each in load.acked)
            tail.reaches(last)
        check(load)
        _saw_everything_once(tail.read, last)
    finally:
        cluster.heal()


def _saw_everything_once(read: list[tuple[int, Any]], last: int) -> None:
    """A consumer sees each offset once, and none before its time."""
    assert [offset for offset, _ in read][: last + 1] == list(range(last + 1))
