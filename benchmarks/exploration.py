"""Measures how fast the code's state graph is explored: `python -m benchmarks.exploration`.

A whole model is explored with all of its properties judged and every state projected onto the
spec's variables. The figure is edges a second of one core's time, and how many times longer that
takes than TLC with one worker on the same model. The goal is 8,000 edges a second.
"""

from __future__ import annotations

import argparse
import time

from spec.catalogue import load_catalogue
from spec.checking import Limits, check_model
from spec.conformance.checking import explore_model

GOAL_EDGES_PER_SECOND = 8_000


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="Replication/smoke")
    model = load_catalogue().select(None, parser.parse_args().model, ())[0]
    started_s = time.process_time()
    found, projected = explore_model(model)
    seconds = time.process_time() - started_s
    edges = len(found.edges)
    print(f"{model.name}: {len(found.states):,} states of the code, {projected:,} of the spec")
    print(f"  {edges:,} edges, {edges / seconds:,.0f} a second (goal: {GOAL_EDGES_PER_SECOND:,})")
    outcome = check_model(model, Limits(workers=1))
    tlc_s = outcome.statistics.seconds
    print(f"  {seconds / tlc_s:.1f} times TLC with one worker ({tlc_s:.0f} s)")


if __name__ == "__main__":
    main()
