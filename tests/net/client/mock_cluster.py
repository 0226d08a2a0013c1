"""librdkafka's in-memory cluster, by its C interface: brokers that strangers wrote.

It has real sockets, leaders that can be moved, brokers that go down, and errors on demand. It does
not look at sequence numbers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka

_PRODUCER = 0
_STRICT_VERSIONS = {0: 8, 2: 5, 3: 8, 22: 1}
"""Above these the mock's answers have a byte too many, which librdkafka does not look at."""


def _library() -> ctypes.CDLL:
    package = Path(confluent_kafka.__file__).parent
    (path,) = package.parent.glob("confluent_kafka.libs/librdkafka-*.so*")
    library = ctypes.CDLL(str(path))
    library.rd_kafka_new.restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_new.restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_new.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return library


class MockCluster:
    """A cluster of `brokers` brokers, numbered from 1."""

    def __init__(self, brokers: int) -> None:
        self._library = _library()
        error = ctypes.create_string_buffer(512)
        handle = self._library.rd_kafka_new(_PRODUCER, None, error, len(error))
        if handle is None:
            raise RuntimeError(error.value.decode())
        self._handle = ctypes.c_void_p(handle)
        cluster = self._library.rd_kafka_mock_cluster_new(self._handle, brokers)
        self._cluster = ctypes.c_void_p(cluster)
        found: bytes = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster)
        self.bootstrap = found.decode()
        for api, newest in _STRICT_VERSIONS.items():
            self.limit_version(api, newest)

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, f"rd_kafka_mock_{name}")(self._cluster, *arguments)
        if code:
            raise RuntimeError(f"{name}{arguments}: {code}")

    def limit_version(self, api: int, newest: int, oldest: int = 0) -> None:
        """Serve an API in these versions."""
        self._call("set_apiversion", *(ctypes.c_int16(each) for each in (api, oldest, newest)))

    def create_topic(self, name: str, partitions: int, replicas: int = 1) -> None:
        """Create a topic."""
        self._call("topic_create", name.encode(), partitions, replicas)

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        self._call("topic_delete", name.encode())

    def set_leader(self, topic: str, partition: int, broker: int) -> None:
        """Move the leadership, -1 for nobody."""
        self._call("partition_set_leader", topic.encode(), partition, broker)

    def set_follower(self, topic: str, partition: int, broker: int) -> None:
        """Name the replica that consumers of a rack shall read from."""
        self._call("partition_set_follower", topic.encode(), partition, broker)

    def set_down(self, broker: int) -> None:
        """Let a broker refuse connections."""
        self._call("broker_set_down", broker)

    def set_up(self, broker: int) -> None:
        """Let it accept them again."""
        self._call("broker_set_up", broker)

    def push_errors(self, api: int, errors: Sequence[int]) -> None:
        """Answer the next requests of an API with these errors."""
        codes = (ctypes.c_int * len(errors))(*errors)
        # It returns nothing, so there is nothing to check.
        function = self._library.rd_kafka_mock_push_request_errors_array
        function.restype = None
        function(self._cluster, ctypes.c_int16(api), ctypes.c_size_t(len(errors)), codes)

    def close(self) -> None:
        """End it."""
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._handle)


@contextmanager
def mock_cluster(brokers: int = 3) -> Iterator[MockCluster]:
    """Give a cluster, and end it."""
    cluster = MockCluster(brokers)
    try:
        yield cluster
    finally:
        cluster.close()
