"""Settings as DescribeConfigs tells them, and as AlterConfigs changes them. It keeps nothing.

A value is told together with who has set it, and with everything that would hold if that were
taken back: the synonyms, in the order in which they count.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import attrs

from net.errors import BadSetting
from net.settings.broker import BrokerSettings, broker_table, check_dynamic_settings
from net.settings.kinds import split_list
from net.settings.setting import Dynamic, Setting, find
from net.settings.topic import broker_default, check_topic_settings, topic_table


class Source(enum.IntEnum):
    """Who has set a value, by the numbers that go over the wire."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_CLUSTER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Operation(enum.IntEnum):
    """What IncrementalAlterConfigs can do to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@attrs.frozen
class Synonym:
    """One of those that have set a value."""

    name: str
    value: str | None
    source: Source


@attrs.frozen
class Entry:
    """One setting with its value and where it comes from."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    type: int
    documentation: str
    synonyms: tuple[Synonym, ...]

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.source is Source.DEFAULT

    def message(self, *, synonyms: bool = False, documentation: bool = False) -> dict[str, Any]:
        """Return it under the names of the DescribeConfigs answer. None is sensitive here."""
        return {
            "name": self.name,
            "value": self.value,
            "read_only": self.read_only,
            "config_source": int(self.source),
            "is_sensitive": False,
            "synonyms": [
                {"name": each.name, "value": each.value, "source": int(each.source)}
                for each in (self.synonyms if synonyms else ())
            ],
            "config_type": self.type,
            "documentation": self.documentation if documentation else None,
        }


def describe_topic(
    said: Mapping[str, str], broker: BrokerSettings, names: Iterable[str] | None = None
) -> list[Entry]:
    """Tell a topic's settings; `names` picks some, and what is not known is left out."""
    entries = []
    for known in _picked(topic_table(), names):
        synonyms = (
            [Synonym(known.name, said[known.name], Source.TOPIC)] if known.name in said else []
        )
        for each in known.broker_names:
            synonyms += _said_by_broker(each.name, broker)
        synonyms += _defaults(known)
        value: str | None = said.get(known.name)
        if value is None:
            value = known.kind.write(broker_default(known, broker))
        source = synonyms[0].source if synonyms else Source.DEFAULT
        entries.append(
            Entry(known.name, value, source, False, known.kind.number, known.doc, tuple(synonyms))
        )
    return entries


def describe_broker(broker: BrokerSettings, names: Iterable[str] | None = None) -> list[Entry]:
    """Tell a broker's settings."""
    entries = []
    for known in _picked(broker_table(), names):
        synonyms = list(_said_by_broker(known.name, broker))
        if known.default_text is not None:
            synonyms.append(Synonym(known.name, known.default_text, Source.DEFAULT))
        value, source = None, Source.DEFAULT
        if synonyms:
            value, source = synonyms[0].value, synonyms[0].source
        entries.append(
            Entry(
                known.name,
                value,
                source,
                known.dynamic is Dynamic.NO,
                known.kind.number,
                known.doc,
                tuple(synonyms),
            )
        )
    return entries


def describe_cluster_wide(
    cluster_wide: Mapping[str, str], names: Iterable[str] | None = None
) -> list[Entry]:
    """Tell what was changed for all brokers: what the broker without a name answers."""
    return [
        Entry(
            known.name,
            cluster_wide[known.name],
            Source.DYNAMIC_CLUSTER,
            False,
            known.kind.number,
            known.doc,
            (Synonym(known.name, cluster_wide[known.name], Source.DYNAMIC_CLUSTER),),
        )
        for known in _picked(broker_table(), names)
        if known.name in cluster_wide
    ]


def altered_topic(
    said: Mapping[str, str],
    changes: Iterable[tuple[str, int, str | None]],
    broker: BrokerSettings | None = None,
) -> dict[str, str]:
    """Return what a topic says after these changes: (name, operation, value) each.

    `BadSetting` if any of it is wrong; then none of it counts.
    """
    found = _altered(topic_table(), said, changes, "topic")
    check_topic_settings(found, broker)
    return found


def altered_broker(
    changed: Mapping[str, str],
    changes: Iterable[tuple[str, int, str | None]],
    *,
    per_broker: bool,
    check: Callable[[Mapping[str, str]], object] = lambda _changed: None,
) -> dict[str, str]:
    """Return what is changed on a broker, or on all, after these changes; as `altered_topic`.

    `check` may try what comes out against a broker's other settings, by `overlaid`.
    """
    found = _altered(broker_table(), changed, changes, "broker")
    check_dynamic_settings(found, per_broker=per_broker)
    check(found)
    return found


def _altered(
    table: Mapping[str, Setting],
    current: Mapping[str, str],
    changes: Iterable[tuple[str, int, str | None]],
    what: str,
) -> dict[str, str]:
    found = dict(current)
    seen: set[str] = set()
    for name, number, value in changes:
        known = find(table, name, what)
        if name in seen:
            raise BadSetting(f"{name}: changed twice in one request; change it once")
        seen.add(name)
        try:
            operation = Operation(number)
        except ValueError:
            raise BadSetting(f"{name}: operation {number} is not known; use 0 to 3") from None
        if operation is Operation.DELETE:
            found.pop(name, None)
        elif value is None:
            raise BadSetting(f"{name}: no value; give one, or delete the setting")
        elif operation is Operation.SET:
            found[name] = value
        else:
            found[name] = _edited(known, found.get(name), value, operation)
    return found


def _edited(known: Setting, current: str | None, value: str, operation: Operation) -> str:
    """Add items to a list, or take some out."""
    if not known.kind.is_list:
        raise BadSetting(f"{known.name}: is no list, so nothing is added or taken out; set it")
    try:
        items = split_list(current if current is not None else known.default_text or "")
        given = split_list(value)
    except ValueError as error:
        raise known.bad(value, str(error)) from None
    if operation is Operation.APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    return ",".join(items)


def _picked(table: Mapping[str, Setting], names: Iterable[str] | None) -> Iterator[Setting]:
    wanted = None if names is None else set(names)
    return (known for name, known in table.items() if wanted is None or name in wanted)


def _said_by_broker(name: str, broker: BrokerSettings) -> Iterator[Synonym]:
    for texts, source in (
        (broker.per_broker, Source.DYNAMIC_BROKER),
        (broker.cluster_wide, Source.DYNAMIC_CLUSTER),
        (broker.given, Source.STATIC_BROKER),
    ):
        if name in texts:
            yield Synonym(name, texts[name], source)


def _defaults(known: Setting) -> Iterator[Synonym]:
    """Yield the defaults of the broker's settings, which are there when nobody says anything."""
    if not known.broker_names and known.default_text is not None:
        yield Synonym(known.name, known.default_text, Source.DEFAULT)
    for each in known.broker_names:
        text = broker_table()[each.name].default_text
        if text is not None:
            yield Synonym(each.name, text, Source.DEFAULT)
