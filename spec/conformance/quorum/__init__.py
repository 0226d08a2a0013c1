"""The machines of `Quorum.tla`: a `Quorum` for each node, voter or observer.

They are composed with disks in memory and the messages in flight into a quorum whose steps are the
actions of that spec. Nothing here repeats a rule of the protocol; what it adds are the bounds of
the spec's models, and what the spec's environment may do.
"""

from __future__ import annotations

from functools import partial

from protocol.quorum import Quorum
from spec.conformance.quorum.constants import read_constants
from spec.conformance.quorum.liveness import LIVENESS, is_fair
from spec.conformance.quorum.mutants import WRONG_RULES, RuleSet
from spec.conformance.quorum.projection import Projection
from spec.conformance.quorum.properties import ACTION_PROPERTIES, INVARIANTS
from spec.conformance.quorum.steps import Steps
from spec.conformance.quorum.world import World
from spec.conformance.system import Family, System
from spec.runner.config import Config


def build(config: Config, rules: RuleSet) -> System[World]:
    """Compose a quorum with the constants of a model."""
    constants = read_constants(config)
    steps = Steps(constants, rules.quorum)
    return System(
        initial=steps.initial(),
        successors=steps.successors,
        project=Projection(constants),
        invariants={name: partial(holds, constants) for name, holds in INVARIANTS.items()},
        action_properties={
            name: partial(holds, constants) for name, holds in ACTION_PROPERTIES.items()
        },
        liveness=LIVENESS,
        is_fair=partial(is_fair, steps),
        constraints={},
        fair_together=True,
    )


# What only happens to nodes, or between them, no machine does.
ENVIRONMENT = frozenset({"Restart", "Isolate", "Rejoin"})

FAMILY = Family("Quorum", (Quorum,), RuleSet(), WRONG_RULES, build, ENVIRONMENT)
