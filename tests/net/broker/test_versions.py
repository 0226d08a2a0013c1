"""Every version of every API that a listener serves has an effect, and each is looked at.

One cluster of two brokers serves all observations; each of them is then a test of its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from net.wire.apis import Api, Scope, advertised
from tests.net.broker.live import PATIENCE_S, Live, cluster
from tests.net.broker.observing import OBSERVED, Asking

for _room in ("admin", "controller", "data"):
    _name = f"tests.net.broker.observed_{_room}"
    pytest.register_assert_rewrite(_name)
    importlib.import_module(_name)

Case = tuple[Scope, Api, int]
Outcomes = dict[Case, Exception | None]


def served(scope: Scope) -> Iterator[Case]:
    """Everything that a listener tells clients of, or serves without telling."""
    for key, each in advertised(scope).items():
        for version in range(min(each.min, each.serves_from), max(each.max, each.serves_to) + 1):
            yield scope, Api(key), version


CASES = [*served(Scope.BROKER), *served(Scope.CONTROLLER)]


def named(case: Case) -> str:
    scope, api, version = case
    return f"{scope.name}-{api.name}-{version}".lower()


async def observe(folder: Path) -> Outcomes:
    """Make all observations, and keep what came of each."""
    outcomes: Outcomes = {}
    async with cluster(folder, 2, metadata_log_max_record_bytes_between_snapshots="20000") as live:
        for case in CASES:
            if case in OBSERVED:
                outcomes[case] = await look(live, case)
    return outcomes


async def look(live: Live, case: Case) -> Exception | None:
    """Make one observation."""
    scope, api, version = case
    try:
        with trio.fail_after(PATIENCE_S):
            await OBSERVED[case](Asking(live, api, version, scope))
    except Exception as error:
        return error
    return None


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return trio.run(observe, tmp_path_factory.mktemp("versions"))


def test_every_version_that_is_served_is_observed() -> None:
    assert {named(case) for case in CASES} == {named(case) for case in OBSERVED}


@pytest.mark.parametrize("case", CASES, ids=named)
def test_the_version_does_what_it_is_for(case: Case, outcomes: Outcomes) -> None:
    assert case in outcomes, "nobody has looked at it"
    error = outcomes[case]
    if error is not None:
        raise error
