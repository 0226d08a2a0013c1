"""Finds out which answers a model's named yes-or-no rules really give: TRUE, FALSE, or both.

TLC's coverage cannot tell (`docs/runner.md` shows why). So each rule is replaced, in a module
written for the purpose, by one that asks the real rule and prints each answer the first time it
comes:

    job = witness_job(Job(module, config), {"MayJoinIsr": 3}, folder)
    rule_answers(run(job))["MayJoinIsr"]     # frozenset({True, False})

A rule that never answers FALSE guards nothing in that model, and one that never answers TRUE blocks
all. The model explored is otherwise the same one, state for state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import attrs

from spec.runner.errors import JobError, ValueSyntaxError
from spec.runner.job import Job
from spec.runner.outcome import Outcome
from spec.runner.value_text import parse_value

_MARK = "witness"
_NAME = re.compile(r"[A-Za-z]\w*\Z")
# TLC's registers hold what was seen. Others in the model may use the low numbers.
_FIRST_REGISTER = 7000

_MODULE = """---- MODULE {name} ----
\\* Written by spec.runner.witness: asks each rule of {original}, and prints its answers.
EXTENDS {original}, TLC

Witness_Pure == INSTANCE {original}

Witness_Note(register, rule, answer) ==
    IF TLCGet(register) THEN TRUE
    ELSE PrintT(<<"{mark}", rule, answer>>) /\\ TLCSet(register, TRUE)

{rules}
====
"""
# The answer is noted within IF, never \\/: in an action, TLC explores both sides of a disjunction.
_RULE = """ASSUME TLCSet({yes}, FALSE) /\\ TLCSet({no}, FALSE)
Witness_{rule}{parameters} ==
    IF Witness_Pure!{rule}{parameters}
    THEN Witness_Note({yes}, "{rule}", TRUE)
    ELSE ~Witness_Note({no}, "{rule}", FALSE)
"""


def witness_job(job: Job, rules: Mapping[str, int], folder: Path) -> Job:
    """Write into the folder a model that notes these rules' answers; give the job that runs it.

    `rules` maps each operator's name to how many parameters it takes. A rule that the configuration
    already replaces cannot be watched.
    """
    original = job.module.stem
    name = f"Witness_{original}"
    config_text = job.config.read_text(encoding="utf-8")
    for rule, parameters in rules.items():
        if not _NAME.match(rule) or parameters < 0:
            raise JobError(f"{rule!r} with {parameters} parameters is not an operator's name")
        if re.search(rf"\b{rule}\s*<-", config_text):
            raise JobError(f"{job.config} already replaces {rule}, so it cannot be watched")
    module, config = folder / f"{name}.tla", folder / f"{name}.cfg"
    texts = [_rule_text(rule, count, at) for at, (rule, count) in enumerate(rules.items())]
    module.write_text(
        _MODULE.format(name=name, original=original, mark=_MARK, rules="\n".join(texts)),
        encoding="utf-8",
    )
    replaced = "".join(f"    {rule} <- Witness_{rule}\n" for rule in rules)
    config.write_text(f"{config_text}\nCONSTANTS\n{replaced}", encoding="utf-8")
    library = (job.module.absolute().parent, *job.library)
    return attrs.evolve(job, module=module, config=config, library=library)


def rule_answers(outcome: Outcome) -> dict[str, frozenset[bool]]:
    """Collect the answers each rule gave in a witness job's run; one never asked is absent."""
    found: dict[str, frozenset[bool]] = {}
    for line in outcome.printed:
        try:
            value = parse_value(line)
        except ValueSyntaxError:
            continue
        match value:
            case ("witness", str(rule), bool(answer)):
                found[rule] = found.get(rule, frozenset()) | {answer}
    return found


def _rule_text(rule: str, count: int, at: int) -> str:
    names = ", ".join(f"p{number}" for number in range(1, count + 1))
    return _RULE.format(
        rule=rule,
        parameters=f"({names})" if count else "",
        yes=_FIRST_REGISTER + 2 * at,
        no=_FIRST_REGISTER + 2 * at + 1,
    )
