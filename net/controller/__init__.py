"""The controller's driver and its APIs: requests become commands, replies become answers.

Decisions are those of `protocol.controller`; its records are made durable by the quorum of
`net.metadata`. Nothing here waits: what takes time comes back as a call.
"""

from net.controller.node import ControllerNode
from net.controller.waiting import Done

__all__ = ["ControllerNode", "Done"]
