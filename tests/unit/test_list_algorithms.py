"""Which algorithm a list is of: by its file's name, and by what its files turn out to be."""

from __future__ import annotations

import hashlib

import pytest

from integrity.hashing.algorithms import BLAKE2B, BLAKE2S, SHA3_256, SHA3_512, SHA256, SHA512, UNNAMED, XXH3, XXH64
from integrity.hashing.stored_digests import BLAKE3, MD5, XXH128, Algorithm
from integrity.lists.unnamed import ListAlgorithms, find_by_filename


@pytest.mark.parametrize(
    ("name", "length", "expected"),
    [
        (b"/x/B2SUMS", 64, BLAKE2B),
        (b"b2sums.txt", 64, BLAKE2B),
        (b"a.iso.b2", 64, BLAKE2B),
        (b"a.blake2b", 64, BLAKE2B),
        (b"a.blake2s", 32, BLAKE2S),
        (b"a.b3", 32, BLAKE3),
        (b"b3sum", 32, BLAKE3),
        (b"SHA3-256SUMS", 32, SHA3_256),
        (b"sha3_512sums.txt", 64, SHA3_512),
        (b"SHASUMS256.txt", 32, SHA256),
        (b"photos-sha256.list", 32, SHA256),
        (b"CHECKSUM.SHA512", 64, SHA512),
        (b"md5sum.txt", 16, MD5),
        (b"photos.xxh128", 16, XXH128),
        (b"photos.xxh3", 8, XXH3),
    ],
)
def test_file_name_states_the_algorithm(name: bytes, length: int, expected: Algorithm) -> None:
    """Names that people and programs use."""
    assert expected is ListAlgorithms(name).find(length)


@pytest.mark.parametrize("name", [b"", b"b2-backup.txt", b"checksums.txt", b"photos.list", b"shark.txt", b"manifest"])
def test_other_file_names_state_nothing(name: bytes) -> None:
    """B2 is also a store."""
    assert frozenset() == find_by_filename(name)


def test_name_narrows_only_its_own_length() -> None:
    """``sha256`` says nothing about digests of 128 digits."""
    assert UNNAMED[64] is ListAlgorithms(b"a.sha256").find(64)


def test_match_settles_the_length() -> None:
    """From then on there is one candidate, and it is said once if it is not the usual one."""
    algorithms = ListAlgorithms()
    algorithms.take({UNNAMED[64]: b"x"}, {SHA512: b"y", BLAKE2B: b"x"})

    assert (BLAKE2B,) == algorithms.expand((UNNAMED[64],))
    assert BLAKE2B is algorithms.find(64)
    assert {BLAKE2B: b"x"} == algorithms.name_all({UNNAMED[64]: b"x"})
    assert ["its digests of 128 digits are BLAKE2b"] == list(algorithms.describe())


def test_few_files_without_a_match_are_wrong() -> None:
    """A list of one line that fails has failed, by the usual algorithm."""
    algorithms = ListAlgorithms()
    for _ in range(19):
        algorithms.take({UNNAMED[16]: b"x"}, dict.fromkeys(algorithms.expand((UNNAMED[16],)), b"y"))
    algorithms.conclude()

    assert ({MD5: b"x"}, []) == (algorithms.name_all({UNNAMED[16]: b"x"}), list(algorithms.describe_unknown()))


def test_many_files_without_a_match_are_of_another_algorithm() -> None:
    """Nothing is said of any file, and what the list states under a name stays."""
    algorithms = ListAlgorithms()
    for _ in range(20):
        algorithms.take({UNNAMED[16]: b"x"}, dict.fromkeys(algorithms.expand((UNNAMED[16],)), b"y"))
    algorithms.conclude()

    assert {SHA256: b"z"} == algorithms.name_all({UNNAMED[16]: b"x", SHA256: b"z"})
    assert 1 == len(list(algorithms.describe_unknown()))


def test_what_lacks_a_candidate_proves_no_difference() -> None:
    """A record has MD5 and XXH3, which can show a match, but not that there is none."""
    algorithms = ListAlgorithms()
    for _ in range(30):
        algorithms.take({UNNAMED[32]: b"x"}, {BLAKE3: b"y"})
    algorithms.conclude()

    assert {SHA256: b"x"} == algorithms.name_all({UNNAMED[32]: b"x"})


def test_usual_one_of_16_digits_is_xxh64() -> None:
    """The prefix by which xxhsum marks XXH3 is missing."""
    assert XXH64 is ListAlgorithms().find_usual(8)


def test_sample_is_spread_over_the_list() -> None:
    """Of each length, whatever the order of the lines; of an endless list no more than 200."""
    algorithms = ListAlgorithms()
    lines = [(number, UNNAMED[16 if number % 2 else 32]) for number in range(100_000)]
    found = algorithms.sample(lines, lambda line: (line[1],))

    assert {UNNAMED[16], UNNAMED[32]} == {one for _, one in found}
    assert 100 < len([number for number, one in found if one is UNNAMED[16]]) <= 200
    assert max(number for number, _ in found) > 90_000


def test_stated_algorithms_are_not_sampled() -> None:
    """Then no file need be read for it."""
    assert [] == ListAlgorithms(b"B2SUMS").sample([1], lambda _: (ListAlgorithms(b"B2SUMS").find(64) or MD5,))


def test_blake2b_of_other_lengths_is_no_prefix() -> None:
    """``b2sum -l 256`` computes another digest."""
    short = ListAlgorithms(b"B2SUMS").find(32)

    assert short is not None
    hasher = short.find_constructor()()
    assert hashlib.blake2b(b"", digest_size=32).digest() == hasher.digest()
