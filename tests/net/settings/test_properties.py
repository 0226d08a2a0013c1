"""Properties files are read as Java reads them, and what nobody can mean is refused by line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from net.settings import BadSetting, load_properties, write_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1\nb: 2\nc 3\nd\t=\t4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# no\n! no\n\n  # no\na=1#yes", {"a": "1#yes"}),
        ("a=1,\\\n    2,\\\r\n3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\ b\\=c=1", {"a b=c": "1"}),
        ("a=\\u00e9\\t\\n\\q", {"a": "é\t\nq"}),
        ("a=", {"a": ""}),
        ("a=x\\\n# part of it", {"a": "x# part of it"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a=1\rb=2", {"a": "1", "b": "2"}),
    ],
)
def test_a_file_reads_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert load_properties(text, "f") == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a=1\n\na=2", "f, line 3: a was set in line 1 already"),
        ("a=1\nnonsense", "f, line 2: 'nonsense' has no value"),
        ("=1", "f, line 1: a value without a name"),
        ("a=\\u12", "f, line 1: \\u needs four"),
        ("a=1\\", "f, line 1: the last line is to be continued"),
    ],
)
def test_what_nobody_means_is_refused_with_its_line(text: str, told: str) -> None:
    with pytest.raises(BadSetting) as refused:
        load_properties(text, "f")
    assert told in str(refused.value)


def test_a_file_of_any_size_is_not_read() -> None:
    with pytest.raises(BadSetting, match="at most"):
        load_properties("#" * (1 << 21), "f")


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=12), max_size=4))
def test_what_is_written_is_read_again(values: dict[str, str]) -> None:
    assert load_properties(write_properties(values, "a comment\nof two lines"), "f") == values
