"""Break a partition's log in every way a machine can stop, and check what is left of it.

    from storage.testing import run

    outcome = run(seed=4711)
    assert outcome.failure is None, outcome.report()

A run is decided by its seed alone: a small broker on a simulated disk gets operations at random
(`workload`), is killed or loses power at any operation of its disk, also while it recovers, and
starts again (`crashes`). After every start the log is compared with a model that knows what was
promised (`model`), and all that can be looked up in it with a naive search (`checks`). `left_out`
makes the disk skip one kind of fsync or rename, in order to see that this is noticed; `rot` flips
bits in what was durable.

It knows no test framework.
"""

from storage.testing.crashes import Outcome, run
from storage.testing.left_out import LeftOut
from storage.testing.rot import run_rot

__all__ = ["LeftOut", "Outcome", "run", "run_rot"]
