"""A broker's standing with the controller: it registers, shows that it is alive, asks to stop.

Until it is registered nothing else of it runs. If the controller says that another process has its
id, this one stops: two brokers of one id would write to the same partitions.
"""

from __future__ import annotations

import enum
import logging
import math
from collections.abc import Callable
from typing import Final
from uuid import UUID

import attrs

from net.broker.controller_link import ControllerLink
from net.driving import Timers
from net.settings.broker import BrokerSettings
from net.wire.apis import Api
from net.wire.library import Message
from protocol.errors import ErrorCode
from protocol.types import BrokerEpoch, NodeId, Offset

_log = logging.getLogger(__name__)

_REGISTRATION_VERSION: Final = 4
_HEARTBEAT_VERSION: Final = 1
_RETRY_MS: Final = 100


class Phase(enum.Enum):
    """How far a broker has got."""

    REGISTERING = "registering"
    CATCHING_UP = "catching up"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


@attrs.frozen
class Introduction:
    """What a broker says of itself."""

    node: NodeId
    cluster_id: str
    incarnation: UUID
    listeners: tuple[tuple[str, str, int, int], ...]
    rack: str
    previous_epoch: BrokerEpoch
    """That with which it stopped in good order; 0 if it did not."""


class Lifecycle:
    """Registration and heartbeats of one broker. `Timers` ring it."""

    def __init__(
        self,
        introduction: Introduction,
        link: ControllerLink,
        settings: BrokerSettings,
        timers: Timers,
        *,
        applied: Callable[[], Offset],
        registered: Callable[[BrokerEpoch], None],
        unfenced: Callable[[], None],
        taken: Callable[[str], None],
    ) -> None:
        """`applied` tells how far this broker has read the metadata. `taken` ends the broker."""
        self.phase = Phase.REGISTERING
        self.epoch: BrokerEpoch = 0
        self.is_fenced = True
        self.may_stop = False
        self.armed_ms = math.inf
        self._me = introduction
        self._link = link
        self._settings = settings
        self._timers = timers
        self._applied = applied
        self._registered = registered
        self._unfenced = unfenced
        self._taken = taken
        self._next_ms: int | None = timers.clock_ms()
        self._asking = False
        self._give_up_ms = math.inf
        self._register_by_ms = timers.clock_ms() + settings.initial_broker_registration_timeout_ms
        self._stopped: Callable[[], None] | None = None
        timers.watch(self)

    def next_deadline(self) -> int | None:
        """Tell when the controller is to hear from this broker."""
        return None if self._asking or self.phase is Phase.STOPPED else self._next_ms

    def ring(self) -> None:
        """Register, or show that this broker is alive."""
        due = self.next_deadline()
        if due is None or due > self._timers.clock_ms():
            return
        self._asking = True
        if self.phase is Phase.REGISTERING and self._timers.clock_ms() >= self._register_by_ms:
            self.close()
            self._taken(
                "no controller took it in for initial.broker.registration.timeout.ms="
                f"{self._settings.initial_broker_registration_timeout_ms}"
            )
        elif self.phase is Phase.REGISTERING:
            self._register()
        else:
            self._beat()

    def beat_soon(self) -> None:
        """Something has changed that the controller should hear of."""
        self._again(0)

    def wants_to_stop(self, stopped: Callable[[], None]) -> None:
        """Ask to stop: leaderships move elsewhere first. `stopped` is called when they have.

        It is also called when no controller has answered for as long as a session lasts: by then
        the others take this broker for gone in any case.
        """
        self._stopped = stopped
        self._give_up_ms = self._timers.clock_ms() + self._settings.broker_session_timeout_ms
        self.phase = Phase.STOPPING
        self._again(0)

    def close(self) -> None:
        """Say nothing any more."""
        self.phase = Phase.STOPPED

    def _again(self, wait_ms: int) -> None:
        self._next_ms = self._timers.clock_ms() + wait_ms
        self._timers.watch(self)

    def _register(self) -> None:
        me = self._me
        message: Message = {
            "broker_id": me.node,
            "cluster_id": me.cluster_id,
            "incarnation_id": me.incarnation,
            "listeners": [
                {"name": name, "host": host, "port": port, "security_protocol": protocol}
                for name, host, port, protocol in me.listeners
            ],
            "features": [],
            "rack": me.rack or None,
            "is_migrating_zk_broker": False,
            "log_dirs": [],
            "previous_broker_epoch": me.previous_epoch or -1,
        }
        self._link.request(
            Api.BROKER_REGISTRATION,
            _REGISTRATION_VERSION,
            message,
            self._after_registration,
            self._failed,
            self._settings.broker_session_timeout_ms,
        )

    def _after_registration(self, message: Message) -> None:
        self._asking = False
        error = message["error_code"]
        if error == ErrorCode.INCONSISTENT_CLUSTER_ID:
            self.close()
            self._taken("the controller belongs to another cluster")
        elif error:
            # The session of an earlier incarnation may have to end first.
            _log.info("registration was refused with error %d; trying again", error)
            self._again(_RETRY_MS)
        else:
            self.epoch = message["broker_epoch"]
            self.phase = Phase.CATCHING_UP
            self._registered(self.epoch)
            self._again(0)

    def _beat(self) -> None:
        message: Message = {
            "broker_id": self._me.node,
            "broker_epoch": self.epoch,
            "current_metadata_offset": self._applied(),
            "want_fence": False,
            "want_shut_down": self.phase is Phase.STOPPING,
            "offline_log_dirs": [],
        }
        self._link.request(
            Api.BROKER_HEARTBEAT,
            _HEARTBEAT_VERSION,
            message,
            self._after_beat,
            self._failed,
            self._settings.broker_session_timeout_ms,
        )

    def _after_beat(self, message: Message) -> None:
        self._asking = False
        self._give_up_ms = self._timers.clock_ms() + self._settings.broker_session_timeout_ms
        error = message["error_code"]
        if error in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            self.close()
            self._taken("the controller knows another broker of this id, or none any more")
            return
        if error:
            self._again(_RETRY_MS)
            return
        was_fenced, self.is_fenced = self.is_fenced, message["is_fenced"]
        if was_fenced and not self.is_fenced and self.phase is Phase.CATCHING_UP:
            self.phase = Phase.RUNNING
            self._unfenced()
        if self.phase is Phase.STOPPING and message["should_shut_down"]:
            self.close()
            self.may_stop = True
            if self._stopped is not None:
                self._stopped()
            return
        hurries = self.is_fenced or self.phase is Phase.STOPPING
        interval_ms = self._settings.broker_heartbeat_interval_ms
        self._again(min(_RETRY_MS, interval_ms) if hurries else interval_ms)

    def _failed(self, error: Exception) -> None:
        self._asking = False
        _log.debug("the controller did not answer: %s", error)
        if self._stopped is not None and self._timers.clock_ms() >= self._give_up_ms:
            _log.warning("no controller answers, so leaderships are not handed over")
            self.close()
            self._stopped()
            return
        self._again(_RETRY_MS)
