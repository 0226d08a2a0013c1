"""Spec against code: are the states that the machines can reach the ones that TLC finds?

It composes the very machines that brokers run (`protocol.replication.Replica`, one for each
replica, and `protocol.controller.Controller`) with an in-memory log and the messages in flight,
into a cluster whose steps are the actions of `Replication.tla`. The cluster is explored
exhaustively, each state is projected onto the spec's variables, and states and labelled edges are
compared with TLC's dump in both directions.

Here alone `spec` knows `protocol`. It is not a simulator: there is no time and no chance, only
every possibility. Nothing here repeats a rule of the protocol; what it adds are the bounds of the
spec's models, and what the spec's environment may do.
"""
