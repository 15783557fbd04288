"""Seals tell any change of what a verdict rests on."""

from __future__ import annotations

import pytest

from integrity.catalog.seal import Sealer, xor_seals
from integrity.model import Digests, Witness

TOKEN = bytes(range(16))
PATH = b"2019/img_1.jpg"
WITNESS = Witness(1000, 1_600_000_000_123_456_789, 1_700_000_000_123_456_789, 4711)
DIGESTS = Digests(b"m" * 16, b"x" * 16, b"b" * 32)
WITH_CRC = DIGESTS._replace(crc64nvme=b"c" * 8)


def seal(
    token: bytes = TOKEN,
    path: bytes = PATH,
    witness: Witness = WITNESS,
    digests: Digests = DIGESTS,
    block_size_bytes: int | None = 1 << 20,
    version: int = 1,
    key: bytes | None = None,
) -> bytes:
    return Sealer(key).seal_file(token, path, witness, digests, block_size_bytes, version)


def test_same_fields_give_the_same_seal_of_sixteen_bytes() -> None:
    """A seal depends on nothing but its fields."""
    assert len(seal()) == 16
    assert seal() == seal()


@pytest.mark.parametrize(
    "other",
    [
        seal(token=bytes(16)),
        seal(path=b"2019/img_2.jpg"),
        seal(witness=WITNESS._replace(is_racy=True)),
        seal(digests=DIGESTS._replace(md5=None)),
        seal(digests=DIGESTS._replace(xxh3_128=None)),
        seal(digests=DIGESTS._replace(blake3=None)),
        seal(digests=WITH_CRC),
        seal(digests=WITH_CRC._replace(crc64nvme=bytes(8))),
        seal(digests=DIGESTS._replace(md5=DIGESTS.xxh3_128, xxh3_128=DIGESTS.md5)),
        seal(block_size_bytes=None),
        seal(block_size_bytes=0),
        seal(key=b"secret"),
        Sealer().seal_run(1, 1, 0, 1, b"m" * 16, b"x" * 16),
    ],
)
def test_each_field_is_sealed(other: bytes) -> None:
    """A change of any one field changes the seal; of single bits: ``contract/test_catalog_damage.py``."""
    assert seal() != other


def test_bytes_cannot_wander_between_path_and_digests() -> None:
    """Fields are length-prefixed: the same bytes cut elsewhere have another seal."""
    one = seal(path=b"a" + b"m" * 16, digests=Digests(b"x" * 16))
    other = seal(path=b"a", digests=Digests(b"m" * 16, b"x" * 16))

    assert one != other


def test_rows_without_a_crc_have_the_seals_that_they_always_had() -> None:
    """Catalogs of versions that knew no CRC stay right, and what they computed is written here."""
    run = 1, 1, 0, 2, b"m" * 32, b"x" * 32

    assert seal().hex() == "27b1a2b027868df6218a6d4e1c685f0a"
    assert seal(digests=Digests(b"m" * 16), block_size_bytes=None).hex() == "c8e9cf9d32c3003aa6fe8d36d55cbc71"
    assert seal(key=b"secret").hex() == "cab0129d52aa172a8f27469dacdab3e3"
    assert Sealer().seal_run(*run).hex() == "e648c5256a2b7eae2436478ceed087f3"
    assert Sealer().seal_run(*run, b"").hex() == "e648c5256a2b7eae2436478ceed087f3"
    assert Sealer(b"secret").seal_run(*run).hex() == "7cc0d118f402d5c68679733ebab2aea9"


def test_crc_cannot_pass_for_the_end_of_another_digest() -> None:
    """The same bytes are sealed otherwise where the header counts them to the digest before."""
    long_blake3 = DIGESTS._replace(blake3=b"b" * 32 + b"c" * 8)

    assert seal(digests=WITH_CRC) != seal(digests=long_blake3)
    assert seal(digests=Digests(crc64nvme=b"c" * 8)) != seal(digests=Digests(md5=b"c" * 8))


def test_runs_are_sealed_with_their_place() -> None:
    """Digests of blocks cannot pass for those of another file, version, place or count."""
    sealer = Sealer()
    right = sealer.seal_run(1, 1, 0, 2, b"m" * 32, b"x" * 32)
    others = {
        sealer.seal_run(2, 1, 0, 2, b"m" * 32, b"x" * 32),
        sealer.seal_run(1, 2, 0, 2, b"m" * 32, b"x" * 32),
        sealer.seal_run(1, 1, 1, 2, b"m" * 32, b"x" * 32),
        sealer.seal_run(1, 1, 0, 3, b"m" * 32, b"x" * 32),
        sealer.seal_run(1, 1, 0, 2, b"x" * 32, b"m" * 32),
        sealer.seal_run(1, 1, 0, 2, b"", b"m" * 32 + b"x" * 32),
        sealer.seal_run(1, 1, 0, 2, b"m" * 32, b"x" * 32, b"c" * 16),
        sealer.seal_run(1, 1, 0, 2, b"m" * 32, b"x" * 32, bytes(16)),
        sealer.seal_run(1, 1, 0, 2, b"m" * 32, b"x" * 32 + b"c" * 16),
    }

    assert len(others) == 9
    assert right not in others


def test_key_check_tells_keys_apart_without_showing_them() -> None:
    """Each key has a check of its own, and none contains the key."""
    checks = {Sealer(key).key_check for key in (None, b"one", b"two")}

    assert len(checks) == 3
    assert all(b"one".hex() not in check for check in checks)


def test_xor_takes_back_what_it_took_in() -> None:
    """The running XOR does not depend on the order, and a seal taken twice is out again."""
    seals = [seal(version=version) for version in range(5)]
    total = xor_seals(bytes(16), seals)

    assert total == xor_seals(bytes(16), reversed(seals))
    assert bytes(16) == xor_seals(total, seals)
