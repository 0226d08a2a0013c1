"""Drives a cluster, breaks it, and writes down what its clients saw.

It owns clusters, workloads, nemeses, the simulator, the history, campaigns and reports. Clusters
and the simulator may import `net` and what stands below it; workloads only `net.client` and other
people's clients, so that they run against any Kafka; `jepsen_style.history` imports no other room,
because Spark's users need it alone. It is not a judge: verdicts come from `spark_checkers` and from
TLC.

It has no code yet.
"""
