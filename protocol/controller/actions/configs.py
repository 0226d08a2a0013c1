"""Settings of topics and of brokers: changed one by one, given their defaults again, looked at only
where the controller lives by them.

When a topic's min ISR changes, each of its partitions gets a new version with it. So an ISR change
that a leader had proposed from the record before is refused: that leader may still count by the old
min ISR, and would let the high watermark pass a replica that the controller, counting by the new
one, takes to have everything (the ELR).

Which settings there are, and what they may be, is not known here: whoever sends a command has
looked at that.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from immutables import Map

from protocol.controller.actions.brokers import known_broker
from protocol.controller.actions.table import Answer, Draft, RefusedError, command
from protocol.controller.actions.topics import (
    bounded_settings,
    known_topic,
    usual_min_isr,
    valid_min_isr,
)
from protocol.controller.decisions import change_isr
from protocol.controller.events import AlterBrokerConfig, AlterTopicConfig, Unset
from protocol.controller.records import BrokerConfigRecord, ConfigRecord
from protocol.controller.rules import ControllerRules
from protocol.controller.state import (
    EMPTY,
    EVERY_BROKER,
    NOBODY,
    ControllerConfig,
    ControllerState,
    Topic,
    TopicConfig,
)
from protocol.errors import ErrorCode


@command("AlterTopicConfig", AlterTopicConfig)
def alter_topic_config(
    rules: ControllerRules,
    state: ControllerState,
    event: AlterTopicConfig,
    now_ms: int,  # noqa: ARG001 - every action is given the same
) -> Answer:
    """Change a topic's settings; the reply is the `TopicConfig` as it is now."""
    draft = Draft(state.image)
    topic = known_topic(draft.image, event.topic)
    factor = min(len(partition.target) for partition in draft.image.of_topic(topic))
    config = _changed_topic(state.config, topic, event, factor)
    if config == topic.config:
        return Answer(draft, config)
    valid_min_isr(config.min_isr, factor)
    if event.validate_only:
        return Answer(draft, config, at_once=True)
    draft.add(ConfigRecord(topic.name, config))
    if config.min_isr != topic.config.min_isr:
        for partition in draft.image.of_topic(topic):
            changed = change_isr(rules, partition, partition.isr, NOBODY, config.min_isr)
            draft.change(partition, changed)
    return Answer(draft, config)


def _changed_topic(
    limits: ControllerConfig, topic: Topic, event: AlterTopicConfig, factor: int
) -> TopicConfig:
    min_isr, unclean = event.min_isr, event.unclean_election
    if min_isr is None:
        min_isr = topic.config.min_isr
    elif isinstance(min_isr, Unset):
        min_isr = usual_min_isr(limits, factor)
    if unclean is None:
        unclean = topic.config.unclean_election
    elif isinstance(unclean, Unset):
        unclean = limits.default_unclean_election
    other = changed(limits, topic.config.other, event.other)
    return attrs.evolve(topic.config, min_isr=min_isr, unclean_election=unclean, other=other)


@command("AlterBrokerConfig", AlterBrokerConfig)
def alter_broker_config(
    rules: ControllerRules,
    state: ControllerState,
    event: AlterBrokerConfig,
    now_ms: int,
) -> Answer:
    """Change a broker's settings, or those of all; the reply is the settings as they are now."""
    del rules, now_ms
    draft = Draft(state.image)
    known = state.image.broker_configs
    if event.node != EVERY_BROKER and event.node not in known:
        known_broker(state, event.node)
        # Settings outlive their broker, so these are not bounded by the number of brokers.
        if len(known) > state.config.max_brokers:
            raise RefusedError(
                ErrorCode.POLICY_VIOLATION, f"{len(known)} brokers have settings already"
            )
    old: Map[str, str] = known.get(event.node, EMPTY)
    settings = changed(state.config, old, event.changes)
    if settings == old:
        return Answer(draft, settings)
    if event.validate_only:
        return Answer(draft, settings, at_once=True)
    draft.add(BrokerConfigRecord(event.node, settings))
    return Answer(draft, settings)


def changed(
    limits: ControllerConfig, settings: Map[str, str], changes: Mapping[str, str | None]
) -> Map[str, str]:
    """Return the settings after these changes, of which None removes one; refuse too many."""
    for name, value in changes.items():
        if value is not None:
            settings = settings.set(name, value)
        elif name in settings:
            settings = settings.delete(name)
    # What only shrinks is never too much.
    if any(value is not None for value in changes.values()):
        bounded_settings(limits, settings)
    return settings
