"""IncrementalAlterConfigs and AlterConfigs, of topics and of brokers.

What a topic or a broker says is kept as texts. Whether a text makes sense is for `net.settings`;
two settings of topics are also told to the controller, which lives by them. The setting
`hwmark.decommission` of one broker moves everything away from it, or stops that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs
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
from net.settings.described import Operation, altered_broker, altered_topic
from net.settings.topic import MIN_ISR, UNCLEAN, said_by, topic_settings
from net.wire.apis import Api
from net.wire.library import Message
from protocol.controller import (
    EVERY_BROKER,
    AlterBrokerConfig,
    AlterTopicConfig,
    Decommission,
    DecommissionProgress,
    Refuse,
    Reply,
    Unset,
)
from protocol.errors import ErrorCode

DECOMMISSION: Final = "hwmark.decommission"

_TOPIC: Final = 2
_BROKER: Final = 4

Changes: TypeAlias = list[tuple[str, int, str | None]]
Told: TypeAlias = Callable[[Failure], None]


def incremental_alter_configs(exchange: Exchange) -> None:
    """Change some settings of some resources."""

    def changes(resource: Message, current: Mapping[str, str]) -> Changes:
        del current
        return [
            (each["name"], each["config_operation"], each["value"]) for each in resource["configs"]
        ]

    _alter(exchange, changes)


def alter_configs(exchange: Exchange) -> None:
    """Replace all settings of some resources: what is not named is removed."""

    def changes(resource: Message, current: Mapping[str, str]) -> Changes:
        named = {each["name"] for each in resource["configs"]}
        gone = [(name, int(Operation.DELETE), None) for name in sorted(set(current) - named)]
        return [
            (each["name"], int(Operation.SET), each["value"]) for each in resource["configs"]
        ] + gone

    _alter(exchange, changes)


def _alter(exchange: Exchange, changes_of: Callable[[Message, Mapping[str, str]], Changes]) -> None:
    resources: list[Message] = exchange.message["resources"]
    failure = too_many(exchange, sum(1 + len(each["configs"]) for each in resources))
    if failure is not None:
        exchange.respond(refused(exchange.message, failure))
        return
    twice = repeated(_key(each) for each in resources)
    gather = Gather(len(resources), lambda results: exchange.respond({"responses": results}))
    for place, resource in enumerate(resources):

        def told(failure: Failure, place: int = place, resource: Message = resource) -> None:
            gather.put(place, _result(resource, failure))

        if _key(resource) in twice:
            told(Failure(ErrorCode.INVALID_REQUEST, "the resource is named more than once"))
            continue
        try:
            _alter_one(exchange, resource, changes_of, told)
        except BadSetting as bad:
            told(Failure(ErrorCode.INVALID_CONFIG, str(bad)))


def _alter_one(
    exchange: Exchange,
    resource: Message,
    changes_of: Callable[[Message, Mapping[str, str]], Changes],
    told: Told,
) -> None:
    kind, name = _key(resource)
    image = exchange.node.deciding
    if kind == _TOPIC:
        topic = image.topics.get(name)
        if topic is None:
            told(Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}"))
            return
        said = said_by(topic.config)
        _alter_topic(exchange, name, said, changes_of(resource, said), told)
    elif kind == _BROKER:
        node = _node(name)
        if node is None:
            told(Failure(ErrorCode.INVALID_REQUEST, f"{name!r} is no id of a broker"))
            return
        current = dict(image.broker_configs.get(node, Map()))
        _alter_broker(exchange, node, current, changes_of(resource, current), told)
    else:
        reason = f"resources of type {kind} have no settings here; use 2 (topic) or 4 (broker)"
        told(Failure(ErrorCode.INVALID_REQUEST, reason))


def _key(resource: Message) -> tuple[int, str]:
    return resource["resource_type"], resource["resource_name"]


def _node(name: str) -> int | None:
    if name == "":
        return EVERY_BROKER
    return int(name) if name.isascii() and name.isdigit() and len(name) <= 10 else None


def _difference(old: Mapping[str, str], new: Mapping[str, str]) -> Map[str, str | None]:
    found: dict[str, str | None] = dict.fromkeys(old.keys() - new.keys())
    found.update({name: value for name, value in new.items() if old.get(name) != value})
    return Map(found)


def _alter_topic(
    exchange: Exchange, name: str, said: Mapping[str, str], changes: Changes, told: Told
) -> None:
    settings = exchange.node.settings
    new = altered_topic(said, changes, settings)
    values = topic_settings(new, settings)
    differ = _difference(said, new)
    min_isr: int | Unset | None = None
    unclean: bool | Unset | None = None
    if MIN_ISR in differ:
        min_isr = values.min_insync_replicas if MIN_ISR in new else Unset.DEFAULT
    if UNCLEAN in differ:
        unclean = values.unclean_leader_election_enable if UNCLEAN in new else Unset.DEFAULT
    exchange.node.command(
        lambda correlation: AlterTopicConfig(
            correlation, name, min_isr, unclean, differ, _validate_only(exchange)
        ),
        lambda answer: told(failure_of(answer)),
    )


def _alter_broker(
    exchange: Exchange, node: int, current: Mapping[str, str], changes: Changes, told: Told
) -> None:
    new = altered_broker(current, changes, per_broker=node != EVERY_BROKER)
    differ = _difference(current, new)
    tried = AlterBrokerConfig(0, node, differ, validate_only=True)
    if node == EVERY_BROKER or not _moves(exchange, node, new, changes):
        command = attrs.evolve(tried, validate_only=_validate_only(exchange))
        _send(exchange, command, lambda: told(OK), told)
        return
    # Tried first, so that nothing is moved for a setting that cannot be.
    leaves = new.get(DECOMMISSION, "").strip().lower() == "true"
    meant = attrs.evolve(tried, validate_only=False)

    def decommission() -> None:
        if _validate_only(exchange):
            told(OK)
        else:
            _decommission(exchange, node, leaves, remember, told)

    def remember() -> None:
        _send(exchange, meant, lambda: told(OK), told)

    _send(exchange, tried, decommission, told)


def _moves(
    exchange: Exchange, node: int, new: Mapping[str, str], changes: Iterable[Sequence[object]]
) -> bool:
    """Whether a broker is to be decommissioned, more of it, or no longer."""
    if any(change[0] == DECOMMISSION for change in changes):
        return True
    broker = exchange.node.deciding.brokers.get(node)
    return broker is not None and broker.decommissioning and DECOMMISSION not in new


def _decommission(
    exchange: Exchange, node: int, leaves: bool, then: Callable[[], None], told: Told
) -> None:
    """Move everything away, in as many commands as that takes; or stop that."""

    def done(answer: Reply | Refuse) -> None:
        if isinstance(answer, Refuse):
            told(failure_of(answer))
            return
        progress = answer.value
        more = isinstance(progress, DecommissionProgress) and progress.started > 0
        if leaves and more:
            _decommission(exchange, node, leaves, then, told)
        else:
            then()

    exchange.node.command(
        lambda correlation: Decommission(correlation, node, cancel=not leaves), done
    )


def _send(
    exchange: Exchange, command: AlterBrokerConfig, then: Callable[[], None], told: Told
) -> None:
    def done(answer: Reply | Refuse) -> None:
        if isinstance(answer, Refuse):
            told(failure_of(answer))
        else:
            then()

    exchange.node.command(lambda correlation: attrs.evolve(command, correlation=correlation), done)


def _validate_only(exchange: Exchange) -> bool:
    return bool(exchange.message["validate_only"])


def _result(resource: Message, failure: Failure) -> Message:
    kind, name = _key(resource)
    return {**failure.fields, "resource_type": kind, "resource_name": name}


def refused(message: Message, failure: Failure) -> Message:
    """Refuse every resource."""
    return {"responses": [_result(resource, failure) for resource in message["resources"]]}


TABLE: Final[Table] = {
    Api.INCREMENTAL_ALTER_CONFIGS: Handling(incremental_alter_configs, refused),
    Api.ALTER_CONFIGS: Handling(alter_configs, refused),
}
