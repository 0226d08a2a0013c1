"""What these tests share: a cluster per file, and what its nodes said when one of them fails."""

from __future__ import annotations

import gc
import itertools
import warnings
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final

import pytest

from tests.net.cluster.harness import LocalCluster

_NUMBERS: Final = itertools.count(1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the nodes said last, where a test fails."""
    report = yield
    for used in getattr(item, "funcargs", {}).values():
        if report.failed and call.when != "teardown" and isinstance(used, LocalCluster):
            report.sections.append(("what the nodes said", used.ends_of_logs()))
    return report


@pytest.fixture(scope="module", autouse=True)
def _no_litter() -> Iterator[None]:
    """Clean up after kafka-python, which forgets sockets that could not be connected."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    """Three brokers for one file of tests, with the settings that it asks for in `SETTINGS`."""
    module: Any = request.module
    settings = getattr(module, "SETTINGS", {})
    brokers = getattr(module, "BROKERS", 3)
    with LocalCluster(tmp_path_factory.mktemp("cluster") / "c", brokers, settings) as found:
        yield found


@pytest.fixture
def new_topic(cluster: LocalCluster) -> Callable[..., str]:
    """Make a topic that no other test knows."""

    def make(partitions: int = 1, **config: str) -> str:
        named = {name.replace("_", "."): value for name, value in config.items()}
        return cluster.create_topic(f"topic-{next(_NUMBERS)}", partitions, named)

    return make
