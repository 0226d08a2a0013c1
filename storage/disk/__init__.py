"""The `Disk` seam: the few operations on files that storage needs, and who provides them.

`seam` has the interface and `jobs` the way to do long work with it; `posix` does it on real files
in the calling thread, `trio_disk` hands what blocks to threads, and `simulated` is a disk in memory
that forgets, tears, rots, fills up and dawdles as its seed says. Everything above this package sees
paths, bytes and `OSError`, and no file descriptor except while it is pinned for sending.
"""
