"""Runs the machines of `protocol` by the contract of `protocol.machine`, on Trio."""

from net.driving.driver import Driver
from net.driving.timers import Timers

__all__ = ["Driver", "Timers"]
