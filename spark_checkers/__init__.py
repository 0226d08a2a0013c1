"""Decides from a recorded history whether the log was linearizable and lost nothing.

It owns one file per anomaly, each a function from a history to the rows that prove the anomaly, and
may import PySpark and the schema in `jepsen_style.history`, nothing else of the house. It is not
tied to hwmark's broker: any history in that schema will do.

It has no code yet.
"""
