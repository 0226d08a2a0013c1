"""Brokers, controllers and clients that speak Kafka's wire protocol on Trio.

It owns the wire codec, security, quotas, metrics and the `Network` seam, and may import `protocol`,
`storage` and Trio. It is not where protocol choices are made: bytes become events, effects become
bytes.

`net.node` puts a broker, a controller or both together and runs them; `net.client` is a producer,
a consumer and an admin. Groups, transactions and security are not here yet.
"""
