"""The machines of `Idempotence.tla`: `Sequences` for whoever leads, a `ProducerClient` each.

They are composed with an in-memory log and the messages in flight into a world whose steps are the
actions of that spec. Nothing here repeats a rule of the protocol; what it adds are the bounds of
the spec's models, and what the spec's environment may do. Who waits for the commit of a first
append waits here, by the rule `may_answer`: in a broker that is the `Replica`'s business.
"""

from __future__ import annotations

from functools import partial

from protocol.idempotence import ProducerClient, Sequences
from spec.conformance.idempotence.constants import read_constants
from spec.conformance.idempotence.mutants import WRONG_RULES, RuleSet
from spec.conformance.idempotence.projection import Projection
from spec.conformance.idempotence.properties import (
    ACTION_PROPERTIES,
    INVARIANTS,
    LIVENESS,
    is_fair,
)
from spec.conformance.idempotence.steps import Steps
from spec.conformance.idempotence.world import World
from spec.conformance.system import Family, System
from spec.runner.config import Config


def build(config: Config, rules: RuleSet) -> System[World]:
    """Compose a world with the constants of a model."""
    constants = read_constants(config)
    steps = Steps(constants, rules.idempotence)
    return System(
        initial=steps.machines.first(),
        successors=steps.successors,
        project=Projection(constants),
        invariants={name: partial(holds, constants) for name, holds in INVARIANTS.items()},
        action_properties={
            name: partial(holds, constants) for name, holds in ACTION_PROPERTIES.items()
        },
        liveness={name: partial(holds, constants) for name, holds in LIVENESS.items()},
        is_fair=is_fair,
        constraints={},
    )


FAMILY = Family(
    "Idempotence",
    (Sequences, ProducerClient),
    RuleSet(),
    WRONG_RULES,
    build,
    environment=frozenset({"TakeSnapshot", "Restart"}),
)
