"""Scanning a file of batches: everything good is visited, and the first fault is named."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.batch.header import CRC_FROM, Header
from storage.disk.simulated import SimulatedDisk
from storage.log import scan as scanning
from storage.log.scan import Fault, scan
from storage.testing.bench import Bench


def batches(sizes: list[int]) -> list[bytes]:
    bench = Bench()
    made = [bench.batch(offset=n, value_bytes=size) for n, size in enumerate(sizes)]
    return [bytes(each.view) for each in made]


def scanned(content: bytes, offset: int = 0, epoch: int = 0) -> tuple[list[int], Fault | None]:
    disk = SimulatedDisk(1)
    disk.create("file")
    disk.write("file", (content,), 0)
    found: list[int] = []

    def visit(position: int, header: Header, view: memoryview) -> None:
        assert len(view) <= header.size_bytes
        assert bytes(view[:8]) == content[position : position + 8]
        found.append(position)

    return found, scan(disk, "file", 0, len(content), offset, epoch, visit)


@pytest.mark.parametrize("buffer_bytes", [200, 1000, 1 << 20])
def test_every_batch_is_visited_whatever_the_buffer(
    buffer_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "_BUFFER_BYTES", buffer_bytes)
    made = batches([0, 50, 900, 10, 3000, 5])
    found, fault = scanned(b"".join(made))
    assert fault is None
    assert found == [sum(map(len, made[:number])) for number in range(len(made))]


@given(st.integers(0, 5), st.integers(0, 200), st.integers(0, 7))
def test_a_flipped_bit_ends_the_scan_at_its_batch(number: int, place: int, bit: int) -> None:
    made = batches([20, 40, 60, 80, 100, 120])
    start = sum(map(len, made[:number]))
    at = CRC_FROM + place % (len(made[number]) - CRC_FROM)
    content = bytearray(b"".join(made))
    content[start + at] ^= 1 << bit
    found, fault = scanned(bytes(content))
    assert fault is not None
    assert (fault.position, fault.offset) == (start, number)
    assert len(found) == number


def test_a_flipped_bit_is_found_in_a_batch_that_is_longer_than_the_buffer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scanning, "_BUFFER_BYTES", 200)
    made = batches([20, 1000, 20])
    for place in (CRC_FROM, 250, 600, len(made[1]) - 1):
        content = bytearray(b"".join(made))
        content[len(made[0]) + place] ^= 1
        found, fault = scanned(bytes(content))
        assert found == [0]
        assert fault == Fault(len(made[0]), 1, "the checksum does not fit the bytes")


@given(st.integers(0, 700))
def test_a_file_that_is_cut_ends_with_its_last_whole_batch(left: int) -> None:
    made = batches([20, 40, 60, 80])
    content = b"".join(made)[:left]
    ends = [sum(map(len, made[: number + 1])) for number in range(len(made))]
    whole = sum(end <= len(content) for end in ends)
    found, fault = scanned(content)
    assert len(found) == whole
    assert (fault is None) == (len(content) in (0, *ends))


@given(st.binary(max_size=300))
def test_no_bytes_are_too_strange(content: bytes) -> None:
    found, fault = scanned(content)
    assert found == [] or fault is None
    assert (fault is None) == (content == b"" or bool(found))


def test_a_length_that_claims_too_much_reads_no_more_than_is_there() -> None:
    (made,) = batches([20])
    huge = made[:8] + struct.pack(">i", 2**31 - 1) + made[12:]
    found, fault = scanned(huge)
    assert found == []
    assert fault is not None
    assert "of which" in fault.reason


def test_offsets_and_epochs_do_not_go_back() -> None:
    content = b"".join(batches([20]))
    _, fault = scanned(content, offset=1)
    assert fault is not None
    assert "offset 0, where 1 was to come" in fault.reason
    _, fault = scanned(content, epoch=2)
    assert fault is not None
    assert "epoch 1 after one of epoch 2" in fault.reason


def test_a_batch_that_reaches_into_the_next_segment_ends_the_scan() -> None:
    one, two = batches([20, 20])
    disk = SimulatedDisk(1)
    disk.create("file")
    disk.write("file", (one, two), 0)
    found: list[int] = []

    def visit(_position: int, header: Header, _view: memoryview) -> None:
        found.append(header.base_offset)

    fault = scan(disk, "file", 0, len(one + two), 0, 0, visit, limit=1)
    assert found == [0]
    assert fault == Fault(len(one), 1, "a batch reaches beyond 1: to 2")


def test_a_hole_of_zeros_ends_the_scan() -> None:
    one, two = batches([20, 20])
    found, fault = scanned(one + bytes(512) + two)
    assert found == [0]
    assert fault is not None
    assert fault.position == len(one)
