"""A planned cluster: settings that nodes take, ports that differ, folders that are safe."""

from pathlib import Path

import pytest

from hwmark.cluster_layout import (
    SHORT_TIMES,
    config_file,
    is_cluster,
    last_lines,
    make_plan,
    read_plan,
    remove_cluster,
    write_cluster,
)
from hwmark.properties import parse_pairs, read_settings
from net.settings import read_meta
from spec.runner import JobError
from storage.disk.posix import PosixDisk


@pytest.mark.parametrize(
    ("brokers", "controllers", "roles"),
    [
        (1, 0, ["broker,controller"]),
        (2, 0, ["broker,controller", "broker"]),
        (4, 0, ["broker,controller"] * 3 + ["broker"]),
        (2, 1, ["broker", "broker", "controller"]),
    ],
)
def test_every_node_of_a_plan_has_settings_that_are_accepted(
    tmp_path: Path, brokers: int, controllers: int, roles: list[str]
) -> None:
    plan = make_plan(brokers, controllers, {"num.partitions": "7"})
    write_cluster(plan, tmp_path / "c")
    assert [",".join(node.roles) for node in plan.nodes] == roles
    ports = []
    for node in plan.nodes:
        settings = read_settings(config_file(tmp_path / "c", node))
        assert settings.num_partitions == 7
        assert settings.broker_session_timeout_ms == int(SHORT_TIMES["broker.session.timeout.ms"])
        meta = read_meta(PosixDisk(), settings.metadata_dir)
        assert (meta.cluster_id, meta.node_id) == (plan.cluster_id, node.id)
        ports += [each.endpoint.port for each in settings.listeners]
        ports.append(settings.hwmark_metrics_port)
    assert len(set(ports)) == len(ports)
    assert 0 not in ports
    assert plan.bootstrap.count(",") == brokers - 1
    assert read_plan(tmp_path / "c") == plan


def test_ports_count_from_a_base(tmp_path: Path) -> None:
    plan = make_plan(2, 0, {}, base_port=19_092)
    assert plan.bootstrap == "127.0.0.1:19092,127.0.0.1:19093"
    write_cluster(plan, tmp_path / "c")
    with pytest.raises(JobError, match="too high"):
        make_plan(2, 0, {}, base_port=65_400)


@pytest.mark.parametrize(("brokers", "controllers"), [(0, 0), (101, 0), (1, 101)])
def test_a_cluster_has_a_sensible_size(brokers: int, controllers: int) -> None:
    with pytest.raises(JobError, match="1 to 100"):
        make_plan(brokers, controllers, {})


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"did you mean num\.partitions"):
        write_cluster(make_plan(1, 0, {"num.partitons": "7"}), tmp_path / "c")


def test_a_strangers_folder_is_neither_used_nor_removed(tmp_path: Path) -> None:
    stranger = tmp_path / "home"
    stranger.mkdir()
    (stranger / "letter").write_text("dear")
    with pytest.raises(JobError, match="is not empty, and is no cluster"):
        write_cluster(make_plan(1, 0, {}), stranger)
    remove_cluster(stranger)
    assert (stranger / "letter").exists()
    assert not is_cluster(stranger)


def test_a_cluster_is_removed_whole(tmp_path: Path) -> None:
    write_cluster(make_plan(1, 0, {}), tmp_path / "c")
    remove_cluster(tmp_path / "c")
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("text", ["", "{}", '{"version": 9}', '{"version": 1, "nodes": [{}]}'])
def test_a_damaged_plan_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(JobError, match="does not read as a cluster's"):
        read_plan(tmp_path)
    with pytest.raises(JobError, match="is no cluster"):
        read_plan(tmp_path / "elsewhere")


def test_pairs_are_read_and_wrong_ones_named() -> None:
    assert parse_pairs(["a=1", "b = x=y"], "--set") == {"a": "1", "b": "x=y"}
    for wrong in (["a"], ["=1"], ["a=1", "a=2"]):
        with pytest.raises(JobError, match="--set"):
            parse_pairs(wrong, "--set")


def test_the_end_of_a_log_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_lines(log) == []
    log.write_text("".join(f"line {number}\n" for number in range(100_000)))
    assert last_lines(log, 2) == ["line 99998", "line 99999"]
