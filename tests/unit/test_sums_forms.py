"""The forms of digests, one by one: what is written, and that it is read back."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrity.hashing.algorithms import ALGORITHMS, BY_NAME, CHOICES, CRC32, SHA1, SHA256, SHA512, UNNAMED, XXH3, XXH64
from integrity.hashing.stored_digests import BLAKE3, MD5, XXH128, Algorithm
from integrity.lists.entries import IGNORED, Piece
from integrity.lists.forms import (
    GnuReader,
    HashdeepReader,
    find_bagit_algorithm,
    read_bagit,
    read_bsd,
    read_json,
    read_sfv,
    write_bagit,
    write_bsd,
    write_gnu,
    write_hashdeep,
    write_hashdeep_header,
    write_json,
)
from integrity.lists.unnamed import ListAlgorithms

NAMES = st.binary(min_size=1, max_size=40).filter(lambda name: b"\0" not in name)
EMPTY = hashlib.md5(b"").digest()
EMPTY_HEX = EMPTY.hex().encode()

# Of three bytes, by md5sum, xxhsum, b3sum, sha1sum and their like.
OF_ABC = {
    MD5: "900150983cd24fb0d6963f7d28e17f72",
    XXH3: "78af5f94892f3950",
    XXH64: "44bc2cf5ad770999",
    XXH128: "06b05ab6733a618578af5f94892f3950",
    BLAKE3: "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
    SHA1: "a9993e364706816aba3e25717850c26c9cd0d89d",
    SHA256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    SHA512: "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
    "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
    CRC32: "352441c2",
}

# By b2sum, sha384sum and their like, OpenSSL and xxhsum; builds of OpenSSL differ in what they leave out.
_BY_OTHERS = {
    "sha224": "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7",
    "sha384": "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
    "sha3-224": "e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf",
    "sha3-256": "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532",
    "sha3-384": "ec01498288516fc926459f58e2c6ad8df9b473cb0fc08c2596da7cf0e49be4b298d88cea927ac7f539f1edf228376d25",
    "sha3-512": "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e"
    "10e116e9192af3c91a7ec57647e3934057340b4cf408d5a56592f8274eec53f0",
    "blake2b": "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1"
    "7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923",
    "blake2s": "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982",
    "blake2b-128": "cf4ab791c62b8d2b2109c90275287816",
    "blake2b-160": "384264f676f39536840523f284921cdc68b6846b",
    "blake2b-224": "9bd237b02a29e43bdd6738afa5b53ff0eee178d6210b618e4511aec8",
    "blake2b-256": "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319",
    "blake2b-384": "6f56a82c8e7ef526dfe182eb5212f7db9df1317e57815dbda46083fc30f54ee6c66ba83be64b302d7cba6ce15bb556f4",
    "sha512-224": "4634270f707b6a54daae7530460842e20e37ed265ceee9a43e8924aa",
    "sha512-256": "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23",
    "sm3": "66c7f0f462eeedd9d1f2d46bdc10e4e24167c4875cf2f7a2297da02b8f4ba8e0",
    "ripemd160": "8eb208f7e05d987a9b044a8e98c6b087f15a0bfc",
    "xxh32": "32d153ff",
    "whirlpool": "4e2448a4c6f486bb16b6562c73b4020bf3043e3a731bce721ae1b303d97e6d4c"
    "7181eebdb6c57e277d0e34957114cbd6c797fc9d95d8b582d225292076d4eef5",
}
OF_ABC |= {BY_NAME[name]: digits for name, digits in _BY_OTHERS.items() if name in BY_NAME}


def gnu(*wanted: Algorithm) -> GnuReader:
    """Return a reader of a list without a name."""
    return GnuReader(ListAlgorithms(wanted=wanted))


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.name)
def test_every_algorithm_computes_what_its_own_program_prints(algorithm: Algorithm) -> None:
    """Digests are those of the programs, in their byte order, and as long as the table says."""
    hasher = algorithm.find_constructor()()
    hasher.update(b"a")
    hasher.update(memoryview(b"bc"))

    assert OF_ABC[algorithm] == hasher.digest().hex()
    assert algorithm.digest_bytes == len(hasher.digest())


def test_names_and_tags_are_unique() -> None:
    """An option, a key and a tag each mean one algorithm; all but CRC32 can be chosen."""
    assert len(ALGORITHMS) == len(BY_NAME) == len({algorithm.tag for algorithm in ALGORITHMS})
    assert {*ALGORITHMS} - {*CHOICES} == {CRC32}


def test_padded_tags_of_rhash_are_read() -> None:
    """``rhash --bsd`` writes all tags as wide as CRC32; md5sum refuses more than one space."""
    assert (b"a", None, {MD5: EMPTY}) == read_bsd(b"MD5   (a) = " + EMPTY_HEX)


def test_openssl_lines_are_read() -> None:
    """OpenSSL writes no space before the parenthesis and the equals sign, and calls SHA256 another name."""
    assert (b"a", None, {MD5: EMPTY}) == read_bsd(b"MD5(a)= " + EMPTY_HEX)
    assert read_bsd(b"SHA2-256(a)= " + OF_ABC[SHA256].encode()) == (b"a", None, {SHA256: bytes.fromhex(OF_ABC[SHA256])})


@given(NAMES, st.sampled_from(CHOICES))
def test_gnu_and_bsd_lines_are_read_back(name: bytes, algorithm: Algorithm) -> None:
    """Every name survives, with either end of line."""
    digest = bytes(range(algorithm.digest_bytes))
    for end in (b"\n", b"\0"):
        line = write_gnu(name, algorithm, digest, end=end)
        bsd = write_bsd(name, algorithm, digest, end=end)

        assert line.endswith(end)
        assert end == b"\0" or line.count(b"\n") == 1
        assert (name, None, {algorithm: digest}) == gnu(algorithm).read(line[:-1])
        assert (name, None, {algorithm: digest}) == read_bsd(bsd[:-1])


@pytest.mark.parametrize(
    "line",
    [
        b"MD5 (a) " + EMPTY_HEX,
        b"MD5 a = " + EMPTY_HEX,
        b"MD5 () = " + EMPTY_HEX,
        b"MD5 (a) = " + EMPTY_HEX[1:],
        b"MD5 (a) = " + EMPTY_HEX + b" ",
        b"MD4 (a) = " + EMPTY_HEX,
        b"md5 (a) = " + EMPTY_HEX,
        b"XXH64_LE (a) = " + EMPTY_HEX[16:],
        b"\\MD5 (a\\) = " + EMPTY_HEX,
    ],
)
def test_bad_bsd_lines_are_refused(line: bytes) -> None:
    """What md5sum calls improperly formatted, and algorithms that nobody here computes."""
    assert read_bsd(line) is None


def test_bad_gnu_lines_are_refused() -> None:
    """What md5sum calls improperly formatted; more of it stands in ``cli/test_sum_peers.py``."""
    lines = (b"x", EMPTY_HEX, EMPTY_HEX[:-1] + b"g  no digit", EMPTY_HEX[:-1] + b"\xc3  no digit")
    for line in (*lines, EMPTY_HEX + b"-  no space", EMPTY_HEX + b"  nul\0", b"\\\\" + EMPTY_HEX + b"  two"):
        assert gnu().read(line) is None
        assert gnu(MD5).read(line) is None


def test_algorithm_is_open_unless_named() -> None:
    """Many have as many digits, unless one was asked for; then only that."""
    digest = bytes(32)
    line = digest.hex().encode() + b"  a"

    assert (b"a", None, {UNNAMED[32]: digest}) == gnu().read(line)
    assert (b"a", None, {BLAKE3: digest}) == gnu(MD5, BLAKE3).read(line)
    assert gnu(MD5).read(line) is None


def test_lines_of_fsum_name_their_algorithm() -> None:
    """Before the star; of an algorithm that nobody here computes the line is bad."""
    digest = bytes.fromhex(OF_ABC[SHA1])

    assert (b"sub\\a", None, {SHA1: digest}) == gnu().read(OF_ABC[SHA1].encode() + b" ?SHA1*sub\\a")
    assert gnu().read(OF_ABC[SHA1].encode() + b" ?QUICKXOR*a") is None
    assert gnu(MD5).read(OF_ABC[SHA1].encode() + b" ?SHA1*a") is None


def test_pieces_are_named_as_md5deep_does() -> None:
    """The last byte is included, and an empty file has one piece."""
    assert EMPTY_HEX + b"  a offset 0-0\n" == write_gnu(b"a", MD5, EMPTY, piece=Piece(0, 0))
    assert EMPTY_HEX + b"  a offset 10-19\n" == write_gnu(b"a", MD5, EMPTY, piece=Piece(10, 10))
    assert b"MD5 (a offset 10-19) = " + EMPTY_HEX + b"\n" == write_bsd(b"a", MD5, EMPTY, piece=Piece(10, 10))
    assert b"7," + EMPTY_HEX + b",a offset 0-6\n" == write_hashdeep(b"a", 7, [EMPTY], piece=Piece(0, 7))
    assert (0, 7) == tuple(
        json.loads(write_json(b"a", 9, {MD5: EMPTY}, piece=Piece(0, 7)))[key] for key in ("offset", "length")
    )


def test_hashdeep_header_is_that_of_hashdeep() -> None:
    """Two lines of columns, then who made it; nothing in it can begin a line of its own."""
    header = write_hashdeep_header([MD5, SHA256], b"/a\nb", b"integrity sum \n5,x", is_root=True)

    assert (
        b"%%%% HASHDEEP-1.0\n%%%% size,md5,sha256,filename\n"
        b"## Invoked from: /a\\nb\n## # integrity sum \\n5,x\n## \n" == header
    )


@given(NAMES)
def test_hashdeep_lines_are_read_back(name: bytes) -> None:
    """Names with commas, backslashes and ends of lines among them."""
    reader = HashdeepReader()
    line = write_hashdeep(name, 12, [EMPTY, bytes(32)])

    assert reader.read(b"%%%% HASHDEEP-1.0") is IGNORED
    assert reader.read(b"%%%% size,md5,sha256,filename") is IGNORED
    assert line.count(b"\n") == 1
    assert (name, 12, {MD5: EMPTY, SHA256: bytes(32)}) == reader.read(line[:-1])


def test_hashdeep_columns_that_nobody_computes_are_passed_over() -> None:
    """A file with tiger and whirlpool in it still has its MD5."""
    reader = HashdeepReader()

    assert reader.read(b"%%%% size,tiger,md5,filename") is IGNORED
    assert (b"a,b", 0, {MD5: EMPTY}) == reader.read(b"0,xyz," + EMPTY_HEX + b",a,b")
    assert HashdeepReader().read(b"0," + EMPTY_HEX + b",a") is None
    assert HashdeepReader().read(b"%%%% HASHDEEP-2.0") is None
    assert HashdeepReader().read(b"%%%% size,filename") is None


@given(NAMES)
def test_bagit_lines_are_read_back(name: bytes) -> None:
    """Percent signs and ends of lines are escaped, and nothing else."""
    line = write_bagit(name, EMPTY)

    assert line.count(b"\n") == 1
    assert b"\r" not in line
    if not name.startswith((b"*", b" ", b"\t")):
        assert (name, None, {MD5: EMPTY}) == read_bagit(line[:-1], MD5)


def test_bagit_manifests_are_known_by_their_name() -> None:
    """The name tells the algorithm."""
    assert SHA512 is find_bagit_algorithm(b"manifest-sha512.txt")
    assert MD5 is find_bagit_algorithm(b"tagmanifest-md5.txt")
    assert [None] * 3 == [
        find_bagit_algorithm(name) for name in (b"manifest-md4.txt", b"manifest.txt", b"x/manifest-md5.txt")
    ]


@given(NAMES, st.none() | st.integers(0, 2**63))
def test_objects_are_read_back(name: bytes, size: int | None) -> None:
    """Also names that are no text."""
    line = write_json(name, size, {MD5: EMPTY, BLAKE3: bytes(32)})

    assert line.count(b"\n") == 1
    assert ("path_b64" in json.loads(line)) != (name.decode("utf-8", "replace").encode() == name)
    assert (name, size, {MD5: EMPTY, BLAKE3: bytes(32)}) == read_json(line)
    assert (name, size, {MD5: EMPTY}) == read_json(line, [MD5])
    assert read_json(line, [SHA1]) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "[]",
        "{",
        "{}",
        '{"path":"a"}',
        '{"md5":"%s"}',
        '{"path":"a","md5":"%s0"}',
        '{"path":"a","md5":1}',
        '{"path":"","md5":"%s"}',
        '{"path":"\\u0000","md5":"%s"}',
        '{"path":"\\ud800","md5":"%s"}',
        '{"path_b64":"?","md5":"%s"}',
        '{"path":"a","size_bytes":-1,"md5":"%s"}',
        '{"path":"a","size_bytes":true,"md5":"%s"}',
        '{"path":"a","offset":0,"length":1,"md5":"%s"}',
        "[" * 100_000,
        "1" * 10_000,
    ],
)
def test_bad_objects_are_refused(text: str) -> None:
    """Whatever stands where an object should."""
    assert read_json(text.replace("%s", EMPTY.hex()).encode()) is None


def test_objects_of_other_types_are_ignored() -> None:
    """A summary is no bad line."""
    assert read_json(b'{"type":"summary","schema":1}') is IGNORED


def test_sfv_lines_are_read() -> None:
    """The digits stand behind the name, which may have spaces in it."""
    assert (b"a file.rar", None, {CRC32: b"\x35\x24\x41\xc2"}) == read_sfv(b"a file.rar 352441C2")
    assert (b"a", None, {CRC32: b"\x35\x24\x41\xc2"}) == read_sfv(b"a\t 352441c2 ")
    assert [None] * 3 == [read_sfv(line) for line in (b" 352441c2", b"a 352441c", b"a352441c2")]
