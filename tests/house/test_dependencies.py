"""The locks follow pyproject.toml, and each kind of user installs only what their job needs."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCKS = ("dev.lock", "spark.lock")
LOCKED_EXTRAS = {
    "dev.lock": ("check", "broker", "dev"),
    "spark.lock": ("check", "broker", "dev", "chaos", "spark"),
}
SPARK = {"pyspark", "py4j", "pandas", "numpy"}
BROKER = {"trio", "crc32c", "cramjam", "lz4", "zstandard"}


class Lock:
    """A parsed lock: versions by package, and who asked for whom."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.versions: dict[str, set[str]] = {}
        self.children: dict[str, set[str]] = {}
        for entry in re.split(r"\n(?=[a-z0-9])", text):
            if head := re.match(r"([a-z0-9.-]+)==([^ ;]+)", entry):
                self.versions.setdefault(head[1], set()).add(head[2])
                parents = re.search(r"# via (.*)", entry)
                for parent in parents[1].split(", ") if parents else []:
                    self.children.setdefault(parent, set()).add(head[1])

    def closure(self, names: set[str]) -> set[str]:
        """Return these packages and everything they bring along."""
        found = set(names)
        while new := {child for name in found for child in self.children.get(name, ())} - found:
            found |= new
        return found


@pytest.fixture(scope="module")
def pyproject(root: Path) -> dict[str, Any]:
    """The parsed pyproject.toml."""
    return tomllib.loads(root.joinpath("pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def locks(root: Path) -> dict[str, Lock]:
    """The parsed locks by file name."""
    return {name: Lock(root.joinpath("locks", name).read_text(encoding="utf-8")) for name in LOCKS}


def requirements(pyproject: dict[str, Any], extra: str) -> list[Requirement]:
    """Return what an extra asks for, with the extras it includes and the base."""
    project = pyproject["project"]
    found = [Requirement(line) for line in project["dependencies"]]
    for line in project["optional-dependencies"][extra]:
        requirement = Requirement(line)
        if requirement.name == "hwmark":
            for other in requirement.extras:
                found += requirements(pyproject, other)
        else:
            found.append(requirement)
    return found


def brought_by(pyproject: dict[str, Any], locks: dict[str, Lock], extra: str) -> set[str]:
    """Return every package that `pip install hwmark[extra]` brings."""
    direct = {canonicalize_name(each.name) for each in requirements(pyproject, extra)}
    return locks["spark.lock"].closure({str(name) for name in direct})


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_satisfies_the_project(
    pyproject: dict[str, Any], locks: dict[str, Lock], name: str
) -> None:
    lock = locks[name]
    for extra in LOCKED_EXTRAS[name]:
        for requirement in requirements(pyproject, extra):
            versions = lock.versions.get(canonicalize_name(requirement.name), set())
            assert versions, f"{requirement} is not in {name}: run `make lock`"
            for version in versions:
                assert requirement.specifier.contains(version), f"{name}: {requirement}, {version}"


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_is_exact_and_hashed_and_names_no_index(locks: dict[str, Lock], name: str) -> None:
    lines = [line.strip() for line in locks[name].text.splitlines()]
    other = [line for line in lines if not line.startswith(("#", "--hash=sha256:"))]
    assert [line for line in other if not re.match(r"[a-z0-9.-]+==\S+.* \\$", line)] == []
    assert locks[name].text.count("--hash=") >= len(other)


def test_the_locks_agree(locks: dict[str, Lock]) -> None:
    small, large = (locks[name].versions for name in LOCKS)
    assert {name: large.get(name) for name in small} == small


def test_the_build_requirement_is_the_locked_one(
    pyproject: dict[str, Any], locks: dict[str, Lock]
) -> None:
    for line in pyproject["build-system"]["requires"]:
        requirement = Requirement(line)
        assert [each.operator for each in requirement.specifier] == ["=="]
        (version,) = locks["dev.lock"].versions[requirement.name]
        assert requirement.specifier.contains(version)


def test_the_base_is_attrs_and_a_persistent_map_alone(pyproject: dict[str, Any]) -> None:
    names = [Requirement(line).name for line in pyproject["project"]["dependencies"]]
    assert names == ["attrs", "immutables"]


@pytest.mark.parametrize("extra", ["cli", "check", "broker", "chaos", "dev"])
def test_no_broker_builder_needs_spark(
    pyproject: dict[str, Any], locks: dict[str, Lock], extra: str
) -> None:
    assert brought_by(pyproject, locks, extra) & SPARK == set()


@pytest.mark.parametrize("extra", ["cli", "check", "spark"])
def test_no_spark_user_needs_a_broker(
    pyproject: dict[str, Any], locks: dict[str, Lock], extra: str
) -> None:
    assert brought_by(pyproject, locks, extra) & BROKER == set()


def test_the_closures_are_not_empty(pyproject: dict[str, Any], locks: dict[str, Lock]) -> None:
    # The two tests above would pass on a lock that could not be read.
    assert brought_by(pyproject, locks, "spark") >= SPARK
    assert BROKER | {"sortedcontainers"} <= brought_by(pyproject, locks, "broker")


def test_spark_is_not_in_the_lock_that_make_installs(locks: dict[str, Lock]) -> None:
    assert locks["dev.lock"].versions.keys() & SPARK == set()
