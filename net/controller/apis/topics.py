"""CreateTopics, DeleteTopics, CreatePartitions.

Each topic of a request is done or refused on its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from immutables import Map

from net.controller.apis.exchange import (
    OK,
    Exchange,
    Failure,
    Gather,
    Handling,
    Table,
    failure_of,
    repeated,
    too_many,
)
from net.errors import BadSetting
from net.settings.described import describe_topic
from net.settings.topic import MIN_ISR, UNCLEAN, topic_settings
from net.wire.apis import Api
from net.wire.library import Message
from protocol.controller import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Image,
    ItemResult,
    NewTopic,
    Refuse,
    Reply,
    Results,
)
from protocol.errors import ErrorCode

NO_ID: Final = uuid.UUID(int=0)
_DELETION_DISABLED_FROM: Final = 3

_BAD_ASSIGNMENT: Final = "an assignment names each partition once, from 0 on without gaps"


def create_topics(exchange: Exchange) -> None:
    """Create topics, or tell what would become of it."""
    asked: list[Message] = exchange.message["topics"]
    failure = too_many(exchange, len(asked))
    if failure is not None:
        exchange.respond(create_refused(exchange.message, failure))
        return
    results: list[Message] = [{} for _ in asked]
    wanted: list[tuple[int, NewTopic]] = []
    twice = repeated(topic["name"] for topic in asked)
    taken = _collisions(exchange.node.deciding)
    for place, topic in enumerate(asked):
        made = _new_topic(exchange, topic, twice, taken)
        if isinstance(made, Failure):
            results[place] = _not_created(topic["name"], made)
        else:
            wanted.append((place, made))
    validate_only = bool(exchange.message.get("validate_only"))

    def done(answer: Reply | Refuse) -> None:
        for number, (place, new) in enumerate(wanted):
            results[place] = _created(exchange, new, _item(answer, number), validate_only)
        exchange.respond({"topics": results})

    if not wanted:
        exchange.respond({"topics": results})
        return
    topics = tuple(new for _, new in wanted)
    exchange.node.command(
        lambda correlation: CreateTopics(correlation, topics, validate_only),
        done,
        timeout_ms=exchange.message["timeout"],
    )


def _new_topic(
    exchange: Exchange, topic: Message, twice: set[Any], taken: dict[str, str]
) -> NewTopic | Failure:
    name = topic["name"]
    if name in twice:
        return Failure(ErrorCode.INVALID_REQUEST, f"{name} is named more than once")
    # A file or a metric may be called after a topic, with all dots made underscores.
    other = taken.setdefault(_folded(name), name)
    if other != name:
        return Failure(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"{name} collides with {other}: they differ only in dots and underscores",
        )
    try:
        said = _said(topic["configs"])
        values = topic_settings(said, exchange.node.settings)
    except BadSetting as bad:
        return Failure(ErrorCode.INVALID_CONFIG, str(bad))
    assignment = _assignment(topic["assignments"])
    if isinstance(assignment, Failure):
        return assignment
    return NewTopic(
        name,
        topic["num_partitions"],
        topic["replication_factor"],
        assignment,
        values.min_insync_replicas if MIN_ISR in said else None,
        values.unclean_leader_election_enable if UNCLEAN in said else None,
        Map(said),
        exchange.node.new_topic_id(),
    )


def _folded(name: str) -> str:
    return name.replace(".", "_")


def _collisions(image: Image) -> dict[str, str]:
    return {_folded(name): name for name in image.topics}


def _said(configs: Sequence[Message]) -> dict[str, str]:
    said: dict[str, str] = {}
    for each in configs:
        name, value = each["name"], each["value"]
        if value is None:
            raise BadSetting(f"{name}: no value; give one, or leave the setting out")
        if name in said:
            raise BadSetting(f"{name}: set twice in one request; set it once")
        said[name] = value
    return said


def _assignment(given: Sequence[Message]) -> tuple[tuple[int, ...], ...] | Failure | None:
    if not given:
        return None
    by_index: Mapping[int, Sequence[int]] = {
        each["partition_index"]: each["broker_ids"] for each in given
    }
    if len(by_index) != len(given) or sorted(by_index) != list(range(len(given))):
        return Failure(ErrorCode.INVALID_REPLICA_ASSIGNMENT, _BAD_ASSIGNMENT)
    return tuple(tuple(by_index[index]) for index in range(len(given)))


def _item(answer: Reply | Refuse, number: int) -> Refuse | ItemResult:
    if isinstance(answer, Refuse):
        return answer
    results = answer.value
    if not isinstance(results, Results):
        raise TypeError(f"a reply with {type(results).__name__}")
    return results.items[number]


def _created(
    exchange: Exchange, new: NewTopic, item: Refuse | ItemResult, validate_only: bool
) -> Message:
    if item.error != ErrorCode.NONE:
        return _not_created(new.name, failure_of(item))
    assignment: Any = item.value if isinstance(item, ItemResult) else ()
    return {
        "name": new.name,
        "topic_id": NO_ID if validate_only else uuid.UUID(new.id),
        **OK.fields,
        "num_partitions": len(assignment),
        "replication_factor": len(assignment[0]),
        "configs": [
            {
                "name": entry.name,
                "value": entry.value,
                "read_only": entry.read_only,
                "config_source": int(entry.source),
                "is_sensitive": False,
            }
            for entry in describe_topic(new.other, exchange.node.settings)
        ],
    }


def _not_created(name: str, failure: Failure) -> Message:
    return {
        "name": name,
        "topic_id": NO_ID,
        **failure.fields,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [],
    }


def create_refused(message: Message, failure: Failure) -> Message:
    """Refuse every topic."""
    return {"topics": [_not_created(topic["name"], failure) for topic in message["topics"]]}


def delete_topics(exchange: Exchange) -> None:
    """Delete topics, by name or by id."""
    asked = _to_delete(exchange.message)
    failure = too_many(exchange, len(asked))
    if not exchange.node.settings.delete_topic_enable:
        # Older clients do not know the code that says so.
        knows = exchange.version >= _DELETION_DISABLED_FROM
        code = ErrorCode.TOPIC_DELETION_DISABLED if knows else ErrorCode.INVALID_REQUEST
        failure = Failure(code, "delete.topic.enable is false")
    if failure is not None:
        exchange.respond(delete_refused(exchange.message, failure))
        return
    results: list[Message] = [{} for _ in asked]
    wanted: list[tuple[int, str, uuid.UUID]] = []
    for place, (name, topic_id) in enumerate(asked):
        known = _find(exchange, name, topic_id)
        if isinstance(known, Failure):
            results[place] = {"name": name, "topic_id": topic_id, **known.fields}
        else:
            wanted.append((place, *known))

    def done(answer: Reply | Refuse) -> None:
        for number, (place, name, topic_id) in enumerate(wanted):
            failure = failure_of(_item(answer, number))
            results[place] = {"name": name, "topic_id": topic_id, **failure.fields}
        exchange.respond({"responses": results})

    if not wanted:
        exchange.respond({"responses": results})
        return
    names = tuple(name for _, name, _ in wanted)
    exchange.node.command(
        lambda correlation: DeleteTopics(correlation, names),
        done,
        timeout_ms=exchange.message["timeout"],
    )


def _to_delete(message: Message) -> list[tuple[str | None, uuid.UUID]]:
    if "topics" in message:
        return [(topic["name"], topic["topic_id"]) for topic in message["topics"]]
    return [(name, NO_ID) for name in message["topic_names"]]


def _find(
    exchange: Exchange, name: str | None, topic_id: uuid.UUID
) -> tuple[str, uuid.UUID] | Failure:
    if (name is None) == (topic_id == NO_ID):
        return Failure(ErrorCode.INVALID_REQUEST, "name a topic, or give its id, and not both")
    if name is None:
        name = exchange.node.topic_of(topic_id)
        if name is None:
            return Failure(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with the id {topic_id}")
    topic = exchange.node.deciding.topics.get(name)
    # The controller says what is wrong with a name that there is not.
    return name, uuid.UUID(topic.id) if topic is not None and topic.id else NO_ID


def delete_refused(message: Message, failure: Failure) -> Message:
    """Refuse every topic."""
    return {
        "responses": [
            {"name": name, "topic_id": topic_id, **failure.fields}
            for name, topic_id in _to_delete(message)
        ]
    }


def create_partitions(exchange: Exchange) -> None:
    """Let topics grow."""
    asked: list[Message] = exchange.message["topics"]
    failure = too_many(exchange, len(asked))
    if failure is not None:
        exchange.respond(grow_refused(exchange.message, failure))
        return
    validate_only = bool(exchange.message["validate_only"])
    twice = repeated(topic["name"] for topic in asked)
    gather = Gather(len(asked), lambda results: exchange.respond({"results": results}))
    for place, topic in enumerate(asked):
        _grow(exchange, topic, twice, validate_only, gather, place)


def _grow(
    exchange: Exchange,
    topic: Message,
    twice: set[Any],
    validate_only: bool,
    gather: Gather,
    place: int,
) -> None:
    name = topic["name"]
    if name in twice:
        failure = Failure(ErrorCode.INVALID_REQUEST, f"{name} is named more than once")
        gather.put(place, {"name": name, **failure.fields})
        return
    given = topic["assignments"]
    assignment = None if given is None else tuple(tuple(each["broker_ids"]) for each in given)
    exchange.node.command(
        lambda correlation: CreatePartitions(
            correlation, name, topic["count"], assignment, validate_only
        ),
        lambda answer: gather.put(place, {"name": name, **failure_of(answer).fields}),
        timeout_ms=exchange.message["timeout"],
    )


def grow_refused(message: Message, failure: Failure) -> Message:
    """Refuse every topic."""
    return {"results": [{"name": topic["name"], **failure.fields} for topic in message["topics"]]}


TABLE: Final[Table] = {
    Api.CREATE_TOPICS: Handling(create_topics, create_refused),
    Api.DELETE_TOPICS: Handling(delete_topics, delete_refused),
    Api.CREATE_PARTITIONS: Handling(create_partitions, grow_refused),
}
