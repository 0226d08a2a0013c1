"""Measures how fast `spec.runner` reads TLC's state graphs: `python -m benchmarks.graph_parsing`.

TLC writes a real dump of a toy replication spec with ten variables, whose states look like those of
`spec/Replication.tla`: nested functions of records, logs, messages in flight. The figures are edges
a second of `load_graph`, and how many times longer that takes than only walking over the file's
lines, which a faster or slower machine changes less. The goal is 20,000 edges a second.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from spec.runner import Job, Verdict, load_graph, run

GOAL_EDGES_PER_SECOND = 20_000
_MIB = 1 << 20
_T = TypeVar("_T")

MODULE = r"""
---- MODULE ToyLog ----
EXTENDS Integers, Sequences, FiniteSets
CONSTANTS Replicas, MaxRecords, MaxEpoch, MaxMessages
VARIABLES log, hw, view, remoteLeo, ctl, registrations, msgs, acked, consumed, budget
vars == <<log, hw, view, remoteLeo, ctl, registrations, msgs, acked, consumed, budget>>

Init ==
    /\ log = [r \in Replicas |-> <<>>]
    /\ hw = [r \in Replicas |-> 0]
    /\ ctl = [leader |-> CHOOSE r \in Replicas : TRUE, epoch |-> 1, isr |-> Replicas]
    /\ view = [r \in Replicas |-> [leader |-> ctl.leader, epoch |-> 1, isr |-> Replicas]]
    /\ remoteLeo = [r \in Replicas |-> [s \in Replicas |-> 0]]
    /\ registrations = [r \in Replicas |-> [epoch |-> 1, fenced |-> FALSE]]
    /\ msgs = {}
    /\ acked = {}
    /\ consumed = <<>>
    /\ budget = [produce |-> MaxRecords, elect |-> MaxEpoch - 1, restart |-> 1]

Produce(r) ==
    /\ view[r].leader = r /\ budget.produce > 0
    /\ log' = [log EXCEPT ![r] = Append(@, [epoch |-> view[r].epoch, id |-> budget.produce])]
    /\ budget' = [budget EXCEPT !.produce = @ - 1]
    /\ UNCHANGED <<hw, view, remoteLeo, ctl, registrations, msgs, acked, consumed>>

Fetch(r, s) ==
    /\ r # s /\ view[r].leader = s /\ Cardinality(msgs) < MaxMessages
    /\ msgs' = msgs \cup {[kind |-> "fetch", from |-> r, to |-> s, epoch |-> view[r].epoch,
                           offset |-> Len(log[r])]}
    /\ UNCHANGED <<log, hw, view, remoteLeo, ctl, registrations, acked, consumed, budget>>

Answer(m) ==
    /\ m.kind = "fetch" /\ view[m.to].leader = m.to
    /\ remoteLeo' = [remoteLeo EXCEPT ![m.to][m.from] = m.offset]
    /\ msgs' = (msgs \ {m}) \cup
        {[kind |-> "records", from |-> m.to, to |-> m.from, epoch |-> view[m.to].epoch,
          records |-> SubSeq(log[m.to], m.offset + 1, Len(log[m.to])), hw |-> hw[m.to]]}
    /\ hw' = [hw EXCEPT ![m.to] =
        IF m.offset > @ /\ m.offset <= Len(log[m.to]) THEN m.offset ELSE @]
    /\ acked' = acked \cup {log[m.to][i].id : i \in 1..hw'[m.to]}
    /\ UNCHANGED <<log, view, ctl, registrations, consumed, budget>>

Receive(m) ==
    /\ m.kind = "records" /\ view[m.to].leader = m.from /\ view[m.to].epoch = m.epoch
    /\ log' = [log EXCEPT ![m.to] = IF Len(@) + Len(m.records) <= MaxRecords
                                    THEN @ \o m.records ELSE @]
    /\ hw' = [hw EXCEPT ![m.to] = IF m.hw <= Len(log'[m.to]) THEN m.hw ELSE @]
    /\ msgs' = msgs \ {m}
    /\ UNCHANGED <<view, remoteLeo, ctl, registrations, acked, consumed, budget>>

