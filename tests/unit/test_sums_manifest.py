"""Files of digests: which form they have, what is an entry, and that nothing but entries and bad lines comes out."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrity.hashing.algorithms import CRC32, SHA256, UNNAMED, XXH3
from integrity.hashing.stored_digests import MD5, Algorithm
from integrity.lists.entries import BadLine, Form, ManifestEntry
from integrity.lists.reader import LONGEST_LINE, Manifest

EMPTY = hashlib.md5(b"").digest()
HEX = EMPTY.hex().encode()
LINE = HEX + b"  a\n"


def read(data: bytes, *, name: bytes = b"", wanted: Sequence[Algorithm] = ()) -> list[ManifestEntry | BadLine]:
    """Read a file of digests."""
    return list(Manifest(io.BytesIO(data), name=name, wanted=wanted).read())


def entry(path: bytes = b"a", line: int = 1) -> ManifestEntry:
    """Expect the MD5 of nothing, whose algorithm is not named."""
    return ManifestEntry(path, None, {UNNAMED[16]: EMPTY}, line)


def named(path: bytes = b"a", line: int = 1, size: int | None = None) -> ManifestEntry:
    """Expect the MD5 of nothing, as such."""
    return ManifestEntry(path, size, {MD5: EMPTY}, line)


@pytest.mark.parametrize(
    ("form", "data", "name"),
    [
        (Form.LINES, LINE, b""),
        (Form.LINES, b"# comment\n\n" + LINE, b""),
        (Form.LINES, b"MD5 (a) = " + HEX, b""),
        (Form.LINES, b"", b""),
        (Form.LINES, b"nonsense\n", b""),
        (Form.LINES, HEX + b"  name of a 352441c2\n", b""),
        (Form.ZEROS, HEX + b"  a\nb\0" + HEX + b"  c\0", b""),
        (Form.LINES, LINE + b"damaged \0 line\n" + LINE, b""),
        (Form.HASHDEEP, b"%%%% HASHDEEP-1.0\n%%%% size,md5,filename\n", b""),
        (Form.OBJECTS, b'{"path":"a","md5":"x"}', b""),
        (Form.LINES, b"; comment\r\n; more\r\n\r\n" + LINE, b""),
        (Form.LINES, b"XXH32 (a) = 352441c2\n", b""),
        (Form.LINES, b"ADLER32 (a) = 352441c2\n", b""),
        (Form.LINES, "\ufeffMD5 (a) = ".encode("utf-16-be"), b""),
        (Form.SFV, b"; comment\na 352441c2\n", b""),
        (Form.SFV, b"a 352441c2\n", b""),
        (Form.SFV, LINE, b"/x/A.SFV"),
        (Form.BAGIT, LINE, b"/x/manifest-md5.txt"),
    ],
)
def test_form_is_recognised(form: Form, data: bytes, name: bytes) -> None:
    """By what stands in the file, or by its name; a byte order mark changes nothing."""
    assert form is Manifest(io.BytesIO(data), name=name).form
    assert form is Manifest(io.BytesIO(b"\xef\xbb\xbf" + data), name=name).form


def test_gnu_and_bsd_lines_may_be_mixed() -> None:
    """As for md5sum; comments and empty lines count as lines and are nothing else."""
    data = b"# c\n\n" + LINE + b"MD5 (b) = " + HEX + b"\nXXH3_0000000000000000  c\r\nbad\n" + HEX + b" *d"

    assert [
        entry(line=3),
        named(b"b", 4),
        ManifestEntry(b"c", None, {XXH3: bytes(8)}, 5),
        BadLine(6),
        entry(b"d", 7),
    ] == read(data)


def test_only_wanted_algorithms_are_read() -> None:
    """Lines of others are bad lines, as they are for md5sum."""
    data = LINE + b"MD5 (b) = " + HEX + b"\n" + bytes(32).hex().encode() + b"  c\n"

    assert [BadLine(1), BadLine(2), ManifestEntry(b"c", None, {SHA256: bytes(32)}, 3)] == read(data, wanted=[SHA256])


def test_each_form_is_read() -> None:
    """Paths, sizes and digests of hashdeep, BagIt, SFV, JSON and lines that end in NUL."""
    hashdeep = b"%%%% HASHDEEP-1.0\n%%%% size,md5,filename\n## x\n## \n5," + HEX + b",a,b\r\nbad\n"
    sfv = b"; c\r\na b 352441c2\r\nbad\r\n"

    assert [named(b"a,b", 5, 5), BadLine(6)] == read(hashdeep)
    assert [named(b"a\n%b")] == read(HEX + b"  a%0A%25b", name=b"manifest-md5.txt")
    assert [ManifestEntry(b"a b", None, {CRC32: b"\x35\x24\x41\xc2"}, 2), BadLine(3)] == read(sfv)
    assert [named(b"a", 1, 7)] == read(b'{"path":"a","size_bytes":7,"md5":"%s"}\n{"type":"summary"}\n' % HEX)
    assert [entry(b"a\nb"), entry(b"c\r", 2)] == read(HEX + b"  a\nb\0" + HEX + b"  c\r\0")


def test_carriage_return_belongs_to_the_end_of_the_line_once() -> None:
    """As for md5sum: only the last one, so that a name may end in one that was escaped."""
    assert [entry(b"a\r")] == read(HEX + b"  a\r\r\n")
    assert [entry(b"a\r")] == read(b"\\" + HEX + b"  a\\r\r\n")
    assert [] == read(b"\r\n\n")


def test_too_long_line_is_bad_and_the_next_is_read() -> None:
    """In memory that does not grow with it."""
    data = LINE + HEX + b"  " + b"x" * LONGEST_LINE + b"\n" + LINE + b"y" * 3 * LONGEST_LINE

    assert [entry(), BadLine(2), entry(line=3), BadLine(4)] == read(data)


def test_longest_line_is_read() -> None:
    """The limit itself is within it."""
    name = b"x" * (LONGEST_LINE - len(HEX) - 2)

    assert [entry(name), entry(line=2)] == read(HEX + b"  " + name + b"\n" + LINE)


def test_stream_that_gives_little_at_a_time_is_read_whole() -> None:
    """A pipe gives what is in it."""

    class Trickle(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(size or 0, 7))

    assert [entry(line=number) for number in range(1, 4)] == list(Manifest(Trickle(LINE * 3)).read())


_WORDS = [
    HEX,
    b"MD5 (",
    b") = ",
    b"  ",
    b" *",
    b"\\",
    b"\n",
    b"\r",
    b"\0",
    b"a",
    b"%%%% HASHDEEP-1.0\n",
    b"5,",
    b"#",
    b";",
]
_WORDS += [
    b"%%%% size,md5,filename\n",
    b'{"path":"',
    b'","md5":"',
    b'"}',
    b"352441c2",
    b"\xef\xbb\xbf",
    b"XXH3_",
    b"\xff",
]
_NAMES = [b"", b"manifest-md5.txt", b"x.sfv"]


@given(st.lists(st.sampled_from(_WORDS) | st.binary(max_size=8), max_size=40).map(b"".join), st.sampled_from(_NAMES))
def test_nothing_but_entries_and_bad_lines_comes_out(data: bytes, name: bytes) -> None:
    """Whatever is in the file (I1): names that a system could have, digests of the right length, lines in order."""
    found = read(data, name=name)

    assert [each.line for each in found] == sorted({each.line for each in found})
    for each in found:
        if isinstance(each, ManifestEntry):
            assert each.path
            assert b"\0" not in each.path
            assert each.digests
            assert all(algorithm.digest_bytes == len(digest) for algorithm, digest in each.digests.items())
