"""Tiny specs for the runner's tests, and a way to run TLC on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spec.runner import Job, Outcome, run

COUNTER = r"""
---- MODULE Counter ----
EXTENDS Integers, TLC
CONSTANTS Limit, Nodes
VARIABLES x, f, s
vars == <<x, f, s>>
Init == x = 0 /\ f = [n \in Nodes |-> 0] /\ s = {}
Increment(n) ==
    /\ x < Limit
    /\ x' = x + 1
    /\ f' = [f EXCEPT ![n] = @ + 1]
    /\ UNCHANGED s
Add == /\ x > 0
       /\ s' = s \cup {[a |-> x, b |-> <<TRUE, "q\"\\ /\\ x = 1">>]}
       /\ UNCHANGED <<x, f>>
Reset == x = Limit /\ x' = 0 /\ f' = [n \in Nodes |-> 0] /\ s' = {}
Next == \/ \E n \in Nodes : Increment(n)
        \/ Add
        \/ Reset
Spec == Init /\ [][Next]_vars
FairSpec == Spec /\ WF_vars(Next)
Small == x < 2
NotInitial == x # 0
NeverDown == [][x' >= x]_vars
StartsAtOne == x = 1
Beyond == <>(x > Limit)
AtZero == []<>(x = 0)
Asserted == Assert(x < 2, "x is too big")
Misapplied == x < 1 \/ f[x] = 1
====
"""

DEADLOCK = """
---- MODULE Finite ----
EXTENDS Integers, TLC
VARIABLE x
Init == x = 0
Next == x < 2 /\\ x' = x + 1 /\\ PrintT(<<"at", x>>)
====
"""

ENDLESS = """
---- MODULE Endless ----
EXTENDS Integers, Sequences
VARIABLE s
Init == s = <<>>
Next == \\E i \\in 1..3 : s' = Append(s, i)
====
"""

BEHAVIOUR = "INIT Init\nNEXT Next\n"


class Models:
    """Writes modules and configurations into one folder, and runs them with a single worker."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> Path:
        """Write a file and give its path."""
        path = self.folder / name
        path.write_text(text.lstrip("\n"), encoding="utf-8")
        return path

    def counter(self, wanted: str = "", spec: str = "Spec", name: str = "counter") -> Job:
        """Give the job that checks the counter with these extra lines of configuration."""
        module = self.write("Counter.tla", COUNTER)
        text = f"SPECIFICATION {spec}\nCONSTANTS\n  Limit = 2\n  Nodes = {{n1, n2}}\n{wanted}\n"
        return Job(module, self.write(f"{name}.cfg", text), workers=1)

    def job(self, module: str, text: str, config: str = BEHAVIOUR, **options: Any) -> Job:
        """Give a job for a module of its own."""
        path = self.write(f"{module}.tla", text)
        return Job(path, self.write(f"{module}.cfg", config), **{"workers": 1, **options})

    def endless(self, **options: Any) -> Job:
        """Give a job that never ends by itself."""
        return self.job("Endless", ENDLESS, **{"memory_mb": 256, **options})

    def deadlock(self, **options: Any) -> Job:
        """Give a job whose model stops after three states, printing on its way."""
        return self.job("Finite", DEADLOCK, **options)


@pytest.fixture
def models(tmp_path: Path) -> Models:
    """A folder for this test's models."""
    return Models(tmp_path)


@pytest.fixture(scope="session")
def violated(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Outcome]:
    """Checks the counter with some configuration; the same one is checked only once."""
    known: dict[tuple[str, str], Outcome] = {}

    def check(wanted: str, spec: str = "Spec") -> Outcome:
        if (wanted, spec) not in known:
            folder = tmp_path_factory.mktemp("counter")
            known[wanted, spec] = run(Models(folder).counter(wanted, spec))
        return known[wanted, spec]

    return check


@pytest.fixture(scope="module")
def shared_models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    """A folder for models that a whole file of tests shares."""
    return Models(tmp_path_factory.mktemp("models"))
