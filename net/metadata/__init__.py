"""The cluster's metadata: its records as bytes, its log, the quorum's driver, and the image.

A node is a voter or an observer of the quorum; both are a `QuorumNode`. It carries out what
`protocol.quorum` asks for, on a `MetadataLog` and through `QuorumPeers`, and tells listeners what
is committed. What the records mean is decided by `protocol.controller`, and what a change means for
a broker is the broker's business.
"""
