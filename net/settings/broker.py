"""All settings of a node, typed, checked one by one and against each other.

They come from a properties file and are then overlaid by what was changed while the cluster runs:
first what holds for every broker, then what holds for this one. The result of an overlay is a new
value; whoever lives by a dynamic setting reads it anew when the metadata change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from net.errors import BadSetting
from net.settings.addresses import ANY_HOST, Listener, Voter
from net.settings.groups_logs import LogSettings
from net.settings.groups_roles import OwnSettings, QuorumSettings, RoleSettings
from net.settings.groups_traffic import ConnectionSettings, ReplicationSettings
from net.settings.setting import Dynamic, Setting, find, read_all, settings_of
from net.transport.seam import Endpoint

BROKER: Final = "broker"
CONTROLLER: Final = "controller"


@attrs.frozen(slots=False, kw_only=True)
class BrokerSettings(
    OwnSettings, LogSettings, ReplicationSettings, ConnectionSettings, QuorumSettings, RoleSettings
):
    """What a node lives by. Make it with `from_mapping`, which checks everything."""

    given: Mapping[str, str] = attrs.field(factory=dict, eq=False, repr=False)
    """The texts of the properties file."""
    cluster_wide: Mapping[str, str] = attrs.field(factory=dict, eq=False, repr=False)
    """What was changed for all brokers since."""
    per_broker: Mapping[str, str] = attrs.field(factory=dict, eq=False, repr=False)
    """What was changed for this broker since; it goes before."""

    @classmethod
    def from_mapping(cls, given: Mapping[str, str]) -> BrokerSettings:
        """Read the texts of a properties file; `BadSetting` for the first that is wrong."""
        settings = cls(**read_all(broker_table(), given, "node"), given=dict(given))
        for check in _CHECKS:
            check(settings)
        return settings

    def overlaid(
        self, cluster_wide: Mapping[str, str], per_broker: Mapping[str, str]
    ) -> BrokerSettings:
        """Return these settings with what was changed while the cluster runs."""
        check_dynamic_settings(cluster_wide, per_broker=False)
        check_dynamic_settings(per_broker, per_broker=True)
        given = {**self.given, **cluster_wide, **per_broker}
        return attrs.evolve(
            BrokerSettings.from_mapping(given),
            given=self.given,
            cluster_wide=dict(cluster_wide),
            per_broker=dict(per_broker),
        )

    @property
    def is_broker(self) -> bool:
        """Whether this node is a broker."""
        return BROKER in self.process_roles

    @property
    def is_controller(self) -> bool:
        """Whether this node is a controller, so a voter of the quorum."""
        return CONTROLLER in self.process_roles

    @property
    def broker_listeners(self) -> tuple[Listener, ...]:
        """Where clients and other brokers come in."""
        names = self.controller_listener_names
        return tuple(each for each in self.listeners if each.name not in names)

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """Where other controllers and brokers reach this controller."""
        names = self.controller_listener_names
        return tuple(each for each in self.listeners if each.name in names)

    @property
    def inter_broker_name(self) -> str:
        """The name of the listener that other brokers use."""
        return self.inter_broker_listener_name or self.broker_listeners[0].name

    @property
    def metadata_dir(self) -> str:
        """The folder of the metadata log."""
        return self.metadata_log_dir or self.log_dirs[0]

    @property
    def all_dirs(self) -> tuple[str, ...]:
        """Every folder of this node, each once: the metadata's first."""
        return tuple(dict.fromkeys((self.metadata_dir, *self.log_dirs)))

    @property
    def voters(self) -> Mapping[int, Endpoint]:
        """Where each controller of the quorum is."""
        return {voter.node: voter.endpoint for voter in self.controller_quorum_voters}

    @property
    def controlled_shutdown_timeout_ms(self) -> int:
        """How long a broker that stops may take to hand over, all tries together."""
        return (
            1 + self.controlled_shutdown_max_retries
        ) * self.controlled_shutdown_retry_backoff_ms

    def advertised(self, bound: Mapping[str, int]) -> tuple[Listener, ...]:
        """Return what clients are told, given the real port of each listener by name.

        A port 0 in `advertised.listeners` stands for the real one, too.
        """
        told = {each.name: each for each in self.advertised_listeners}
        found = []
        for each in self.broker_listeners:
            endpoint = told.get(each.name, each).endpoint
            port = endpoint.port or bound[each.name]
            found.append(Listener(each.name, Endpoint(endpoint.host, port)))
        return tuple(found)


def broker_table() -> Mapping[str, Setting]:
    """Return every setting of a node by name."""
    return settings_of(BrokerSettings)


def check_dynamic_settings(changed: Mapping[str, str], *, per_broker: bool) -> None:
    """Refuse what is unknown, malformed, or cannot be changed while a broker runs."""
    for name, text in changed.items():
        known = find(broker_table(), name, "broker")
        if known.dynamic is Dynamic.NO:
            raise BadSetting(
                f"{name}: cannot be changed while a broker runs; "
                "set it in the properties file and start the broker again"
            )
        if known.dynamic is Dynamic.PER_BROKER and not per_broker:
            raise BadSetting(f"{name}: can be changed for one broker only; name the broker")
        known.read(text)


def _need(settings: BrokerSettings, *names: str) -> None:
    for name in names:
        if name not in settings.given:
            raise BadSetting(f"{name} is not set; {broker_table()[name].doc}")


def _once(name: str, values: Iterable[Any]) -> None:
    twice = [value for value, count in Counter(values).items() if count > 1]
    if twice:
        raise BadSetting(f"{name}: {twice[0]} is there twice; name each once")


