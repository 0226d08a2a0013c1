"""TLC's dumps are read as streams of typed states and edges, and broken ones are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from spec.runner import (
    Edge,
    FileFormatError,
    Function,
    Job,
    ModelValue,
    Node,
    Simulation,
    load_graph,
    read_graph,
    read_simulation,
    read_simulations,
    run,
)
from spec.runner import graph as graph_module

HEADER = 'strict digraph DiskGraph {\nnodesep=0.35;\nsubgraph cluster_graph {\ncolor="white";\n'
FIRST = '-1 [label="/\\\\ x = 0\\n/\\\\ s = {\\"a\\"}",style = filled]\n'
SECOND = '2 [label="/\\\\ x = 1\\n/\\\\ s = {}"];\n'
EDGE = '-1 -> 2 [label="Step",color="black",fontcolor="black"];\n'
FOOTER = "{rank = same; -1;2;}\n}\n}"
n1, n2 = ModelValue("n1"), ModelValue("n2")


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "graph.dot"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def dump(shared_models: Any) -> Path:
    """The real dump of the counter, which has 17 states."""
    job: Job = attrs.evolve(shared_models.counter(), dump=shared_models.folder / "graph")
    run(job)
    assert job.dump_file is not None
    return job.dump_file


@pytest.mark.tlc
def test_a_real_dump_is_the_whole_graph(dump: Path) -> None:
    graph = load_graph(dump)
    assert len(graph.states) == 17
    (start,) = graph.initial
    assert graph.states[start] == {"x": 0, "f": Function({n1: 0, n2: 0}), "s": frozenset()}
    leaving = {
        (action, graph.states[target]["x"])
        for source, action, target in graph.edges
        if source == start
    }
    assert leaving == {("Increment", 1)}
    assert {action for _, action, _ in graph.edges} == {"Increment", "Add", "Reset"}
    strings = {
        element["b"][1]  # type: ignore[index,call-overload]
        for state in graph.states.values()
        for element in state["s"]  # type: ignore[union-attr]
    }
    assert strings == {'q"\\ /\\ x = 1'}


@pytest.mark.tlc
def test_every_cut_of_a_dump_is_refused(dump: Path, tmp_path: Path) -> None:
    text = dump.read_text(encoding="utf-8")
    for end in (0, 10, len(text) // 3, text.index(" -> ") + 6, text.index("];") + 2, len(text) - 2):
        with pytest.raises(FileFormatError, match=r"graph\.dot:\d+: "):
            load_graph(_write(tmp_path, text[:end]))


def test_nodes_and_edges_stream_in_order(tmp_path: Path) -> None:
    path = _write(tmp_path, HEADER + FIRST + EDGE + SECOND + EDGE + FOOTER)
    assert list(read_graph(path)) == [
        Node(-1, {"x": 0, "s": frozenset({"a"})}, initial=True),
        Edge(-1, 2, "Step"),
        Node(2, {"x": 1, "s": frozenset()}, initial=False),
        Edge(-1, 2, "Step"),
    ]
    assert load_graph(path).edges == {(-1, "Step", 2)}


def test_the_start_is_given_before_the_rest_is_read(tmp_path: Path) -> None:
    items = read_graph(_write(tmp_path, HEADER + FIRST + "nonsense\n"))
    assert isinstance(next(items), Node)
    with pytest.raises(FileFormatError, match=r"graph\.dot:6: not a line of a dump: 'nonsense'"):
        next(items)


def test_a_dump_without_action_labels_has_unnamed_edges(tmp_path: Path) -> None:
    path = _write(tmp_path, HEADER + FIRST + "-1 -> 2;\n" + SECOND + FOOTER)
    assert Edge(-1, 2, None) in list(read_graph(path))


@pytest.mark.parametrize(
    "line",
    [
        '3 [label="/\\\\ x = 0',
        '3 [label="/\\\\ x = {"];\n',
        '3 [label="nothing"];\n',
        "-1 -> 2",
        "-1 -> two;\n",
        '-1 -> 2 [label="St',
    ],
)
def test_a_malformed_line_is_named(line: str, tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"graph\.dot:6: "):
        load_graph(_write(tmp_path, HEADER + FIRST + line))


def test_the_memory_of_parsed_values_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_module, "_CACHE_LIMIT", 3)
    readers: list[graph_module._Reader] = []

    class Watched(graph_module._Reader):
        def __init__(self) -> None:
            super().__init__()
            readers.append(self)

    monkeypatch.setattr(graph_module, "_Reader", Watched)
    nodes = "".join(f'{number} [label="x = {number}"];\n' for number in range(10))
    graph = load_graph(_write(tmp_path, HEADER + nodes + FOOTER))
    assert graph.states == {number: {"x": number} for number in range(10)}
    assert len(readers[0]._variables) <= 3


@pytest.mark.tlc
def test_simulated_behaviours_are_read(models: Any, tmp_path: Path) -> None:
    prefix = tmp_path / "behaviour"
    simulation = Simulation(traces=12, depth=4, seed=5, file_prefix=prefix)
    run(attrs.evolve(models.counter(), simulate=simulation))
    traces = list(read_simulations(prefix))
    assert len(traces) == 12
    assert all(len(trace) == 4 for trace in traces)
    assert all(trace.steps[0].state["x"] == 0 for trace in traces)
    assert traces[2] == read_simulation(tmp_path / "behaviour_0_2")


def test_newer_simulation_files_name_the_actions(tmp_path: Path) -> None:
    path = tmp_path / "t_0_0"
    path.write_text(
        "---- MODULE t_0_0 ----\n\\* <Initial predicate>\nSTATE_1 == \nx = 0\n\n"
        "\\* <Next line 4, col 9 to line 4, col 20 of module M>\nSTATE_2 == \nx = 1\n\n====\n",
        encoding="utf-8",
    )
    first, second = read_simulation(path).steps
    assert (first.action, second.action) == (None, "Next")
    assert second.location is not None
    assert second.location.line == 4


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nonsense\n", "t_0_0:1: expected the header"),
        ("---- MODULE t ----\nSTATE_1 == \nx = {\n\n====\n", "t_0_0:3: expected a value"),
        ("---- MODULE t ----\nSTATE_1 == \nx = 1\n", "t_0_0:4: the file ends"),
        ("---- MODULE t ----\nSTATE_1 == \n\n====\n", "t_0_0:3: expected a variable"),
    ],
)
def test_a_malformed_simulation_file_names_the_line(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "t_0_0"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileFormatError, match=told):
        read_simulation(path)
