"""The catalogue of what can be checked: the models in `models/` and the mutants in `mutants/`.

Each is a TLC configuration (.cfg) whose first comment lines tell its story and then give, as
`key: value`, what TLC does not need to know:

    module    the .tla file it configures; a mutant's lies beside it
    suite     of a model: smoke, gate or deep
    states    of a model: how many distinct states it has
    compared  of a model: `yes` if its whole state graph is compared with the code
    simulate  of a model: `400 walks of 120 steps`, instead of exploring all
    model     of a mutant: the model whose constants it takes, unless it gives its own
    length    of a mutant: how many states the shortest counterexample has

A model is complete and can be given to TLC as it is. A mutant says only what is different;
`compose` completes it. Nothing is run here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import attrs

from spec.runner.config import Config, read_config
from spec.runner.errors import RunnerError

SPEC_DIR = Path(__file__).parent
SUITES = ("smoke", "gate", "deep")

_KEY = re.compile(r"(module|suite|states|compared|simulate|model|length): +(.+)\Z")
_WALKS = re.compile(r"(\d+) walks of (\d+) steps\Z")
# What a mutant replaces in the model it stands on; the model's other statements remain.
_CHECKED = ("INVARIANTS", "PROPERTIES", "SYMMETRY")


class CatalogueError(RunnerError):
    """A model or mutant is described wrongly, or there is none of that name."""


@attrs.frozen
class Model:
    """A configuration of a spec that TLC is expected to find nothing wrong with."""

    name: str
    config: Path
    module: Path
    story: str
    suite: str
    states: int | None = None
    walks: int | None = None
    walk_steps: int | None = None
    compared: bool = False

    @property
    def spec(self) -> str:
        """The spec that it is a model of: the folder that it lies in."""
        return self.name.split("/")[0]


@attrs.frozen
class Mutant:
    """A model with one rule swapped for a wrong one, and the property that must break."""

    name: str
    config: Path
    module: Path
    story: str
    model: Model
    broken: str
    rule: str | None = None
    wrong: str | None = None
    length: int | None = None


@attrs.frozen
class Catalogue:
    """All models and mutants, in the order in which they are run."""

    models: tuple[Model, ...]
    mutants: tuple[Mutant, ...]

    def select(self, module: str | None, model: str | None, suites: tuple[str, ...]) -> list[Model]:
        """Find models by the folder they lie in and by name or suite; by default, of the suites."""
        found = [each for each in self.models if module in (None, each.spec)]
        if not found:
            modules = sorted({each.spec for each in self.models})
            raise CatalogueError(f"there is no spec {module!r}; there are {', '.join(modules)}")
        if model is None:
            return [each for each in found if each.suite in suites]
        named = [each for each in found if model in (each.name, each.name.split("/")[1])]
        named = named or [each for each in found if each.suite == model]
        if not named:
            raise CatalogueError(
                f"there is no model {model!r}; there are "
                + ", ".join(each.name for each in found)
                + f", and the suites {', '.join(SUITES)}"
            )
        return named

    def mutant(self, name: str) -> Mutant:
        """Find a mutant by its name, in either case."""
        for each in self.mutants:
            if each.name.lower() == name.lower():
                return each
        names = ", ".join(each.name for each in self.mutants)
        raise CatalogueError(f"there is no mutant {name!r}; there are {names}")


def load_catalogue(folder: Path = SPEC_DIR) -> Catalogue:
    """Read all models and mutants below a folder of specs."""
    models = [_read_model(path, folder) for path in sorted(folder.glob("models/*/*.cfg"))]
    if not models:
        raise CatalogueError(f"there are no models: {folder / 'models'} has no */*.cfg")
    models.sort(key=lambda model: (SUITES.index(model.suite), model.name))
    by_name = {model.name: model for model in models}
    mutants = [_read_mutant(path, by_name) for path in sorted(folder.glob("mutants/*.cfg"))]
    return Catalogue(tuple(models), tuple(mutants))


def compose(mutant: Mutant) -> Config:
    """Complete a mutant's configuration by what it takes from its model."""
    base, own = read_config(mutant.model.config), read_config(mutant.config)
    kept = {word: names for word, names in base.statements.items() if word not in _CHECKED}
    return Config({**base.constants, **own.constants}, {**kept, **own.statements})


def _read_model(path: Path, folder: Path) -> Model:
    story, keys = _read_header(path)
    suite = _needed(keys, "suite", path)
    if suite not in SUITES:
        raise CatalogueError(f"{path}: suite is {suite!r}, not one of {', '.join(SUITES)}")
    walks = _WALKS.match(keys["simulate"]) if "simulate" in keys else None
    if "simulate" in keys and walks is None:
        raise CatalogueError(f"{path}: simulate is not of the form '400 walks of 120 steps'")
    return Model(
        name=f"{path.parent.name}/{path.stem}",
        config=path,
        module=_module(folder, keys, path),
        story=story,
        suite=suite,
        states=_number(keys, "states", path),
        walks=int(walks[1]) if walks else None,
        walk_steps=int(walks[2]) if walks else None,
        compared=keys.get("compared") == "yes",
    )


def _read_mutant(path: Path, models: Mapping[str, Model]) -> Mutant:
    story, keys = _read_header(path)
    model = models.get(_needed(keys, "model", path))
    if model is None:
        raise CatalogueError(f"{path}: there is no model {keys['model']!r}")
    config = read_config(path)
    properties = config.invariants + config.properties
    swapped = [(name, text[3:]) for name, text in config.constants.items() if text[:2] == "<-"]
    if len(properties) != 1 or len(swapped) > 1:
        raise CatalogueError(f"{path}: a mutant swaps one rule and breaks exactly one property")
    rule, wrong = swapped[0] if swapped else (None, None)
    return Mutant(
        name=path.stem,
        config=path,
        module=_module(path.parent, keys, path),
        story=story,
        model=model,
        broken=properties[0],
        rule=rule,
        wrong=wrong,
        length=_number(keys, "length", path),
    )


def _read_header(path: Path) -> tuple[str, dict[str, str]]:
    """Split the comment lines a file begins with into its story and its keys."""
    story: list[str] = []
    keys: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("\\*"):
            break
        text = line[2:].strip()
        if match := _KEY.match(text):
            keys[match[1]] = match[2]
        elif text:
            story.append(text)
    if not story:
        raise CatalogueError(f"{path}: its first lines must tell, as comments, what it is about")
    return " ".join(" ".join(story).split()), keys


def _needed(keys: Mapping[str, str], key: str, path: Path) -> str:
    if key not in keys:
        raise CatalogueError(f"{path}: its header lacks the line '\\* {key}: ...'")
    return keys[key]


def _module(folder: Path, keys: Mapping[str, str], path: Path) -> Path:
    module = folder / _needed(keys, "module", path)
    if not module.is_file():
        raise CatalogueError(f"{path}: the module {module} does not exist")
    return module


def _number(keys: Mapping[str, str], key: str, path: Path) -> int | None:
    text = keys.get(key)
    if text is None:
        return None
    if not text.replace(",", "").isdigit():
        raise CatalogueError(f"{path}: {key} is {text!r}, not a number")
    return int(text.replace(",", ""))
