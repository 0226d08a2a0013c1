"""Which machines mirror which spec module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spec.catalogue import CatalogueError, Model, Mutant
from spec.conformance import idempotence, quorum, replication
from spec.conformance.system import Family, System
from spec.runner.config import Config

FAMILIES: Mapping[str, Family] = {
    each.module: each for each in (replication.FAMILY, idempotence.FAMILY, quorum.FAMILY)
}
"""By the folder in which a module's models lie."""
# The refinement of Metadata is shown with the machines of the module that refines it.
_SHOWN_WITH: Mapping[str, str] = {"Metadata": "Replication"}


def family_of(model: Model) -> Family:
    """Find the machines for a model; `CatalogueError` if there are none."""
    family = FAMILIES.get(_SHOWN_WITH.get(model.spec, model.spec))
    if family is None:
        raise CatalogueError(f"{model.name}: no machines mirror {model.spec}")
    return family


def build(model: Model, config: Config, rules: Any = None) -> System[Any]:
    """Compose the machines for a model, with the right rules unless others are given."""
    family = family_of(model)
    return family.build(config, family.right if rules is None else rules)


def is_in_code(mutant: Mutant) -> bool:
    """Whether the machines have what a mutant swaps."""
    return family_of(mutant.model).is_in_code(mutant)
