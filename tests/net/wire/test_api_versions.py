"""The first answer on a connection tells each listener's APIs, in every version (KIP-511)."""

import pytest

from net.wire.api_versions import api_versions_body, encode_api_versions
from net.wire.apis import Api, Scope, advertised
from tests.net.wire import oracle

SCOPES = [Scope.BROKER, Scope.CONTROLLER]


def told(version: int, body: bytes) -> oracle.Message:
    """Read an answer with kio."""
    return oracle.read(oracle.entity_of(Api.API_VERSIONS, version, False), body)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("version", range(5))
def test_every_version_tells_what_the_listener_serves(version: int, scope: Scope) -> None:
    message = told(version, api_versions_body(version, scope))
    assert message["error_code"] == 0
    assert message["api_keys"] == [
        {"api_key": key, "min_version": each.min, "max_version": each.max}
        for key, each in advertised(scope).items()
    ]
    assert message.get("throttle_time", 0) == 0
    assert message.get("supported_features", []) == []
    assert message.get("finalized_features", []) == []
    assert message.get("finalized_features_epoch", -1) == -1


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_an_unknown_version_is_answered_in_version_0_with_the_versions_of_this_api(
    version: int, scope: Scope
) -> None:
    message = told(0, api_versions_body(version, scope))
    own = {"api_key": 18, "min_version": 0, "max_version": 4}
    assert message == {"error_code": 35, "api_keys": [own]}


def test_the_two_listeners_tell_different_things() -> None:
    assert api_versions_body(3, Scope.BROKER) != api_versions_body(3, Scope.CONTROLLER)


@pytest.mark.parametrize("version", [0, 4, 99])
def test_the_whole_answer_has_a_header_without_tags(version: int) -> None:
    whole = encode_api_versions(version, Scope.BROKER, 7)
    assert whole == b"\x00\x00\x00\x07" + api_versions_body(version, Scope.BROKER)


def test_the_bytes_are_made_once() -> None:
    assert api_versions_body(3, Scope.BROKER) is api_versions_body(3, Scope.BROKER)
    assert api_versions_body(98, Scope.BROKER) is api_versions_body(99, Scope.BROKER)
