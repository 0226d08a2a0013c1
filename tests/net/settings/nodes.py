"""Properties of a node that starts, to be changed by a test."""

from net.settings import BrokerSettings

COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9094,3@127.0.0.1:9095",
    "log.dirs": "data",
}
BROKER_ONLY = COMBINED | {
    "process.roles": "broker",
    "node.id": "4",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
}


def node(base: dict[str, str] = COMBINED, **changes: str | None) -> BrokerSettings:
    """Read settings with some changed: `num_partitions="3"`; None removes one."""
    given = dict(base)
    for field, text in changes.items():
        name = field.replace("_", ".")
        given.pop(name, None)
        if text is not None:
            given[name] = text
    return BrokerSettings.from_mapping(given)
