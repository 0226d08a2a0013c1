"""DescribeCluster, Envelope, and what every API says when another controller is the active one."""

from pathlib import Path
from typing import Any

import pytest

from net.controller.apis import HANDLERS
from net.errors import MalformedRequest
from net.wire.apis import VERSIONS, Api, Scope
from net.wire.headers import request_header, response_body_at
from net.wire.library import Message, decode_response, encode_request
from tests.net.controller.memory import Alone
from tests.net.controller.world import (
    CLUSTER_ID,
    NODE,
    Cluster,
    FakeRequest,
    new_topic,
    registration,
    run,
    versions,
)


@pytest.mark.parametrize("version", versions(Api.DESCRIBE_CLUSTER))
def test_a_controller_tells_where_the_controllers_are(version: int, tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        message = {"include_cluster_authorized_operations": False, "endpoint_type": 2}
        answer = await cluster.ask(Api.DESCRIBE_CLUSTER, version, message)
        if version == 0:
            # It can only ask for brokers.
            assert answer["error_code"] == 114
            return
        assert (answer["error_code"], answer["endpoint_type"]) == (0, 2)
        assert (answer["cluster_id"], answer["controller_id"]) == (CLUSTER_ID, NODE)
        (told,) = answer["brokers"]
        assert (told["broker_id"], told["host"], told["port"]) == (NODE, "controller.test", 9093)
        for kind, error in ((1, 114), (3, 115)):
            wrong = {**message, "endpoint_type": kind}
            refused = await cluster.ask(Api.DESCRIBE_CLUSTER, version, wrong)
            assert refused["error_code"] == error
            assert refused["error_message"]

    run(body, tmp_path)


def envelope(api: int, version: int, body: bytes, correlation_id: int = 77) -> Message:
    data = request_header(api, version, correlation_id, "a client") + body
    return {"request_data": data, "request_principal": None, "client_host_address": b"\x7f\0\0\1"}


@pytest.mark.parametrize("version", versions(Api.CREATE_TOPICS))
def test_a_request_in_an_envelope_is_handled_as_if_it_came_directly(
    version: int, tmp_path: Path
) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.brokers(2)
        create = {"topics": [new_topic("t"), new_topic("/")], "timeout": 60_000}
        inside = encode_request(Api.CREATE_TOPICS, version, create)
        message = envelope(Api.CREATE_TOPICS, version, inside)
        answer = await cluster.ask(Api.ENVELOPE, 0, message)
        assert answer["error_code"] == 0
        data = answer["response_data"]
        correlation_id, at = response_body_at(data, Api.CREATE_TOPICS, version)
        assert correlation_id == 77
        results = decode_response(Api.CREATE_TOPICS, version, data[at:])["topics"]
        assert [each["error_code"] for each in results] == [0, 17]
        assert list(cluster.image.topics) == ["t"]

    run(body, tmp_path)


EMPTY = encode_request(Api.CREATE_TOPICS, 7, {"topics": [], "timeout": 1})


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (envelope(Api.CREATE_TOPICS, 99, EMPTY), 35),
        (envelope(Api.CREATE_TOPICS, 0, EMPTY), 35),
        (envelope(Api.CREATE_TOPICS, 7, EMPTY[:-1]), 42),
        ({**envelope(Api.CREATE_TOPICS, 7, EMPTY), "request_data": b"\0\1"}, 42),
        ({**envelope(Api.CREATE_TOPICS, 7, EMPTY), "request_data": b"\x7f\xff" + bytes(20)}, 42),
        # What only brokers may ask for, for themselves.
        (
            envelope(
                Api.BROKER_REGISTRATION,
                4,
                encode_request(Api.BROKER_REGISTRATION, 4, registration(1)),
            ),
            42,
        ),
        (envelope(Api.ENVELOPE, 0, b""), 42),
        (envelope(Api.METADATA, 12, b""), 42),
    ],
)
def test_what_no_client_may_send_is_refused_in_the_envelope(
    message: Message, error: int, tmp_path: Path
) -> None:
    async def body(cluster: Cluster) -> None:
        answer = await cluster.ask(Api.ENVELOPE, 0, message)
        assert (answer["error_code"], answer["response_data"]) == (error, None)
        assert not cluster.image.brokers

    run(body, tmp_path)


