"""Spec against code: are the states that the machines can reach the ones that TLC finds?

It composes the very machines that brokers run with an in-memory log and the messages in flight,
into a system whose steps are the actions of the spec module that they mirror: one room here for
each. A system is explored exhaustively, each state is projected onto the spec's variables, and
states and labelled edges are compared with TLC's dump in both directions.

Here alone `spec` knows `protocol`. It is not a simulator: there is no time and no chance, only
every possibility. Nothing here repeats a rule of the protocol; what it adds are the bounds of the
specs' models, and what their environment may do.
"""
