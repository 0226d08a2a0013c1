"""TLA+ values survive being written and read, and keep TLA+'s equality."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec.runner import (
    Function,
    ModelValue,
    Value,
    ValueSyntaxError,
    format_value,
    from_json,
    function,
    parse_value,
    same_value,
    set_of,
    to_json,
)

r1, r2 = ModelValue("r1"), ModelValue("r2")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True).filter(
    lambda name: name not in ("TRUE", "FALSE")
)
plain = st.booleans() | st.integers() | texts | names.map(ModelValue)


def _containers(items: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    # Python would merge 1 with TRUE; those mixtures have a test of their own.
    alike = items.filter(lambda item: not _holds_bool(item))
    return (
        st.lists(items, max_size=4).map(tuple)
        | st.frozensets(alike, max_size=4)
        | st.dictionaries(alike, items, max_size=4).map(function)
        | st.dictionaries(names, items, max_size=4).map(function)
    )


def _holds_bool(value: Value) -> bool:
    if isinstance(value, tuple | frozenset):
        return any(map(_holds_bool, value))
    if isinstance(value, Function):
        return any(map(_holds_bool, value)) or any(map(_holds_bool, value.values()))
    return isinstance(value, bool)


values: st.SearchStrategy[Value] = st.recursive(plain, _containers, max_leaves=12)


@given(values)
def test_a_formatted_value_reads_back_the_same(value: Value) -> None:
    assert same_value(parse_value(format_value(value)), value)


@given(values)
def test_json_reads_back_the_same_and_is_plain(value: Value) -> None:
    data = json.loads(json.dumps(to_json(value)))
    assert same_value(from_json(data), value)


@given(values, values)
def test_equal_texts_mean_the_same_value(left: Value, right: Value) -> None:
    assert (format_value(left) == format_value(right)) == same_value(left, right)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("TRUE", True),
        ("-12", -12),
        (r'"tab\t nl\n q\" bs\\ /\\ x = 1"', 'tab\t nl\n q" bs\\ /\\ x = 1'),
        ("r1", r1),
        ("2pc", ModelValue("2pc")),
        ("{}", frozenset()),
        ("1..3", frozenset({1, 2, 3})),
        ("-1..0", frozenset({-1, 0})),
        ("1..0", frozenset()),
        ("{1..2, {}}", frozenset({frozenset({1, 2}), frozenset()})),
        ("<<>>", ()),
        ("<<1, <<TRUE>>>>", (1, (True,))),
        ("[epoch |-> 1, isr |-> {r1}]", Function({"epoch": 1, "isr": frozenset({r1})})),
        ("(r1 :> 0 @@ r2 :> <<>>)", Function({r1: 0, r2: ()})),
        (
            "( r1 :>\n      [ a |-> 1,\n        b |-> 2 ] )",
            function({r1: function({"a": 1, "b": 2})}),
        ),
        ("(1 :> 5 @@ 2 :> 6)", (5, 6)),
        ("(0 :> 5 @@ 1 :> 6)", Function({0: 5, 1: 6})),
        ('("a b" :> 1)', Function({"a b": 1})),
    ],
)
def test_what_tlc_prints_is_read(text: str, value: Value) -> None:
    assert same_value(parse_value(text), value)


@pytest.mark.parametrize(
    ("text", "problem", "position"),
    [
        ("", "expected a value", 0),
        ("{1, 2", "expected }", 5),
        ("<<1,>>", "expected a value", 4),
        ("[a |-> 1", "expected ]", 8),
        ("[a -> 1]", "unexpected character", 2),
        ("(r1 :> 1 @@ )", "expected a value", 12),
        ("1 2", "expected nothing more", 2),
        ('"open', "unexpected character", 0),
        (r'"\q"', "unknown escape", 0),
        ("1..99999999", "more than", 3),
        ("[Node -> Int]", "unexpected character", 5),
        ("{1, TRUE}", "TRUE and 1", 1),
        ("(0 :> 1 @@ FALSE :> 2)", "TRUE and 1", 1),
    ],
)
def test_a_malformed_text_is_refused_with_its_position(
    text: str, problem: str, position: int
) -> None:
    with pytest.raises(ValueSyntaxError, match=problem) as caught:
        parse_value(text)
    assert caught.value.position == position
    assert caught.value.text == text


def test_absurd_nesting_is_refused_without_a_crash() -> None:
    with pytest.raises(ValueSyntaxError, match="too deeply"):
        parse_value("<<" * 100_000)


def test_a_record_equals_the_function_with_its_keys_in_any_order() -> None:
    record = parse_value("[a |-> 1, b |-> 2]")
    assert record == parse_value('("b" :> 2 @@ "a" :> 1)')
    assert hash(record) == hash(parse_value("[b |-> 2, a |-> 1]"))


def test_the_left_side_wins_where_a_function_repeats_a_key() -> None:
    assert parse_value("(r1 :> 1 @@ r1 :> 2)") == Function({r1: 1})


def test_true_is_not_one() -> None:
    assert not same_value(True, 1)
    assert not same_value((frozenset({True}),), (frozenset({1}),))
    assert not same_value(Function({r1: 0}), Function({r1: False}))
    assert function({True: 5}) != (5,)
    with pytest.raises(ValueError, match="TRUE and 1"):
        set_of([1, True])


def test_a_function_over_one_to_n_cannot_be_built_but_as_a_sequence() -> None:
    assert function({2: "b", 1: "a"}) == ("a", "b")
    with pytest.raises(ValueError, match="sequence"):
        Function({1: "a"})


def test_a_function_travels_to_other_processes() -> None:
    value = Function({r1: frozenset({1}), r2: "x"})
    hash(value)
    assert pickle.loads(pickle.dumps(value)) == value


@pytest.mark.parametrize("data", [None, 1.5, {"set": 1}, {"a": 1, "b": 2}, {"function": [[1]]}])
def test_other_json_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match="not a"):
        from_json(data)  # type: ignore[arg-type]
