"""A log to work with."""

import pytest

from storage.testing.bench import Bench


@pytest.fixture
def bench() -> Bench:
    """An empty log with small segments."""
    return Bench()