Elect(r) ==
    /\ budget.elect > 0 /\ r \in ctl.isr /\ r # ctl.leader
    /\ ctl' = [ctl EXCEPT !.leader = r, !.epoch = @ + 1]
    /\ budget' = [budget EXCEPT !.elect = @ - 1]
    /\ UNCHANGED <<log, hw, view, remoteLeo, registrations, msgs, acked, consumed>>

Learn(r) ==
    /\ view[r].epoch < ctl.epoch
    /\ view' = [view EXCEPT ![r] = [leader |-> ctl.leader, epoch |-> ctl.epoch, isr |-> ctl.isr]]
    /\ UNCHANGED <<log, hw, remoteLeo, ctl, registrations, msgs, acked, consumed, budget>>

Restart(r) ==
    /\ budget.restart > 0
    /\ registrations' = [registrations EXCEPT ![r] = [epoch |-> @.epoch + 1, fenced |-> ~@.fenced]]
    /\ budget' = [budget EXCEPT !.restart = @ - 1]
    /\ UNCHANGED <<log, hw, view, remoteLeo, ctl, msgs, acked, consumed>>

Next ==
    \/ \E r \in Replicas : Produce(r)
    \/ \E r, s \in Replicas : Fetch(r, s)
    \/ \E m \in msgs : Answer(m)
    \/ \E m \in msgs : Receive(m)
    \/ \E r \in Replicas : Elect(r)
    \/ \E r \in Replicas : Learn(r)
    \/ \E r \in Replicas : Restart(r)
====
"""

CONFIG = """
INIT Init
NEXT Next
CONSTANTS
    Replicas = {{r1, r2}}
    MaxRecords = 2
    MaxEpoch = {epochs}
    MaxMessages = {messages}
"""


def main() -> int:
    """Write a dump, time it, print the figures; the status is 1 below the goal."""
    parser = argparse.ArgumentParser(description="How fast are TLC's state graphs read?")
    parser.add_argument("--small", action="store_true", help="a dump of a few MiB, to try it out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return _measure(_dump(Path(folder), small=options.small))


def _dump(folder: Path, *, small: bool) -> Path:
    module, config, dump = folder / "ToyLog.tla", folder / "ToyLog.cfg", folder / "graph.dot"
    module.write_text(MODULE, encoding="utf-8")
    text = CONFIG.format(epochs=2 if small else 3, messages=1 if small else 2)
    config.write_text(text, encoding="utf-8")
    outcome = run(Job(module=module, config=config, dump=dump))
    if outcome.verdict is not Verdict.HOLDS:
        raise SystemExit(f"the benchmark's own model failed: {outcome.message}")
    return dump


def _measure(dump: Path) -> int:
    lines, line_seconds = _timed(lambda: _lines(dump))
    edge_lines, _ = _timed(lambda: _edge_lines(dump))
    graph, graph_seconds = _timed(lambda: load_graph(dump))
    rate = edge_lines / graph_seconds
    print(f"dump                 {dump.stat().st_size / _MIB:.1f} MiB, {lines:,} lines")
    print(f"states               {len(graph.states):,}")
    print(f"edges                {edge_lines:,} ({len(graph.edges):,} without repeats)")
    print(f"walking its lines    {line_seconds:.2f} s")
    print(
        f"load_graph           {graph_seconds:.2f} s, {graph_seconds / line_seconds:.1f} times that"
    )
    print(f"edges a second       {rate:,.0f} (goal {GOAL_EDGES_PER_SECOND:,})")
    return 0 if rate >= GOAL_EDGES_PER_SECOND else 1


def _timed(action: Callable[[], _T]) -> tuple[_T, float]:
    start = time.perf_counter()
    result = action()
    return result, time.perf_counter() - start


def _lines(dump: Path) -> int:
    with dump.open(encoding="utf-8") as file:
        return sum(1 for _ in file)


def _edge_lines(dump: Path) -> int:
    with dump.open(encoding="utf-8") as file:
        return sum(" -> " in line[:45] for line in file)


if __name__ == "__main__":
    raise SystemExit(main())
