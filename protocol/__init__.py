"""The replicated log's protocol as pure state machines: events in, effects out.

It owns the state, the rules and the actions that mirror `spec/*.tla`, one folder per TLA+ module,
and imports attrs, one persistent-map library and the pure part of the standard library. It is not a
broker: no clock, no randomness, no socket, no file, no Trio.

`API_VERSION` follows semantic versioning for what a folder's `__init__` exports and for the
contract with drivers in `protocol.machine`: the major number grows when a driver has to change.
"""

API_VERSION = "1.1"
