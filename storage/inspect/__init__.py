"""What a stopped broker has left: shown, judged and, where it is damaged, cut.

`read_only` opens files so that nothing can change, `place` finds the partitions, `dump` shows what
files say, `verify` compares them with each other, and `repair` is the only one that writes. They
use the formats of `storage.log` and never an open log: whatever opens a log also mends it.
"""
