"""A node's settings: read, checked against each other, and changed while it runs."""

import pytest

from net.settings import BadSetting, BrokerSettings, check_dynamic_settings
from net.transport.seam import Endpoint
from tests.net.settings.nodes import BROKER_ONLY, COMBINED, node


def test_what_is_not_said_is_kafkas_default() -> None:
    settings = node()
    assert settings.replica_lag_time_max_ms == 30_000
    assert settings.message_max_bytes == 1_048_588
    assert settings.log_retention_ms is None
    assert settings.log_retention_hours == 168
    assert settings.unclean_leader_election_enable is False


def test_a_node_knows_its_listeners_and_voters() -> None:
    settings = node()
    assert settings.is_broker
    assert settings.is_controller
    assert [each.name for each in settings.broker_listeners] == ["PLAINTEXT"]
    assert [each.name for each in settings.controller_listeners] == ["CONTROLLER"]
    assert settings.voters[3] == Endpoint("127.0.0.1", 9095)
    assert settings.inter_broker_name == "PLAINTEXT"
    assert settings.metadata_dir == "data"


def test_clients_are_told_the_real_port_and_the_advertised_host() -> None:
    settings = node(
        listeners="PLAINTEXT://0.0.0.0:0,CONTROLLER://127.0.0.1:9093",
        advertised_listeners="PLAINTEXT://broker.example:0",
    )
    (told,) = settings.advertised({"PLAINTEXT": 40_000})
    assert str(told) == "PLAINTEXT://broker.example:40000"


def test_an_ipv6_address_is_read_and_written_with_brackets() -> None:
    settings = node(listeners="PLAINTEXT://[::1]:9092,CONTROLLER://[::1]:9093")
    assert settings.listeners[0].endpoint == Endpoint("::1", 9092)
    assert str(settings.listeners[0]) == "PLAINTEXT://[::1]:9092"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"node_id": "x"}, "node.id=x: not a whole number; use int, at least 0"),
        ({"node_id": "-1"}, "node.id=-1: out of range"),
        ({"node_id": "9999999999"}, "node.id=9999999999: not between"),
        ({"node_id": "9"}, "node.id=9 is a controller and not among them; add it"),
        ({"node_id": None}, "node.id is not set"),
        ({"log_dirs": None}, "log.dirs is not set"),
        ({"log_dirs": ""}, "log.dirs=: nothing is named"),
        ({"process_roles": "brokr"}, "brokr is not known; use one of broker, controller"),
        ({"process_roles": ""}, "process.roles=: nothing is named"),
        ({"listeners": "PLAINTEXT://127.0.0.1"}, "is not of the form host:port"),
        ({"listeners": "PLAINTEXT://127.0.0.1:70000"}, "port 70000"),
        ({"listeners": "127.0.0.1:9092"}, "is not of the form NAME://host:port"),
        ({"listeners": "PLAINTEXT://127.0.0.1:9092"}, "a controller listens on one of these"),
        ({"listeners": "CONTROLLER://127.0.0.1:9093"}, "a broker needs a listener"),
        ({"listeners": "CONTROLLER://:9093,CONTROLLER://:9094"}, "CONTROLLER is there twice"),
        ({"listeners": "A://h:1,CONTROLLER://h:1"}, "h:1 is there twice"),
        ({"listeners": "A://h:1,,B://h:2"}, "an empty item"),
        (
            {"listeners": "A://0.0.0.0:1,CONTROLLER://h:2"},
            "clients cannot connect to A://0.0.0.0:1",
        ),
        ({"process_roles": "controller"}, "is a listener of brokers"),
        ({"process_roles": "broker", "node_id": "4"}, "is a listener of controllers"),
        ({"advertised_listeners": "OTHER://h:1"}, "is no listener of this broker"),
        ({"inter_broker_listener_name": "X"}, "inter.broker.listener.name=X: no listener"),
        ({"listener_security_protocol_map": "PLAINTEXT:SSL"}, "only PLAINTEXT is served"),
        ({"controller_quorum_voters": "1@h:1,1@h:2"}, "1 is there twice"),
        ({"controller_quorum_voters": "1@:9093"}, "needs a host and a port"),
        ({"controller_listener_names": "controller"}, "in capitals"),
        ({"broker_heartbeat_interval_ms": "9000"}, "not below broker.session.timeout.ms=9000"),
        ({"replica_fetch_wait_max_ms": "30000"}, "not below replica.socket.timeout.ms"),
        ({"replica_lag_time_max_ms": "400"}, "above replica.lag.time.max.ms=400"),
        ({"queued_max_request_bytes": "1000"}, "below socket.request.max.bytes"),
        ({"compression_type": "gzip"}, "compression.type=gzip: gzip is not known"),
        ({"auto_create_topics_enable": "yes"}, "neither true nor false"),
        ({"log_cleaner_min_cleanable_ratio": "nan"}, "not a finite number"),
        ({"log_cleaner_min_cleanable_ratio": "1.5"}, "out of range; use double, 0 to 1"),
    ],
)
def test_a_bad_setting_is_named_with_what_to_do(changes: dict[str, str | None], told: str) -> None:
    with pytest.raises(BadSetting) as refused:
        node(COMBINED, **changes)
    assert told in str(refused.value)


def test_a_broker_that_is_no_controller_is_no_voter() -> None:
    assert not node(BROKER_ONLY).is_controller
    with pytest.raises(BadSetting, match=r"node\.id=2 is among them, and is no controller"):
        node(BROKER_ONLY, node_id="2")


def test_an_unknown_name_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(BadSetting, match=r"did you mean num\.partitions\?"):
        BrokerSettings.from_mapping(COMBINED | {"num.partitons": "3"})
    with pytest.raises(BadSetting, match=r"zookeeper\.connect is no setting"):
        BrokerSettings.from_mapping(COMBINED | {"zookeeper.connect": "here"})


def test_a_change_for_one_broker_goes_before_one_for_all() -> None:
    settings = node().overlaid(
        {"log.retention.ms": "10", "log.segment.bytes": "2048"}, {"log.retention.ms": "20"}
    )
    assert settings.log_retention_ms == 20
    assert settings.log_segment_bytes == 2048
    # An overlay replaces the one before.
    assert settings.overlaid({}, {}).log_segment_bytes == 1024**3


@pytest.mark.parametrize(
    ("changed", "per_broker", "told"),
    [
        ({"node.id": "7"}, True, "cannot be changed while a broker runs"),
        ({"hwmark.decommission": "true"}, False, "for one broker only"),
        ({"log.retention.ms": "soon"}, False, "not a whole number"),
        ({"log.retention.msx": "1"}, True, "did you mean log.retention.ms?"),
    ],
)
def test_a_change_that_cannot_be_made_is_refused(
    changed: dict[str, str], per_broker: bool, told: str
) -> None:
    with pytest.raises(BadSetting) as refused:
        check_dynamic_settings(changed, per_broker=per_broker)
    assert told in str(refused.value)


def test_a_long_value_does_not_fill_the_message() -> None:
    with pytest.raises(BadSetting) as refused:
        node(node_id="9" * 100_000)
    assert len(str(refused.value)) < 300
