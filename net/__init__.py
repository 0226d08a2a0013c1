"""Brokers, controllers and clients that speak Kafka's wire protocol on Trio.

It owns the wire codec, security, quotas, metrics and the `Network` seam, and may import `protocol`,
`storage` and Trio. It is not where protocol choices are made: bytes become events, effects become
bytes.

It has no code yet.
"""
