"""Every scenario file says what a replica does; `pytest --rewrite` writes it down anew."""

import difflib
import re
from pathlib import Path

import pytest

import protocol.replication
from tests.protocol.replication.scenario import ScenarioError, performed, scenario_files
from tests.protocol.replication.words import EVENTS

FILES = scenario_files()
# The rules of facts and KIPs that a replica is about, each with a scenario of that name.
NAMED = {
    *("kip-101", "kip-207", "kip-279", "kip-320", "kip-392", "kip-497", "kip-903", "kip-966"),
    *("kafka-7128", "kafka-7415", "kafka-8836", "kafka-13141"),
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_follows_is_what_the_scenario_says(path: Path, pytestconfig: pytest.Config) -> None:
    recorded = path.read_text(encoding="utf-8")
    real = performed(path.name, recorded)
    if pytestconfig.getoption("--rewrite"):
        path.write_text(real, encoding="utf-8")
        return
    difference = difflib.unified_diff(
        recorded.splitlines(), real.splitlines(), f"{path.name} says", "what follows", lineterm=""
    )
    assert recorded == real, "\n".join(difference)


def product_code() -> str:
    folder = Path(protocol.replication.__file__).parent
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py")))


def scenarios() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in FILES)


def test_every_error_that_a_replica_answers_has_a_scenario() -> None:
    codes = set(re.findall(r"ErrorCode\.([A-Z_]+)", product_code()))
    assert len(codes) > 10
    assert sorted(code for code in codes if code not in scenarios()) == []


def test_every_event_and_every_effect_has_a_scenario() -> None:
    effects = set(re.findall(r"class (\w+)\(Effect\)", product_code()))
    spelled = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() for name in effects}
    words = set(re.findall(r"[a-z_]+", scenarios()))
    assert sorted((spelled | set(EVENTS)) - words) == []


def test_every_rule_with_a_number_has_a_scenario_of_that_name() -> None:
    names = [path.stem for path in FILES]
    assert sorted(rule for rule in NAMED if not any(n.startswith(rule) for n in names)) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("replica node=1\nbecame_lader 1\n----\n", "x.txt:2: 'became_lader' is neither"),
        ("replica node=1\nappended five\n----\n", "x.txt:2: 'five' is no value for end_offset"),
        ("replica node=1\nappended 5 6\n----\n", "x.txt:2: '6' belongs to no field"),
        ("replica node=1\nappended end=5\n----\n", "x.txt:2: there is no field 'end'"),
        ("replica node=1\nappended 5 end_offset=5\n----\n", "x.txt:2: end_offset is given twice"),
        ("replica node=1\nbecame_follower 2\n----\n", "x.txt:2: missing 1 required"),
        ("replica nod=1\n----\n", "x.txt:1: there is no field 'nod'"),
        ("# why\n\nappended 5\n----\n", "x.txt:3: there is no replica yet"),
        ("replica node=1\n\n", "x.txt:2: the block ends without ----"),
        ("----\n", "x.txt:1: ---- follows no command"),
        ("at 5\nat 4\n----\n", "x.txt:2: time does not go back from 5 to 4"),
        ("at noon\n----\n", "x.txt:1: invalid literal"),
    ],
)
def test_a_line_that_makes_no_sense_is_named(text: str, complaint: str) -> None:
    with pytest.raises(ScenarioError, match=f"^{re.escape(complaint)}"):
        performed("x.txt", text)


def test_what_was_recorded_does_not_influence_what_follows() -> None:
    text = "replica node=1\nappended 1\n----\nonce upon a time\n"
    assert performed("x.txt", text) == performed("x.txt", performed("x.txt", text))
    assert "once upon a time" not in performed("x.txt", text)
