"""A program that behaves like `hwmark serve`, for tests of who starts it."""

import sys
from collections.abc import Sequence

from hwmark.cluster_layout import NodePlan

FAKE = """
import json, os, signal, sys
how = sys.argv[1]
print("a log line", file=sys.stderr, flush=True)
if how == "fails":
    sys.exit(2)
if how == "dies":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(3))
elif how == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
if how != "silent":
    print(json.dumps({"listeners": {"PLAINTEXT": "x"}, "pid": os.getpid()}), flush=True)
    os.write(1, b"more than anybody reads" * 10_000)
while True:
    signal.pause()
"""


def fake(how: str = "well") -> list[str]:
    """Return the command of a fake node that behaves well, fails, is deaf to SIGTERM or silent."""
    return [sys.executable, "-c", FAKE, how]


def all_fake(_node: NodePlan) -> Sequence[str]:
    """Start a fake node for each."""
    return fake()
