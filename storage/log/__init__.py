"""One partition's log: segments on a disk, what is remembered about them, and how it survives.

`log` appends, reads and looks up; `cutting`, `flushing`, `recovery` and the cleaning modules are
jobs on it (`storage.disk.jobs`). File formats are Kafka's. It keeps what it is given: which offset
a batch gets, where a log is cut and what is committed is the protocol's to say.
"""
