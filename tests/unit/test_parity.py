"""How files are grouped into sets, and the packets of PAR2 files in any state."""

from __future__ import annotations

import io
import random
from hashlib import md5

import pytest

from integrity.catalog.parity import Candidate
from integrity.copies.parity.packets import condense, read_packets, read_set
from integrity.jobs.parity.grouping import MOST_BYTES, MOST_FILES, find_class, group_files, plan_set
from integrity.model import FileId
from integrity.units import parse_share, spell_share

SET_ID = bytes(range(16))


def make_candidates(*sizes: int) -> list[Candidate]:
    """Make files of these sizes."""
    return [Candidate(FileId(number), b"f%d" % number, size, 0, bytes(16)) for number, size in enumerate(sizes)]


def make_packet(kind: bytes, body: bytes) -> bytes:
    """Make an intact packet."""
    body += bytes(-len(body) % 4)
    covered = SET_ID + (b"PAR 2.0\0" + kind).ljust(16, b"\0") + body
    return b"PAR2\0PKT" + (32 + len(covered)).to_bytes(8, "little") + md5(covered).digest() + covered


def make_set(*names: bytes, slices: int = 3) -> list[bytes]:
    """Make the packets of a set."""
    ids = [md5(name).digest() for name in names]
    packets = [make_packet(b"Main", (1024).to_bytes(8, "little") + len(ids).to_bytes(4, "little") + b"".join(ids))]
    for one, name in zip(ids, names, strict=True):
        packets.append(make_packet(b"FileDesc", one + bytes(32) + (2000).to_bytes(8, "little") + name))
        packets.append(make_packet(b"IFSC", one + bytes(40)))
    return packets + [make_packet(b"RecvSlic", number.to_bytes(4, "little") + bytes(1024)) for number in range(slices)]


def test_no_group_is_beyond_its_limits() -> None:
    """Files of a group are of similar sizes, and neither too many nor too large together."""
    rng = random.Random(1)
    found = list(group_files(make_candidates(*(int(2 ** rng.uniform(1, 34)) for _ in range(5000)))))

    assert sum(map(len, found)) == 5000
    for group in found:
        assert len({find_class(one.size_bytes) for one in group}) == 1
        assert len(group) <= MOST_FILES
        assert len(group) == 1 or sum(one.size_bytes for one in group) <= MOST_BYTES


@pytest.mark.parametrize("size", [1, 1000, 20_000, 300_000, 5_000_000, 80_000_000, 1 << 30, 1 << 40])
@pytest.mark.parametrize("count", [1, 2, 17, 400])
def test_sets_keep_to_what_par2_can(size: int, count: int) -> None:
    """Slices are a multiple of 4 bytes, at most 32,768, and enough of them are made."""
    plan = plan_set(make_candidates(*[size] * count), 5)

    assert plan.slice_bytes % 4 == 0
    assert count <= plan.source_slices <= 2000
    assert plan.source_slices * 0.05 <= plan.recovery_slices <= plan.source_slices * 0.05 + 1.5


def test_packets_are_found_around_damage() -> None:
    """Whatever a flipped bit hits, all other packets are read, and the set is not intact."""
    packets = make_set(b"one", b"two")
    whole = b"".join(packets)
    assert read_set(io.BytesIO(whole)).is_intact
    for offset in range(0, len(whole), 7):
        data = bytearray(whole)
        data[offset] ^= 0x10
        assert len(list(read_packets(io.BytesIO(data)))) == len(packets) - 1
        assert not read_set(io.BytesIO(data)).is_intact


@pytest.mark.parametrize("length", [0, 10, 64, 200, 1000])
def test_cut_off_set_is_damaged(length: int) -> None:
    """No state of the file is an error."""
    whole = b"".join(make_set(b"one"))

    assert not read_set(io.BytesIO(whole[:length])).is_intact
    assert not read_set(io.BytesIO(whole[:length] + bytes(100))).is_intact


def test_lengths_that_lead_nowhere() -> None:
    """A length beyond the file, shorter than a header, or no multiple of 4 is damage."""
    packet = make_packet(b"Main", bytes(12))
    for length in (0, 63, 65, 1 << 62, (1 << 64) - 1):
        data = packet[:8] + length.to_bytes(8, "little") + packet[16:]
        assert list(read_packets(io.BytesIO(data * 3))) == []


def test_set_without_a_packet_of_a_file_covers_nothing() -> None:
    """All files of a set are needed to heal one."""
    packets = make_set(b"one", b"two")
    for missing in range(5):
        found = read_set(io.BytesIO(b"".join(packets[:missing] + packets[missing + 1 :])))
        assert found.files == ()


@pytest.mark.parametrize("most_twice", [0, 1 << 20])
def test_condensed_set_has_all_packets(most_twice: int) -> None:
    """What the volume repeats is left out; the index may stand twice."""
    packets = make_set(b"one", b"two", slices=4)
    shared, slices = packets[:5], packets[5:]
    volume = b"".join(packet for one in slices for packet in (*shared, one))
    target = io.BytesIO()

    condense(io.BytesIO(b"".join(shared)), io.BytesIO(volume), target, most_twice_bytes=most_twice)

    assert target.getvalue() == b"".join([*shared, *slices, *(shared if most_twice else [])])
    assert read_set(target).recovery_slices == 4


def test_shares() -> None:
    """A share has a percent sign, so that 0.05 is no 5 %."""
    assert [parse_share(text) for text in ("5%", "0.5 %", "100%")] == [5, 0.5, 100]
    assert [spell_share(share) for share in (5.0, 0.5)] == ["5%", "0.5%"]
    for text in ("5", "0.05", "101%", "-1%", "", "%"):
        with pytest.raises(ValueError, match="share"):
            parse_share(text)
