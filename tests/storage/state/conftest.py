"""What the tests of remembered producers share: headers as a log would have them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storage.batch.header import CONTROL, TRANSACTIONAL, Header


@pytest.fixture(scope="session")
def header_of() -> Callable[..., Header]:
    def make(
        offset: int,
        count: int = 1,
        *,
        producer: int = -1,
        epoch: int = 0,
        sequence: int = 0,
        transactional: bool = False,
        control: bool = False,
        at_ms: int = 1_000,
    ) -> Header:
        attributes = TRANSACTIONAL * transactional | CONTROL * control
        return Header(
            base_offset=offset,
            length=100,
            leader_epoch=1,
            magic=2,
            crc=0,
            attributes=attributes,
            last_offset_delta=count - 1,
            first_timestamp_ms=at_ms,
            max_timestamp_ms=at_ms,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            record_count=count,
        )

    return make
