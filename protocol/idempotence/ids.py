"""The producer ids that a broker has to give away: blocks of them, from the controller.

A value, not a machine: whoever keeps it takes ids out, asks the controller when it `wants_block`,
and puts the answer in. It asks for the next block before the present one is used up, so that a
producer rarely has to wait. Nothing is kept over a restart: what was left is lost, never given
twice.
"""

from __future__ import annotations

from typing import Final

import attrs

from protocol.idempotence.fold import ProducerId

_ASK_AT: Final = 10
"""The next block is asked for when one in so many ids is left."""


@attrs.frozen
class ProducerIdPool:
    """Ids from `next_id` up to `end_id`, and the block after them if it is there already."""

    next_id: ProducerId = 0
    end_id: ProducerId = 0
    block: int = 0
    """How large the present block was."""
    following: tuple[ProducerId, int] | None = None
    asked: bool = False

    @property
    def wants_block(self) -> bool:
        """Whether it is time to ask the controller for a block."""
        if self.asked or self.following is not None:
            return False
        return (self.end_id - self.next_id) * _ASK_AT <= self.block

    def asking(self) -> ProducerIdPool:
        """Note that the controller was asked."""
        return attrs.evolve(self, asked=True)

    def refused(self) -> ProducerIdPool:
        """Note that the controller gave nothing, or did not answer; it may be asked again."""
        return attrs.evolve(self, asked=False)

    def received(self, first: ProducerId, count: int) -> ProducerIdPool:
        """Put in a block. One that nobody asked for, or that came twice, is left alone: it is lost.

        An answer that was given up may come after all, and be the same as the one to another
        request only if the controller gave a block twice, which it does not.
        """
        if not self.asked or count < 1:
            return self
        return attrs.evolve(self, following=(first, count), asked=False)

    def take(self) -> tuple[ProducerIdPool, ProducerId | None]:
        """Take out an id; None if there is none until a block comes."""
        pool = self
        if pool.next_id == pool.end_id:
            if pool.following is None:
                return pool, None
            first, count = pool.following
            pool = ProducerIdPool(first, first + count, count, None, pool.asked)
        return attrs.evolve(pool, next_id=pool.next_id + 1), pool.next_id
