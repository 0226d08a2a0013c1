"""The parts of a producer: batches, memory, writers to partitions, and the sender of requests."""
