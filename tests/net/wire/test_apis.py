"""What is advertised is served, is known to kio, and is what real clients look for."""

import subprocess
import sys
from pathlib import Path

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map

from net.wire.apis import VERSIONS, Api, Scope, advertised, is_flexible, is_known, served_on
from tests.net.wire import oracle

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "api_table.py"

# What clients sent when everything was on offer: librdkafka 2.16, kafka-python 3.0, aiokafka 0.14,
# kafkajs 2.2, librdkafka 2.0. A client takes the highest version that both sides have.
SEEN = {
    Api.PRODUCE: (10, 9, 7, 7, 7),
    Api.FETCH: (16, 12, 11, 11, 11),
    Api.LIST_OFFSETS: (7, 11, 3, 3, 2),
    Api.METADATA: (13, 13, 5, 6, 4),
    Api.API_VERSIONS: (3, 4, 0, 2, 3),
    Api.CREATE_TOPICS: (4, 7, 3, 3),
    Api.DELETE_TOPICS: (4, 6, 3, 1),
    Api.DELETE_RECORDS: (2, 2, 2, 1),
    Api.CREATE_PARTITIONS: (2, 3, 1, 1),
    Api.INIT_PRODUCER_ID: (4, 4, 0, 1),
    Api.OFFSET_FOR_LEADER_EPOCH: (2,),
    Api.DESCRIBE_CONFIGS: (1, 4, 2, 2),
    Api.ALTER_CONFIGS: (2,),
    Api.INCREMENTAL_ALTER_CONFIGS: (1,),
    Api.DESCRIBE_CLUSTER: (2,),
    Api.DESCRIBE_PRODUCERS: (0,),
}
# Older librdkafka tests whether these exact versions lie in the range, and does without otherwise.
EXACT = {
    Api.PRODUCE: (3, 7),
    Api.FETCH: (4, 10),
    Api.LIST_OFFSETS: (1,),
    Api.INIT_PRODUCER_ID: (0,),
}


def test_every_advertised_version_is_served_except_the_oldest_of_produce() -> None:
    unserved = {
        (scope, api, version)
        for scope in (Scope.BROKER, Scope.CONTROLLER)
        for api, served in advertised(scope).items()
        for version in range(served.min, served.max + 1)
        if not served.serves(version)
    }
    # KAFKA-18659.
    assert unserved == {(Scope.BROKER, Api.PRODUCE, version) for version in (0, 1, 2)}


def test_only_brokers_get_more_than_is_advertised() -> None:
    more = {
        (scope, api, version)
        for scope in (Scope.BROKER, Scope.CONTROLLER)
        for api, served in advertised(scope).items()
        for version in range(served.serves_from, served.serves_to + 1)
        if not served.min <= version <= served.max
    }
    assert more == {(Scope.BROKER, Api.FETCH, 17)}


def test_kio_has_every_version_and_agrees_which_are_flexible() -> None:
    for api, version, is_request in oracle.every_message():
        load = load_request_schema if is_request else load_response_schema
        assert load(api, version).__flexible__ == is_flexible(api, version)


def test_which_versions_are_flexible_is_known_of_versions_that_are_not_spoken() -> None:
    # A header must be read before its version can be refused.
    for api in Api:
        for version in schema_name_map[api_key_map[api]]:
            expected = load_request_schema(api, version).__header_schema__.__flexible__
            assert is_flexible(api, version) == expected


def test_names_and_keys_are_kafkas() -> None:
    assert {int(api): api.name.lower() for api in Api} == {
        int(api): api_key_map[api] for api in Api
    }
    assert set(VERSIONS) == set(Api)
    assert all(is_known(api) for api in Api)
    assert not is_known(71)
    with pytest.raises(KeyError):
        is_flexible(71, 0)


def test_real_clients_find_a_version_that_they_can_speak() -> None:
    for api, highest in SEEN.items():
        served = served_on(Scope.BROKER, api)
        assert served is not None
        for version in highest:
            assert served.serves(min(version, served.max))


def test_versions_that_old_clients_look_for_are_in_the_range() -> None:
    for api, versions in EXACT.items():
        served = served_on(Scope.BROKER, api)
        assert served is not None
        assert all(served.min <= version <= served.max for version in versions)
    assert VERSIONS[Api.PRODUCE].min == 0


def test_listeners_serve_what_is_theirs() -> None:
    quorum = {Api.VOTE, Api.BEGIN_QUORUM_EPOCH, Api.END_QUORUM_EPOCH, Api.FETCH_SNAPSHOT}
    assert not quorum & set(advertised(Scope.BROKER))
    assert quorum <= set(advertised(Scope.CONTROLLER))
    assert served_on(Scope.CONTROLLER, Api.PRODUCE) is None
    assert served_on(Scope.BROKER, 4711) is None
    fetch = served_on(Scope.CONTROLLER, Api.FETCH)
    assert fetch is not None
    assert (fetch.min, fetch.max) == (12, 17)


def check(root: Path) -> subprocess.CompletedProcess[str]:
    """Compare the table with the code."""
    command = [sys.executable, str(SCRIPT), "--root", str(root), "--check"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_table_in_the_docs_is_current() -> None:
    assert check(ROOT).returncode == 0


def test_an_old_table_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "tables" / "apis.md"
    assert check(tmp_path).returncode == 1
    page.parent.mkdir(parents=True)
    current = ROOT.joinpath("docs/tables/apis.md").read_text(encoding="utf-8")
    page.write_text(current.replace("0-11", "0-12"), encoding="utf-8")
    done = check(tmp_path)
    assert done.returncode == 1
    assert "out of date" in done.stderr
