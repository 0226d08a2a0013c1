"""Record batches, version 2, byte for byte as Kafka's clients write them.

`header` is what a broker does with every batch: find it, check it, give it an offset, all in place.
`records`, `codecs`, `control` and `build` look inside or make new ones; only compaction, tools and
tests pay for that. Older formats (magic 0 and 1) are refused: no client of the last decade needs
them.
"""
