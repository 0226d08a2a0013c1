"""What each version of the APIs of administrators does: at a broker, and at the controller itself.

A broker passes most of these on in an Envelope, so that its own way is seen here as well.
"""

from __future__ import annotations

from uuid import UUID

from net.wire.apis import Api, Scope, advertised
from net.wire.headers import request_header, response_body_at
from net.wire.library import Message, decode_response, encode_request
from protocol.errors import ErrorCode
from tests.net.broker.live import CLUSTER_ID, Live, batch_of, new_topic, until, until_true
from tests.net.broker.observing import BOTH, Asking, observes

TOPIC, BROKER = 2, 4
NO_ID = UUID(int=0)


def unused(asking: Asking, kind: str) -> str:
    """A name that no other observation has."""
    return f"{kind}-{asking.version}-{asking.scope.name}"


async def exists(live: Live, topic: str) -> bool:
    return bool((await live.described(topic))["error_code"] == 0)


@observes(Api.METADATA, range(13))
async def metadata_show_what_was_created(asking: Asking) -> None:
    live, version = asking.live, asking.version
    topic = await live.topic([2, 1], [1])
    everything = await asking.ask({"topics": [] if version == 0 else None})
    for asked in (everything, await asking.ask({"topics": [{"name": topic}]})):
        (found,) = (each for each in asked["topics"] if each["name"] == topic)
        first, second = found["partitions"]
        assert (first["leader_id"], first["replica_nodes"]) == (2, [2, 1])
        assert sorted(first["isr_nodes"]) == [1, 2]
        assert (second["leader_id"], second["replica_nodes"]) == (1, [1])
        assert ("leader_epoch" in first) == (version >= 7)
        assert first.get("offline_replicas", []) == []
        assert ("topic_id" in found) == (version >= 10)
    assert {each["node_id"] for each in asked["brokers"]} == {1, 2}
    assert asked["brokers"][0]["port"] == live.running[1].clients.port
    if version >= 1:
        assert asked["controller_id"] in (1, 2)
        assert (await asking.ask({"topics": []}))["topics"] == []
    if version >= 2:
        assert asked["cluster_id"] == CLUSTER_ID
    if version >= 12:
        named = [{"topic_id": await live.topic_id(topic), "name": None}]
        assert (await asking.ask({"topics": named}))["topics"][0]["name"] == topic
        named = [{"topic_id": UUID(int=5), "name": None}]
        (unknown,) = (await asking.ask({"topics": named}))["topics"]
        assert unknown["error_code"] == ErrorCode.UNKNOWN_TOPIC_ID
    await _unknown_topics_are_made_if_wished(asking)


