"""What is compared with a spec: machines composed into a system whose steps are the spec's actions.

A system is what the explorer, the comparison, the judge of liveness and a replay need to know, and
no more: a first state, the steps from any state, and the spec's state that each one stands for. A
room beside this file makes one from each spec module's machines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

from protocol.machine import Machine
from spec.catalogue import CatalogueError, Mutant
from spec.runner import State
from spec.runner.config import Config

Label: TypeAlias = tuple[str, tuple[int, ...]]
"""An action's name and its parameters."""

W = TypeVar("W", bound=Hashable)


@attrs.frozen
class System(Generic[W]):
    """Machines composed within the bounds of a model. Everything is by the names that TLC uses.

    Liveness is given by what must hold in the end for ever; `is_fair` tells the steps that do not
    wait for ever; with `fair_together`, one of them is taken in the end, whichever it is. A
    constraint says where the exploration ends.
    """

    initial: W
    successors: Callable[[W], Iterable[tuple[Label, W]]]
    project: Callable[[W], State]
    invariants: Mapping[str, Callable[[W], bool]]
    action_properties: Mapping[str, Callable[[W, W], bool]]
    liveness: Mapping[str, Callable[[W], bool]]
    is_fair: Callable[[Label, W], bool]
    constraints: Mapping[str, Callable[[W], bool]]
    fair_together: bool = False


@attrs.frozen
class Family:
    """How to make a system for any model of one spec module.

    `right` is an attrs value with the right rules of each machine; `wrong` are the wrong rules of
    the module's mutants, under their names. `build` composes a model's constants with such rules.
    Of the module's actions, `machines` mirror all but those of the `environment`.
    """

    module: str
    machines: tuple[type[Machine[Any, Any]], ...]
    right: Any
    wrong: Mapping[str, Callable[..., Any]]
    build: Callable[[Config, Any], System[Any]]
    environment: frozenset[str] = frozenset()

    def rules(self, mutant: Mutant | None = None) -> Any:
        """Give the right rules, with the mutant's one swapped."""
        if mutant is None or mutant.rule is None:
            return self.right
        wrong = self.wrong.get(mutant.wrong or "")
        if wrong is None:
            raise CatalogueError(f"{mutant.name}: {mutant.wrong} has no counterpart in Python")
        machine = self._machine_with(mutant.rule)
        if machine is None:
            raise CatalogueError(f"{mutant.name}: {mutant.rule} is no rule of the machines")
        swapped = attrs.evolve(getattr(self.right, machine), **{snake_case(mutant.rule): wrong})
        return attrs.evolve(self.right, **{machine: swapped})

    def is_in_code(self, mutant: Mutant) -> bool:
        """Whether a mutant swaps a rule, or none; a definition of the spec alone is no rule."""
        return mutant.rule is None or self._machine_with(mutant.rule) is not None

    def _machine_with(self, rule: str) -> str | None:
        for machine in attrs.fields_dict(type(self.right)):
            if snake_case(rule) in attrs.fields_dict(type(getattr(self.right, machine))):
                return machine
        return None


def snake_case(name: str) -> str:
    """Turn a TLA+ operator's name into the Python one: MayJoinIsr into may_join_isr."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
