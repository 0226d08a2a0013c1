"""Trace validation: is what the machines wrote down a behaviour of the spec?

`lines` reads a trace, `order` finds an order for its steps, `steps` and `rebase` put them into the
spec's terms, `windows` and `validation` let TLC judge them by `TraceReplication.tla`, and `explain`
words a rejection. `recording` makes traces: a driver of the machines in virtual time, from a seed.
docs/traces.md has the format.
"""
