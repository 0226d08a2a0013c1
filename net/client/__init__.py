"""Our own client: a producer, a consumer of partitions and an admin client, for any Kafka.

It finds out what the brokers speak and uses the newest version that both know. It knows nothing of
our own broker, so it can be used against others, and others against ours.
"""

from net.client.admin import Admin
from net.client.consumer import Consumer
from net.client.consuming.fetched import ConsumerRecord
from net.client.errors import (
    BufferExhausted,
    ClientError,
    ClientTimedOut,
    DeliveryFailed,
    KafkaError,
    LogTruncated,
    NoOffset,
    RecordTooLarge,
    UnsupportedApi,
)
from net.client.partitioners import Partitioner, RoundRobinPartitioner, StickyPartitioner
from net.client.producer import Producer
from net.client.producing.batches import Delivery, RecordMetadata

__all__ = [
    "Admin",
    "BufferExhausted",
    "ClientError",
    "ClientTimedOut",
    "Consumer",
    "ConsumerRecord",
    "Delivery",
    "DeliveryFailed",
    "KafkaError",
    "LogTruncated",
    "NoOffset",
    "Partitioner",
    "Producer",
    "RecordMetadata",
    "RecordTooLarge",
    "RoundRobinPartitioner",
    "StickyPartitioner",
    "UnsupportedApi",
]
