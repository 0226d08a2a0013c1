"""What follows from every step of the explored quorum: history, and what becomes of messages.

Mirrors `Become`, `Deliver` and `Disturb` of `spec/QuorumState.tla`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import attrs

from protocol.quorum import NOBODY, Candidate, Follower, Leader
from protocol.types import NodeId
from spec.conformance.quorum.node import Node
from spec.conformance.quorum.world import Message, Used, Vote, World

Nodes: TypeAlias = Mapping[NodeId, Node]
"""The nodes that a step changes, and what they are after it."""


def disturbed(world: World, voters: frozenset[NodeId], number: NodeId) -> World:
    """Mirrors `Disturb`: a node was disturbed; as soon as a majority was, all count as such."""
    some = world.disturbed | ({number} & voters)
    return attrs.evolve(world, disturbed=voters if 2 * len(some) > len(voters) else some)


def outcomes(
    world: World, nodes: Nodes, sent: frozenset[Message], used: Used, max_delays: int
) -> Iterator[World]:
    """Mirrors `Become` and `Deliver`: what nobody waits for any more is dropped, or comes late."""
    lost = {each for each in sent if each.to in nodes and not _wanted(world, nodes, each)}
    yield written(world, nodes, messages=sent - lost, used=used)
    late = {
        each
        for each in lost
        if not isinstance(each, Vote) and nodes[each.to].state.epoch > each.epoch
    }
    if late and used.delays < max_delays:
        used = attrs.evolve(used, delays=used.delays + 1)
        yield written(world, nodes, messages=(sent - lost) | late, used=used)


def _wanted(world: World, nodes: Nodes, message: Message) -> bool:
    """Mirrors `Wanted`: its receiver still waits for it; or it is late already."""
    state = nodes[message.to].state
    if isinstance(message, Vote):
        return isinstance(state.role, Candidate) and state.epoch == message.epoch
    if message.epoch < world.node(message.to).state.epoch:
        return True
    return isinstance(state.role, Follower) and state.epoch == message.epoch


def written(
    world: World,
    nodes: Nodes,
    *,
    messages: frozenset[Message] | None = None,
    used: Used | None = None,
) -> World:
    """Mirrors `Become`: the nodes are in their new states, and history is written."""
    after = tuple(nodes.get(number, node) for number, node in enumerate(world.nodes, 1))
    committed, elected, cast = world.committed, world.elected, world.cast
    for number, node in nodes.items():
        state = node.state
        if isinstance(state.role, Leader):
            elected |= {(state.epoch, number)}
            under = node.entries[: state.high_watermark]
            if committed[: len(under)] != under:
                committed = under
        if state.voted != NOBODY:
            cast |= {(number, state.epoch, state.voted)}
    cast = frozenset(vote for vote in cast if vote[1] >= after[vote[0] - 1].state.epoch)
    return World(
        after,
        world.messages if messages is None else messages,
        world.cut,
        world.used if used is None else used,
        committed,
        elected,
        cast,
        world.disturbed,
    )
