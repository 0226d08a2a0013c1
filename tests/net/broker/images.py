"""Images of the metadata, written as the records that lead to them."""

from __future__ import annotations

from uuid import UUID

from immutables import Map

from net.metadata.image import image_of
from protocol.controller.records import BrokerRecord, PartitionRecord, Record, TopicRecord
from protocol.controller.state import Image, Partition, Registration, TopicConfig


def broker(node: int, epoch: int = 10, *, fenced: bool = False) -> BrokerRecord:
    places = (("PLAINTEXT", f"host{node}", 9000 + node, 0),)
    return BrokerRecord(Registration(node, epoch, f"i{node}", fenced=fenced, endpoints=places))


def topic(
    *replicas: tuple[int, ...],
    name: str = "t",
    number: int = 7,
    epoch: int = 1,
    min_isr: int = 1,
    **settings: str,
) -> list[Record]:
    """A topic whose partitions are led by their first replicas."""
    said = Map({key.replace("_", "."): value for key, value in settings.items()})
    config = TopicConfig(min_isr, other=said)
    records: list[Record] = [TopicRecord(name, str(UUID(int=number)), config)]
    for index, nodes in enumerate(replicas):
        partition = Partition(
            name,
            index,
            nodes,
            frozenset(nodes),
            leader=nodes[0],
            leader_epoch=epoch,
            version=epoch,
        )
        records.append(PartitionRecord(partition))
    return records


def image(*records: Record) -> Image:
    """Brokers 1 and 2 and what these records say."""
    return image_of((broker(1), broker(2), *records))
