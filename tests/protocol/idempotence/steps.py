"""What may happen to the world, by name: the usual, and the faults."""

from __future__ import annotations

from tests.protocol.idempotence.world import World


def take(world: World, name: str, producer: int, number: int) -> None:
    """Take the step of this name, of this producer, with this choice where there is one."""
    match name:
        case "send":
            world.send(producer, 1 + number * 2**23)
        case "send one":
            world.send(producer, 1 + number % 3)
        case "near round":
            world.near_round(producer, number)
        case "arrive" | "hear" | "change_leader":
            getattr(world, name)(number)
        case "lost" | "late":
            world.time_out(producer, number, late=name == "late")
        case "give_up" | "expire":
            getattr(world, name)(producer)
        case "quiet day":
            world.heal()
            world.expire(producer)
        case _:
            getattr(world, name)()


USUAL = (
    *("send", "send one", "send one", "send one", "arrive", "arrive", "arrive"),
    *("written", "written", "commit", "commit", "hear", "hear", "hear"),
)
FAULTS = (
    *("near round", "lost", "late", "give_up", "no_room", "refuse_last"),
    *("change_leader", "restart", "take_snapshot", "expire", "quiet day"),
)