def _check_needed(settings: BrokerSettings) -> None:
    _need(settings, "process.roles", "node.id", "listeners")
    _need(settings, "controller.quorum.voters", "controller.listener.names")
    if settings.is_broker or settings.metadata_log_dir is None:
        _need(settings, "log.dirs")
        if not settings.log_dirs:
            raise BadSetting("log.dirs=: nothing is named; name at least one folder")
    _once("process.roles", settings.process_roles)
    _once("log.dirs", settings.log_dirs)


def _check_listeners(settings: BrokerSettings) -> None:
    _once("listeners", (each.name for each in settings.listeners))
    _once("listeners", (each.endpoint for each in settings.listeners if each.endpoint.port))
    names = settings.controller_listener_names
    if not names:
        raise BadSetting("controller.listener.names=: nothing is named; name a listener")
    for name in names:
        if name != name.upper():
            raise BadSetting(
                f"controller.listener.names={name}: names of listeners are in capitals here"
            )
    if settings.is_controller and not settings.controller_listeners:
        raise BadSetting(
            f"controller.listener.names={','.join(names)}: a controller listens on one of these; "
            "add it to listeners"
        )
    if not settings.is_controller and settings.controller_listeners:
        raise BadSetting(
            f"listeners: {settings.controller_listeners[0]} is a listener of controllers, and this "
            "node is none; remove it, or add controller to process.roles"
        )
    if settings.is_broker and not settings.broker_listeners:
        raise BadSetting(
            "listeners: a broker needs a listener that is not in controller.listener.names; add one"
        )
    if not settings.is_broker and settings.broker_listeners:
        raise BadSetting(
            f"listeners: {settings.broker_listeners[0]} is a listener of brokers, and this node "
            "is none; remove it, or add broker to process.roles"
        )


def _check_advertised(settings: BrokerSettings) -> None:
    own = {each.name for each in settings.broker_listeners}
    _once("advertised.listeners", (each.name for each in settings.advertised_listeners))
    for each in settings.advertised_listeners:
        if each.name not in own:
            raise BadSetting(
                f"advertised.listeners: {each} is no listener of this broker; name one of "
                + (", ".join(sorted(own)) or "none, as this node is no broker")
            )
    for each in settings.advertised(dict.fromkeys(own, 0)):
        if each.endpoint.host in ANY_HOST:
            raise BadSetting(
                f"advertised.listeners: clients cannot connect to {each}; name a host in "
                "advertised.listeners"
            )
    name = settings.inter_broker_listener_name
    if settings.is_broker and name is not None and name not in own:
        raise BadSetting(
            f"inter.broker.listener.name={name}: no listener of this broker; use one of "
            + ", ".join(sorted(own))
        )


def _check_protocols(settings: BrokerSettings) -> None:
    pairs = settings.listener_security_protocol_map
    _once("listener.security.protocol.map", (name for name, _ in pairs))
    for name, protocol in pairs:
        if protocol != "PLAINTEXT":
            raise BadSetting(
                f"listener.security.protocol.map={name}:{protocol}: only PLAINTEXT is served"
            )


def _check_voters(settings: BrokerSettings) -> None:
    voters: tuple[Voter, ...] = settings.controller_quorum_voters
    _once("controller.quorum.voters", (voter.node for voter in voters))
    _once("controller.quorum.voters", (voter.endpoint for voter in voters))
    ids = [voter.node for voter in voters]
    text = settings.given["controller.quorum.voters"]
    if not ids:
        raise BadSetting("controller.quorum.voters=: nobody is named; write id@host:port")
    if settings.is_controller and settings.node_id not in ids:
        raise BadSetting(
            f"controller.quorum.voters={text}: node.id={settings.node_id} is a controller and not "
            "among them; add it"
        )
    if not settings.is_controller and settings.node_id in ids:
        raise BadSetting(
            f"controller.quorum.voters={text}: node.id={settings.node_id} is among them, and is no "
            "controller; add controller to process.roles, or give it another node.id"
        )


def _check_times(settings: BrokerSettings) -> None:
    session, heartbeat = settings.broker_session_timeout_ms, settings.broker_heartbeat_interval_ms
    if heartbeat >= session:
        raise BadSetting(
            f"broker.heartbeat.interval.ms={heartbeat}: not below "
            f"broker.session.timeout.ms={session}; every broker would be fenced again and again"
        )
    wait, timeout = settings.replica_fetch_wait_max_ms, settings.replica_socket_timeout_ms
    if wait >= timeout:
        raise BadSetting(
            f"replica.fetch.wait.max.ms={wait}: not below replica.socket.timeout.ms={timeout}; "
            "every idle fetch would time out"
        )
    if wait > settings.replica_lag_time_max_ms:
        raise BadSetting(
            f"replica.fetch.wait.max.ms={wait}: above "
            f"replica.lag.time.max.ms={settings.replica_lag_time_max_ms}; "
            "followers would leave the ISR for nothing"
        )
    queued, largest = settings.queued_max_request_bytes, settings.socket_request_max_bytes
    if queued < largest:
        raise BadSetting(
            f"queued.max.request.bytes={queued}: below socket.request.max.bytes={largest}; "
            "one request could never be read"
        )


_CHECKS: Final[tuple[Callable[[BrokerSettings], None], ...]] = (
    _check_needed,
    _check_listeners,
    _check_protocols,
    _check_advertised,
    _check_voters,
    _check_times,
)
