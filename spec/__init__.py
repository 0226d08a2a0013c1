"""The protocol in TLA+, the models that TLC checks, and the wrong rules it must catch.

It owns `*.tla`, `models/`, `mutants/`, and `spec.runner`, which runs TLC and stands alone. Only
`spec.conformance` may import `protocol`, to compare the two. It is not where the protocol is
implemented.
"""
