"""Envelope: a request that a broker passes on for a client is handled as if it had come directly.

The answer is wrapped. NOT_CONTROLLER is said outside, too, so that a broker need not look into an
answer to know that it has to try the next controller. A request that no client may send, or that
cannot be read, is refused in the envelope.
"""

from __future__ import annotations

from typing import Any

from net.controller.apis.exchange import Exchange, Handling, Table, run
from net.errors import MalformedRequest
from net.wire.apis import VERSIONS, Api, is_known
from net.wire.headers import RequestHeader, parse_request_header, response_header_bytes
from net.wire.library import Message, decode_request, encode_response
from protocol.errors import ErrorCode


def make_envelope(table: Table) -> Handling:
    """Return the API that handles what the table has."""

    def envelope(exchange: Exchange) -> None:
        data: bytes = exchange.message["request_data"]
        try:
            header = parse_request_header(data)
            code = _objection(table, header)
            if code != ErrorCode.NONE:
                exchange.respond(refused(exchange.message, code))
                return
            message = decode_request(header.api_key, header.version, memoryview(data)[header.end :])
        except MalformedRequest:
            exchange.respond(refused(exchange.message, ErrorCode.INVALID_REQUEST))
            return
        _handle(table[Api(header.api_key)], exchange, header, message)

    return Handling(envelope, lambda message, failure: refused(message, failure.code))


def _objection(table: Table, header: RequestHeader) -> int:
    if not is_known(header.api_key):
        return ErrorCode.INVALID_REQUEST
    handling = table.get(Api(header.api_key))
    if handling is None or not handling.forwarded:
        return ErrorCode.INVALID_REQUEST
    served = VERSIONS[Api(header.api_key)].serves(header.version)
    return ErrorCode.NONE if served else ErrorCode.UNSUPPORTED_VERSION


def _handle(
    handling: Handling, exchange: Exchange, header: RequestHeader, message: Message
) -> None:
    api = Api(header.api_key)

    def respond(answer: Message) -> None:
        if _says_not_controller(answer):
            exchange.respond(refused(exchange.message, ErrorCode.NOT_CONTROLLER))
            return
        head = response_header_bytes(api, header.version, header.correlation_id)
        body = encode_response(api, header.version, answer)
        exchange.respond({"response_data": head + body, "error_code": int(ErrorCode.NONE)})

    inner = Exchange(exchange.node, api, header.version, header.correlation_id, message, respond)
    run(handling, inner)


def _says_not_controller(value: Any) -> bool:
    if isinstance(value, dict):
        found = value.get("error_code") == ErrorCode.NOT_CONTROLLER
        return found or any(_says_not_controller(each) for each in value.values())
    return isinstance(value, list) and any(_says_not_controller(each) for each in value)


def refused(message: Message, code: int) -> Message:
    """Refuse what is inside."""
    del message
    return {"response_data": None, "error_code": int(code)}
