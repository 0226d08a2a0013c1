"""What a broker keeps on disk, and how it survives a crash.

It owns record batches, segments, indexes, checkpoints, recovery, retention and compaction, and the
`Disk` seam that the simulator fills with a disk that lies; tiering is to come. It may import the
types of `protocol`; Trio is imported by `storage.disk`, the adapter to real files, alone. It is not
the protocol: it decides nothing about replication. `docs/storage.md` says what it promises.
"""
