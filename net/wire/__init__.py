"""Kafka's wire protocol: bytes to messages and back.

`apis` says which versions are spoken, `library` reads and writes any message by its schema, and
`produce` and `fetch` are written by hand because every record passes through them. Nothing here
waits, keeps a connection or knows what a message means; records stay opaque bytes.
"""
