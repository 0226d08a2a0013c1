"""The machines of `Replication.tla`: a `Replica` for each broker, and one `Controller`.

They are composed with an in-memory log and the messages in flight into a cluster whose steps are
the actions of that spec. Nothing here repeats a rule of the protocol; what it adds are the bounds
of the spec's models, and what the spec's environment may do.
"""

from __future__ import annotations

from functools import partial

from protocol.controller import Controller
from protocol.replication import Replica
from spec.conformance.replication.cluster import Cluster
from spec.conformance.replication.constants import Constants, read_constants
from spec.conformance.replication.liveness import LIVENESS, is_fair
from spec.conformance.replication.mutants import WRONG_RULES, RuleSet
from spec.conformance.replication.node import Node
from spec.conformance.replication.projection import Projection
from spec.conformance.replication.properties import ACTION_PROPERTIES, INVARIANTS, Bounds
from spec.conformance.replication.steps import Steps
from spec.conformance.system import Family, System
from spec.runner.config import Config


def build(config: Config, rules: RuleSet) -> System[Cluster]:
    """Compose a cluster with the constants of a model."""
    constants = read_constants(config)
    steps = Steps(constants, rules.replica, rules.controller)
    bounds = _bounds(constants, steps)
    return System(
        initial=steps.initial(),
        successors=steps.successors,
        project=Projection(constants),
        invariants={name: partial(holds, bounds) for name, holds in INVARIANTS.items()},
        action_properties={
            name: partial(holds, bounds) for name, holds in ACTION_PROPERTIES.items()
        },
        liveness=LIVENESS,
        is_fair=is_fair,
        constraints={"FewVersions": lambda cluster: cluster.decided.partition.version <= 6},
    )


def _bounds(constants: Constants, steps: Steps) -> Bounds:
    def read_limit(node: Node) -> int:
        return steps.rules.read_limit(node.state.log, node.state.high_watermark)

    def candidates(cluster: Cluster) -> frozenset[int]:
        decided = cluster.decided
        return steps.decisions.rules.candidates(decided.partition, decided.fenced)

    return Bounds(
        constants.min_isr,
        constants.max_records,
        constants.max_epoch,
        constants.max_faults,
        constants.acks_one,
        read_limit,
        candidates,
    )


FAMILY = Family("Replication", (Replica, Controller), RuleSet(), WRONG_RULES, build)