TOPICS: dict[str, Any] = {"topics": [new_topic("t")], "timeout": 1}
RESOURCES: dict[str, Any] = {
    "resources": [{"resource_type": 2, "resource_name": "t", "configs": []}],
}
MOVES: dict[str, Any] = {
    "timeout": 1,
    "topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": None}]}],
}
ALIVE = {"broker_id": 1, "broker_epoch": 1}
ASKED: dict[Api, Message] = {
    Api.CREATE_TOPICS: {**TOPICS, "topics": [new_topic("new")]},
    Api.DELETE_TOPICS: {"topic_names": ["t"], "topics": [{"name": "t"}], "timeout": 1},
    Api.CREATE_PARTITIONS: {
        "topics": [{"name": "t", "count": 3, "assignments": None}],
        "timeout": 1,
        "validate_only": False,
    },
    Api.INCREMENTAL_ALTER_CONFIGS: RESOURCES,
    Api.ALTER_CONFIGS: RESOURCES,
    Api.ALTER_PARTITION: {**ALIVE, "topics": []},
    Api.ELECT_LEADERS: {
        "election_type": 0,
        "topic_partitions": [{"topic": "t", "partitions": [0]}],
        "timeout": 1,
    },
    Api.ALTER_PARTITION_REASSIGNMENTS: MOVES,
    Api.LIST_PARTITION_REASSIGNMENTS: {"timeout": 1, "topics": None},
    Api.BROKER_REGISTRATION: registration(1),
    Api.BROKER_HEARTBEAT: ALIVE,
    Api.UNREGISTER_BROKER: {"broker_id": 1},
    Api.ALLOCATE_PRODUCER_IDS: ALIVE,
    Api.ENVELOPE: envelope(Api.CREATE_TOPICS, 7, EMPTY),
}
# What is refused, or has nothing to wait for.
AT_ONCE = {
    *(Api.ALTER_PARTITION, Api.ELECT_LEADERS, Api.LIST_PARTITION_REASSIGNMENTS),
    *(Api.ALTER_PARTITION_REASSIGNMENTS, Api.UNREGISTER_BROKER, Api.ENVELOPE),
}
EVERY_VERSION = [(api, version) for api in ASKED for version in versions(api)]


def codes(value: object) -> set[int]:
    """Find every error code of an answer."""
    if isinstance(value, dict):
        own = {value["error_code"]} if "error_code" in value else set()
        return own.union(*(codes(each) for each in value.values()))
    return set().union(*(codes(each) for each in value)) if isinstance(value, list) else set()


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_who_is_not_active_says_so_in_the_place_of_each_api(api: Api, version: int) -> None:
    answer = asked_alone(Alone(), api, version)
    assert codes(answer) == {41}


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_who_is_deposed_meanwhile_says_so_too(api: Api, version: int) -> None:
    one = Alone()
    one.quorum.elect()
    for node in (1, 2):
        broker = {**registration(node)}
        request = asked(one, Api.BROKER_REGISTRATION, 4, broker)
        beat = {**ALIVE, "broker_id": node, "current_metadata_offset": 10**6}
        asked(one, Api.BROKER_HEARTBEAT, 1, beat)
    asked(one, Api.CREATE_TOPICS, 7, {**TOPICS, "timeout": 60_000})
    request = asked(one, api, version, ASKED[api] | {"timeout": 60_000})
    assert request.answered.is_set() == (api in AT_ONCE)
    one.quorum.depose()
    answer = decode_response(api, version, request.answer)
    assert (codes(answer) == {41}) == (api not in AT_ONCE)


def asked(one: Alone, api: Api, version: int, message: Message) -> FakeRequest:
    known = {key: value for key, value in message.items() if fits(api, version, key)}
    request = FakeRequest(api, version, encode_request(api, version, known), 1)
    HANDLERS[api](request, one.node)
    return request


def fits(api: Api, version: int, key: str) -> bool:
    try:
        encode_request(api, version, {key: None})
    except TypeError as error:
        return "in any version" not in str(error)
    except (ValueError, AttributeError):
        return True
    return True


def asked_alone(one: Alone, api: Api, version: int) -> Message:
    request = asked(one, api, version, ASKED[api])
    assert request.answered.is_set()
    return decode_response(api, version, request.answer)


def test_not_controller_is_said_outside_the_envelope_when_it_is_inside() -> None:
    one = Alone()
    one.quorum.elect()
    inside = encode_request(Api.UNREGISTER_BROKER, 0, {"broker_id": 1})
    asked(one, Api.BROKER_REGISTRATION, 4, registration(1))
    request = asked(one, Api.ENVELOPE, 0, envelope(Api.UNREGISTER_BROKER, 0, inside))
    assert not request.answered.is_set()
    one.quorum.depose()
    answer = decode_response(Api.ENVELOPE, 0, request.answer)
    assert (answer["error_code"], answer["response_data"]) == (41, None)


def test_every_api_of_the_controllers_listener_is_somebodys() -> None:
    elsewhere = {
        *(Api.FETCH, Api.API_VERSIONS, Api.DESCRIBE_CONFIGS, Api.VOTE),
        *(Api.BEGIN_QUORUM_EPOCH, Api.END_QUORUM_EPOCH, Api.DESCRIBE_QUORUM, Api.FETCH_SNAPSHOT),
    }
    served = {api for api, each in VERSIONS.items() if Scope.CONTROLLER in each.scope}
    assert set(HANDLERS) == served - elsewhere
    assert set(ASKED) == set(HANDLERS) - {Api.DESCRIBE_CLUSTER}


@pytest.mark.parametrize("api", sorted(HANDLERS))
def test_bytes_that_are_no_request_are_told_to_the_connection(api: Api) -> None:
    one = Alone()
    one.quorum.elect()
    version = versions(api)[-1]
    for body in (b"", b"\xff" * 40):
        with pytest.raises(MalformedRequest):
            HANDLERS[api](FakeRequest(api, version, body, 1), one.node)