async def _unknown_topics_are_made_if_wished(asking: Asking) -> None:
    live, name = asking.live, unused(asking, "asked-for")
    if asking.version >= 4:
        refused = [{"name": "not-" + name}]
        await asking.ask({"topics": refused, "allow_auto_topic_creation": False})
    message = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
    (unknown,) = (await asking.ask(message))["topics"]
    assert unknown["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await until_true(lambda: exists(live, name))
    assert not await exists(live, "not-" + name)


@observes(Api.API_VERSIONS, range(5), BOTH)
async def versions_are_told_as_they_are_served(asking: Asking) -> None:
    message = {"client_software_name": "a-test", "client_software_version": "1"}
    answer = await asking.ask(message)
    assert answer["error_code"] == 0
    told = {
        each["api_key"]: (each["min_version"], each["max_version"]) for each in answer["api_keys"]
    }
    known = advertised(asking.scope)
    assert told == {key: (each.min, each.max) for key, each in known.items()}
    # Who asks in a version that nobody knows is told so in one that everybody does.
    body = encode_request(Api.API_VERSIONS, 4, message)
    answer = await asking.channel.ask(
        Api.API_VERSIONS, 77, [body], lambda view: decode_response(18, 0, bytes(view)), 10_000
    )
    assert answer["error_code"] == ErrorCode.UNSUPPORTED_VERSION
    assert {each["api_key"] for each in answer["api_keys"]} >= {18}


@observes(Api.CREATE_TOPICS, range(2, 8), BOTH)
async def topics_are_created(asking: Asking) -> None:
    live, version = asking.live, asking.version
    name = unused(asking, "created")
    topic = new_topic(name, [[1, 2], [2]], retention_ms="77777")
    message = {"topics": [topic], "timeout": 10_000, "validate_only": True}
    (answer,) = (await asking.ask(message))["topics"]
    assert answer["error_code"] == 0
    assert not await exists(live, name)
    (answer,) = (await asking.ask({**message, "validate_only": False}))["topics"]
    assert answer["error_code"] == 0
    await live.leads(name, 1)
    await live.leads(name, 2, 1)
    described = await live.described(name)
    assert [each["replica_nodes"] for each in described["partitions"]] == [[1, 2], [2]]
    assert await setting(live, TOPIC, name, "retention.ms") == "77777"
    if version >= 5:
        assert (answer["num_partitions"], answer["replication_factor"]) == (2, 2)
        assert ("retention.ms", "77777") in {(e["name"], e["value"]) for e in answer["configs"]}
    if version >= 7:
        assert answer["topic_id"] == described["topic_id"]
    (again,) = (await asking.ask(message))["topics"]
    assert again["error_code"] == ErrorCode.TOPIC_ALREADY_EXISTS


async def setting(live: Live, kind: int, name: str, key: str) -> str | None:
    """What a broker lives by."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": [key]}
    (result,) = (await live.ask(Api.DESCRIBE_CONFIGS, 4, {"resources": [resource]}))["results"]
    assert result["error_code"] == 0, result
    values = {each["name"]: each["value"] for each in result["configs"]}
    found: str | None = values.get(key)
    return found


@observes(Api.DELETE_TOPICS, range(1, 7), BOTH)
async def topics_are_deleted_with_their_logs(asking: Asking) -> None:
    live, version = asking.live, asking.version
    topics = [await live.topic(), await live.topic()]
    named = [
        {"name": topics[0], "topic_id": NO_ID},
        {"name": None, "topic_id": await live.topic_id(topics[1])},
    ]
    message: Message = {"timeout": 10_000}
    if version >= 6:
        message["topics"] = named
    else:
        message["topic_names"] = topics
    answer = await asking.ask(message)
    assert [(each["name"], each["error_code"]) for each in answer["responses"]] == [
        (topic, 0) for topic in topics
    ]
    for topic in topics:
        assert (await live.described(topic))["error_code"] != 0
        folder = live.folder / "node-1" / f"{topic}-0"
        await until(lambda folder=folder: not folder.exists())  # type: ignore[misc]
    (again, _) = (await asking.ask(message))["responses"]
    assert again["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@observes(Api.CREATE_PARTITIONS, range(4), BOTH)
async def partitions_are_added(asking: Asking) -> None:
    live = asking.live
    topic = await live.topic()
    wanted = {"name": topic, "count": 2, "assignments": [{"broker_ids": [2]}]}
    message = {"topics": [wanted], "timeout": 10_000, "validate_only": True}
    assert (await asking.ask(message))["results"][0]["error_code"] == 0
    assert len((await live.described(topic))["partitions"]) == 1
    answer = await asking.ask({**message, "validate_only": False})
    assert [(each["name"], each["error_code"]) for each in answer["results"]] == [(topic, 0)]
    await live.leads(topic, 2, 1)
    assert (await live.partition(topic, 1))["replica_nodes"] == [2]


@observes(Api.DESCRIBE_CONFIGS, range(1, 5))
async def settings_are_described_with_who_set_them(asking: Asking) -> None:
    topic = await asking.live.topic(retention_ms="5000")

    async def described(kind: int, name: str, key: str) -> Message:
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": [key]}
        message = {"resources": [resource], "include_synonyms": True, "include_documentation": True}
        (result,) = (await asking.ask(message))["results"]
        assert result["error_code"] == 0
        (found,) = result["configs"]
        assert ("documentation" in found) == ("config_type" in found) == (asking.version >= 3)
        assert found["synonyms"]
        told: Message = found
        return told

    found = await described(TOPIC, topic, "retention.ms")
    assert (found["value"], found["config_source"]) == ("5000", 1)
    found = await described(TOPIC, topic, "max.message.bytes")
    assert found["config_source"] == 5
    found = await described(BROKER, "1", "broker.heartbeat.interval.ms")
    assert (found["value"], found["config_source"]) == ("200", 4)


async def _changes(asking: Asking, kind: int, name: str, *configs: Message) -> None:
    resource = {"resource_type": kind, "resource_name": name, "configs": list(configs)}
    for only_look in (True, False):
        message = {"resources": [resource], "validate_only": only_look}
        before = await setting(asking.live, kind, name, configs[0]["name"])
        (answer,) = (await asking.ask(message))["responses"]
        assert (answer["error_code"], answer["resource_name"]) == (0, name)
        if only_look:
            assert await setting(asking.live, kind, name, configs[0]["name"]) == before


@observes(Api.ALTER_CONFIGS, range(3), BOTH)
async def settings_are_replaced_as_a_whole(asking: Asking) -> None:
    live = asking.live
    topic = await live.topic(retention_ms="5000")
    await _changes(asking, TOPIC, topic, {"name": "max.message.bytes", "value": "400"})
    await until_true(_is_set(live, TOPIC, topic, "max.message.bytes", "400"))
    assert await setting(live, TOPIC, topic, "retention.ms") != "5000"
    refused = await live.produce(topic, batch_of(1, value=b"x" * 1_000))
    assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE


@observes(Api.INCREMENTAL_ALTER_CONFIGS, range(2), BOTH)
async def settings_are_changed_one_by_one(asking: Asking) -> None:
    live = asking.live
    topic = await live.topic(retention_ms="5000")
    change = {"name": "max.message.bytes", "config_operation": 0, "value": "400"}
    await _changes(asking, TOPIC, topic, change)
    await until_true(_is_set(live, TOPIC, topic, "max.message.bytes", "400"))
    assert await setting(live, TOPIC, topic, "retention.ms") == "5000"
    refused = await live.produce(topic, batch_of(1, value=b"x" * 1_000))
    assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE
    await _changes(asking, TOPIC, topic, {**change, "config_operation": 1, "value": None})
    await until_true(_is_set(live, TOPIC, topic, "max.message.bytes", "1048588"))
    assert (await live.produce(topic, batch_of(1, value=b"x" * 1_000))).error_code == 0
    name = "follower.replication.throttled.rate"
    rate = str(10_000_000 + asking.version)
    await _changes(asking, BROKER, "1", {"name": name, "config_operation": 0, "value": rate})
    await until_true(_is_set(live, BROKER, "1", name, rate))


def _is_set(live: Live, kind: int, name: str, key: str, value: str):  # type: ignore[no-untyped-def]
    async def is_set() -> bool:
        return await setting(live, kind, name, key) == value

    return is_set


@observes(Api.ELECT_LEADERS, range(3), BOTH)
async def the_preferred_replica_leads(asking: Asking) -> None:
    live = asking.live
    topic = await live.topic([1, 2])
    assert await live.move(topic, [2, 1]) == 0
    await live.has_replicas(topic, 2, 1)
    assert (await live.partition(topic))["leader_id"] == 1
    partitions = [{"topic": topic, "partitions": [0]}]
    message = {"election_type": 0, "topic_partitions": partitions, "timeout": 10_000}
    answer = await asking.ask(message)
    (result,) = answer["replica_election_results"]
    assert (result["topic"], result["partition_result"][0]["error_code"]) == (topic, 0)
    await live.leads(topic, 2)
    (again,) = (await asking.ask(message))["replica_election_results"]
    assert again["partition_result"][0]["error_code"] == ErrorCode.ELECTION_NOT_NEEDED


@observes(Api.ALTER_PARTITION_REASSIGNMENTS, range(2), BOTH)
async def a_partition_moves_with_its_records(asking: Asking) -> None:
    live = asking.live
    topic = await live.topic([1])
    await live.produce(topic, batch_of(1, 2, 3))
    partitions = [{"partition_index": 0, "replicas": [2]}]
    message = {"topics": [{"name": topic, "partitions": partitions}], "timeout": 10_000}
    answer = await asking.ask(message)
    assert answer["error_code"] == 0
    assert answer["responses"][0]["partitions"][0]["error_code"] == 0
    await live.has_replicas(topic, 2)
    await live.leads(topic, 2)
    moved = live.node(2).broker.replicas.partitions[topic, 0]  # type: ignore[union-attr,index]
    assert moved.state.log.end_offset == 3
    await until(lambda: not (live.folder / "node-1" / f"{topic}-0").exists())
    if asking.version >= 1:
        partitions[0]["replicas"] = [1, 2]
        answer = await asking.ask({**message, "allow_replication_factor_change": False})
        error = answer["responses"][0]["partitions"][0]["error_code"]
        assert error == ErrorCode.INVALID_REPLICATION_FACTOR


@observes(Api.LIST_PARTITION_REASSIGNMENTS, range(1), BOTH)
async def a_move_that_goes_on_is_listed(asking: Asking) -> None:
    live = asking.live
    number = await ghost(asking)
    topic = await live.topic([1])
    assert await live.move(topic, [1, number]) == 0
    named = [{"name": topic, "partition_indexes": [0]}]
    (found,) = (await asking.ask({"topics": named, "timeout": 10_000}))["topics"]
    (partition,) = found["partitions"]
    assert (partition["adding_replicas"], partition["removing_replicas"]) == ([number], [])
    assert await live.move(topic, None) == 0
    assert (await asking.ask({"topics": named, "timeout": 10_000}))["topics"] == []


async def ghost(asking: Asking) -> int:
    """Let a broker register that will never be heard of again; return its number."""
    number = 200 + 2 * asking.api + (asking.scope is Scope.BROKER)
    message = {
        "broker_id": number,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": UUID(int=number),
        "listeners": [{"name": "PLAINTEXT", "host": "h", "port": 1, "security_protocol": 0}],
        "features": [],
        "rack": None,
        "previous_broker_epoch": -1,
    }
    live = asking.live
    answer = await live.ask(Api.BROKER_REGISTRATION, 4, message, channel=live.to_controller())
    assert answer["error_code"] == 0
    return number


@observes(Api.UNREGISTER_BROKER, range(1), BOTH)
async def a_broker_is_forgotten(asking: Asking) -> None:
    number = await ghost(asking)
    controller = asking.live.node().controller
    assert controller is not None
    await until(lambda: number in controller.committed_image.brokers)
    assert (await asking.ask({"broker_id": number}))["error_code"] == 0
    await until(lambda: number not in controller.committed_image.brokers)
    again = await asking.ask({"broker_id": number})
    assert again["error_code"] == ErrorCode.BROKER_ID_NOT_REGISTERED


@observes(Api.DESCRIBE_CLUSTER, range(2), BOTH)
async def the_cluster_is_described(asking: Asking) -> None:
    live, is_broker = asking.live, asking.scope is Scope.BROKER
    answer = await asking.ask({"endpoint_type": 1 if is_broker else 2})
    if not is_broker and asking.version == 0:
        # This version asks for brokers, and a controller does not tell of them.
        assert answer["error_code"] == ErrorCode.MISMATCHED_ENDPOINT_TYPE
        return
    assert (answer["error_code"], answer["cluster_id"]) == (0, CLUSTER_ID)
    where = {each["broker_id"]: each["port"] for each in answer["brokers"]}
    if is_broker:
        assert where == {number: each.clients.port for number, each in live.running.items()}
    else:
        assert where == {1: live.controller_port}
        assert answer["endpoint_type"] == 2
    if is_broker and asking.version >= 1:
        assert (await asking.ask({"endpoint_type": 2}))["error_code"] != 0


@observes(Api.DESCRIBE_QUORUM, range(2), BOTH)
async def the_quorum_is_described(asking: Asking) -> None:
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]

    async def described() -> Message:
        answer = await asking.ask({"topics": topics})
        assert answer["error_code"] == 0
        found: Message = answer["topics"][0]["partitions"][0]
        return found

    before = await described()
    assert (before["error_code"], before["leader_id"]) == (0, 1)
    assert [each["replica_id"] for each in before["current_voters"]] == [1]
    (observer,) = (each for each in before["observers"] if each["replica_id"] == 2)
    assert ("last_fetch_timestamp" in observer) == (asking.version >= 1)
    await asking.live.topic()
    assert (await described())["high_watermark"] > before["high_watermark"]


@observes(Api.ENVELOPE, range(1), (Scope.CONTROLLER,))
async def what_is_in_an_envelope_is_done(asking: Asking) -> None:
    name = unused(asking, "enveloped")
    message = {"topics": [new_topic(name, [[1]])], "timeout": 10_000}
    data = request_header(Api.CREATE_TOPICS, 5, 1234, "somebody")
    data += encode_request(Api.CREATE_TOPICS, 5, message)
    answer = await asking.ask(
        {"request_data": data, "request_principal": b"", "client_host_address": b""}
    )
    assert answer["error_code"] == 0
    correlation, at = response_body_at(memoryview(answer["response_data"]), Api.CREATE_TOPICS, 5)
    assert correlation == 1234
    inner = decode_response(Api.CREATE_TOPICS, 5, answer["response_data"][at:])
    assert inner["topics"][0]["error_code"] == 0
    await asking.live.leads(name, 1)
