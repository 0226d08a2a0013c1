"""What a broker answers to clients, one file per family of APIs.

A handler takes a request and the broker, and sees to it that the request is answered.
"""
