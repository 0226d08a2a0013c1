"""The explored world of producers: it can be told from the spec's, and what it adds is seen."""

from __future__ import annotations

import attrs
import pytest

from protocol.idempotence import Rules
from protocol.idempotence.effects import AlreadyAppended
from protocol.idempotence.events import BatchArrived, HighWatermarkAdvanced
from spec.catalogue import load_catalogue
from spec.checking import Limits
from spec.conformance.checking import Conformance, conform
from spec.conformance.idempotence import build
from spec.conformance.idempotence.constants import read_constants
from spec.conformance.idempotence.machines import Machines
from spec.conformance.idempotence.mutants import RuleSet
from spec.conformance.idempotence.properties import INVARIANTS
from spec.conformance.idempotence.world import Answer, Known, Sender, World, number_of, sender
from spec.conformance.system import System
from spec.conformance.values import NotComparableError
from spec.runner.config import read_config

CATALOGUE = load_catalogue()
SMALLEST = CATALOGUE.select("Idempotence", "Idempotence/smoke-wrap", ())[0]
SMOKE = CATALOGUE.select("Idempotence", "Idempotence/smoke", ())[0]


def walk(system: System[World], *names: str) -> World:
    """Take the first step of each of these names, one after the other."""
    world = system.initial
    for name in names:
        world = next(after for label, after in system.successors(world) if label[0] == name)
    return world


def names_of(system: System[World], world: World) -> set[str]:
    return {label[0] for label, _ in system.successors(world)}


@pytest.fixture(scope="module")
def smoke() -> System[World]:
    return build(read_config(SMOKE.config), RuleSet())


def test_a_batch_goes_there_and_its_answer_comes_back(smoke: System[World]) -> None:
    world = walk(smoke, "Send", "AppendBatch", "Commit", "HandleAnswer")
    assert world.acked == {Known(1, 1, 0)}
    assert world.messages == frozenset()
    assert [each.batch for each in world.leader.log] == [1]


def test_what_is_lost_may_be_sent_again_and_is_known_again(smoke: System[World]) -> None:
    appended = walk(smoke, "Send", "AppendBatch", "Restart", "Retry")
    assert names_of(smoke, appended) >= {"DuplicateAck", "Commit"}
    assert "AppendBatch" not in names_of(smoke, appended)
    again = walk(smoke, "Send", "AppendBatch", "Restart", "Retry", "DuplicateAck")
    assert again.leader.waiting == frozenset()
    assert again.leader.all_waiting == {Known(1, 1, 0)}
    answered = walk(smoke, "Send", "AppendBatch", "Restart", "Retry", "DuplicateAck", "Commit")
    assert answered.messages == {Answer(1, 1, "ok", 0)}


def test_nobody_hears_the_answer_to_a_late_request(smoke: System[World]) -> None:
    world = walk(smoke, "Send")
    late = [
        after
        for label, after in smoke.successors(world)
        if label[0] == "Retry" and len(after.messages) == 2
    ]
    assert len(late) == 1
    appended = [after for label, after in smoke.successors(late[0]) if label[0] == "AppendBatch"]
    assert sorted(len(after.leader.all_waiting) for after in appended) == [0, 1]


def test_a_late_copy_does_not_take_the_place_of_one_that_is_waited_for() -> None:
    """Their correlations differ, though batch and producer are the same."""
    constants = read_constants(read_config(SMOKE.config))
    machines = Machines(constants, Rules())
    leader = machines.first().leader
    leader = machines.leader(leader, BatchArrived(Sender(1, 1), 1, 0, 0, 0)).leader
    leader = machines.leader(leader, BatchArrived(Sender(1, 1, late=True), 1, 0, 0, 0)).leader
    leader = machines.leader(leader, BatchArrived(Sender(1, 1), 1, 0, 0, 0)).leader
    effects = machines.leader(leader, HighWatermarkAdvanced(1)).effects
    assert effects == (
        AlreadyAppended(Sender(1, 1, late=True), 0),
        AlreadyAppended(Sender(1, 1), 0),
    )


def test_what_is_not_of_this_world_is_refused() -> None:
    with pytest.raises(TypeError):
        sender("somebody")
    with pytest.raises(TypeError):
        number_of("a batch")
    replication = CATALOGUE.select("Replication", "Replication/smoke", ())[0]
    with pytest.raises(NotComparableError, match="Idempotence"):
        read_constants(read_config(replication.config))


def test_every_invariant_holds_at_the_start_and_is_one_of_the_models(
    smoke: System[World],
) -> None:
    assert all(holds(smoke.initial) for holds in smoke.invariants.values())
    assert INVARIANTS.keys() == set(read_config(SMOKE.config).invariants)


@pytest.mark.tlc
@pytest.mark.slow
def test_a_client_that_is_too_careful_is_safe_but_not_the_spec_s() -> None:
    alone = attrs.evolve(Rules(), may_send=lambda in_flight, *_: not in_flight)
    result = conform(SMALLEST, Limits(), rules=RuleSet(alone))
    assert isinstance(result, Conformance)
    found = result.comparison
    assert result.broken is None
    assert found is not None
    assert not result.holds
    assert found.code.edges < found.spec.edges
    assert [action for action, _ in found.path] == [None, "Send"]
    spec_alone = found.successors(found.spec).keys() - found.successors(found.code).keys()
    assert {action for action, _ in spec_alone} == {"Send"}


@pytest.mark.tlc
@pytest.mark.slow
def test_a_leader_that_forgets_is_told_by_the_property_that_it_breaks() -> None:
    forgetful = attrs.evolve(Rules(), state_after_restart=lambda snapshot, *_: snapshot.entries)
    result = conform(SMALLEST, Limits(), rules=RuleSet(forgetful))
    assert isinstance(result, Conformance)
    assert not result.holds
    assert result.broken == "ProducerStateIsFold"
