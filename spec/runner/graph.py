"""Reads the state graph that TLC writes with `-dump dot,actionlabels`, line by line.

A dump may be far larger than memory should hold, so it is streamed, and the text of a variable's
value is parsed once however many states repeat it. TLC lists an edge as often as it is found, which
may be several times: `load_graph` gives sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import attrs

from spec.runner.errors import FileFormatError, ValueSyntaxError
from spec.runner.state_text import parse_state
from spec.runner.values import State, Value

StateId: TypeAlias = int

# Bounds the memory of the parsed texts; when full, it starts afresh.
_CACHE_LIMIT = 200_000
_LABEL = '[label="'
_NODE_END, _INITIAL_END = '"];', '",style = filled]'
# Between two variables of a state: a line break and /\, as the dump escapes them. Inside a TLA+
# string a backslash is doubled before the dump doubles it again, so no value holds this.
_BETWEEN = "\\n/\\\\ "
_FIRST = "/\\\\ "
_DECORATION = ("strict digraph", "nodesep=", "subgraph", "color=", "{rank", "node", "edge")


@attrs.frozen(slots=True)
class Node:
    """A state of the graph; `initial` if a behaviour may start in it."""

    id: StateId
    state: State
    initial: bool


@attrs.frozen(slots=True)
class Edge:
    """A step from one state to another; `action` is None in a dump without action labels."""

    source: StateId
    target: StateId
    action: str | None


@attrs.frozen
class Graph:
    """A whole state graph: states by id, which are initial, and (source, action, target)."""

    states: Mapping[StateId, State]
    initial: frozenset[StateId]
    edges: frozenset[tuple[StateId, str | None, StateId]]


def read_graph(path: Path) -> Iterator[Node | Edge]:
    """Yield nodes and edges in the file's order; an edge may come before the node it leads to.

    A dump that was cut off or is malformed raises `FileFormatError`, naming the line.
    """
    reader = _Reader()
    number, line = 0, ""
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            try:
                item = reader.item(line)
            except (ValueError, ValueSyntaxError) as problem:
                raise FileFormatError(path, number, f"not a line of a dump: {problem}") from None
            if item is not None:
                yield item
    if reader.open_braces or not number:
        raise FileFormatError(path, number + 1, "the dump ends before its closing brace")


def load_graph(path: Path) -> Graph:
    """Read a whole dump into memory, without the repeated edges."""
    states: dict[StateId, State] = {}
    initial: set[StateId] = set()
    edges: set[tuple[StateId, str | None, StateId]] = set()
    for item in read_graph(path):
        if isinstance(item, Edge):
            edges.add((item.source, item.action, item.target))
        else:
            states[item.id] = item.state
            if item.initial:
                initial.add(item.id)
    return Graph(states, frozenset(initial), frozenset(edges))


class _Reader:
    """Understands one line at a time, remembering the texts it has parsed."""

    def __init__(self) -> None:
        self.open_braces = 0
        self._variables: dict[str, tuple[str, Value]] = {}
        self._actions: dict[str, str | None] = {}

    def item(self, line: str) -> Node | Edge | None:
        """Read a line: a node, an edge, or decoration."""
        head, _, rest = line.partition(" ")
        if rest.startswith("-> "):
            _, target, *attributes = rest.split(" ", 2)
            text = attributes[0] if attributes else ""
            action = self._actions.get(text)
            if action is None:
                action = self._actions[text] = _action(text or target)
            return Edge(int(head), int(target.rstrip(";\n")), action)
        if rest.startswith(_LABEL):
            return self._node(int(head), rest.rstrip())
        self._decoration(line.strip())
        return None

    def _node(self, id_: StateId, text: str) -> Node:
        if text.endswith(_NODE_END):
            label, initial = text[len(_LABEL) : -len(_NODE_END)], False
        elif text.endswith(_INITIAL_END):
            label, initial = text[len(_LABEL) : -len(_INITIAL_END)], True
        else:
            raise ValueError("a state that does not end")
        known = self._variables
        state = {}
        for part in label.removeprefix(_FIRST).split(_BETWEEN):
            pair = known.get(part)
            if pair is None:
                pair = self._variable(part)
            state[pair[0]] = pair[1]
        return Node(id_, state, initial)

    def _variable(self, part: str) -> tuple[str, Value]:
        if len(self._variables) >= _CACHE_LIMIT:
            self._variables.clear()
        (pair,) = parse_state(_unescape(part)).items()
        self._variables[part] = pair
        return pair

    def _decoration(self, line: str) -> None:
        if line == "}":
            self.open_braces -= 1
        elif line.endswith("{"):
            self.open_braces += 1
        if line and line != "}" and not line.startswith(_DECORATION):
            raise ValueError(repr(line[:60]))


def _action(attributes: str) -> str | None:
    """Read the action's name from an edge's attributes, which may be none."""
    text = attributes.rstrip()
    if not text.endswith(";"):
        raise ValueError("an edge that does not end")
    if not text.startswith(_LABEL):
        return None
    return text[len(_LABEL) :].partition('"')[0]


def _unescape(label: str) -> str:
    """Undo the dump's escapes: a doubled backslash, a quote and a line break."""
    if "\\" not in label:
        return label
    parts = label.split("\\\\")
    return "\\".join(part.replace('\\"', '"').replace("\\n", "\n") for part in parts)
