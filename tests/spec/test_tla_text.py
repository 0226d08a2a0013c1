"""Rules are found in the specs by the comments that mark them."""

from pathlib import Path

from spec.catalogue import SPEC_DIR
from spec.tla_text import guards, modules, operators, rules

MODULE = """---- MODULE M ----
(* GUARD, KIP-1.  Two lines *)
(* of comment.              *)
May(a, b) ==
    /\\ a
    /\\ b

(* CHOICE.  Picks.          *)
Pick(a) == a
Plain == 1
====
"""


def test_an_operator_is_found_with_its_text_and_its_comment(tmp_path: Path) -> None:
    (tmp_path / "M.tla").write_text(MODULE)
    may, pick, plain = operators(tmp_path / "M.tla")
    assert (may.name, may.parameters, may.rule_kind) == ("May", ("a", "b"), "GUARD")
    assert may.text == "May(a, b) ==\n    /\\ a\n    /\\ b"
    assert may.comment == "GUARD, KIP-1. Two lines of comment."
    assert (pick.name, pick.rule_kind) == ("Pick", "CHOICE")
    assert (plain.parameters, plain.comment, plain.rule_kind) == ((), "", None)


def test_the_rules_of_the_protocol_are_found() -> None:
    replication = SPEC_DIR / "ReplicationProperties.tla"
    names = {rule.name for rule in rules(replication)}
    assert {"TruncationOffset", "MayJoinIsr", "BrokerEpochIsCurrent"} <= names
    assert "TruncationOffset" not in {rule.name for rule in guards(replication)}


def test_what_a_module_extends_is_followed_to_the_end() -> None:
    mutants = SPEC_DIR / "mutants" / "ReplicationMutants.tla"
    assert [path.stem for path in modules(mutants, SPEC_DIR)] == [
        "ReplicationMutants",
        "ReplicationProperties",
        "Replication",
        "ReplicationState",
        "ReplicationRules",
        "Controller",
        "LogOps",
    ]
    assert modules(mutants) == [mutants]


def test_nothing_in_the_rule_modules_chooses_without_being_a_rule() -> None:
    """What is not marked as a rule in Controller is a decision built from rules."""
    unmarked = {
        operator.name
        for name in ("Controller.tla", "ReplicationRules.tla")
        for operator in operators(SPEC_DIR / name)
        if operator.rule_kind is None
    }
    assert unmarked == {"ChangeIsr", "Elect", "ElectUncleanly", "Depart"}
