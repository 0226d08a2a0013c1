"""The command line, `hwmark`, and nothing else.

It turns arguments into calls of the other rooms and their answers into tables and exit statuses. It
may import all of them; none of them imports it.
"""
