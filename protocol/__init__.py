"""The replicated log's protocol as pure state machines: events in, effects out.

It owns the state, the rules and the actions that mirror `spec/*.tla`, one folder per TLA+ module,
and imports attrs, one persistent-map library and the pure part of the standard library. It is not a
broker: no clock, no randomness, no socket, no file, no Trio.

It has no code yet: the replication machine is the first to come.
"""
