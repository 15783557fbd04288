"""A file of digests as a copy."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.copysuite import CopySuite, MakeCopy
from integrity.copies.manifest import ManifestCopy
from integrity.copies.opening import open_copy
from integrity.copies.protocol import Copy, CopyEntry, Kind, Published, Trouble
from integrity.errors import CopyUnreachable
from integrity.hashing.stored_digests import BLAKE3

HELLO = hashlib.md5(b"hello").digest()
LINE = HELLO.hex().encode() + b"  "


def find_files(folder: Path) -> Iterator[bytes]:
    for place, _, names in os.walk(bytes(folder)):
        for name in names:
            path = os.path.join(place, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield os.path.relpath(path, bytes(folder))


class TestMd5sum(CopySuite):
    """What the real md5sum writes."""

    published = frozenset({Kind.MD5})
    keeps_times = states_times = False
    states_size = False

    @pytest.fixture
    def make(self, tmp_path: Path) -> MakeCopy:
        def write(folder: Path) -> Copy:
            manifest = tmp_path / "MD5SUMS"
            paths = list(find_files(folder))
            with manifest.open("wb") as file:
                if paths:
                    subprocess.run(["md5sum", "--", *paths], cwd=folder, stdout=file, check=True)
            return open_copy(str(manifest))

        return write

    @pytest.fixture
    def gone(self, tmp_path: Path) -> Copy:
        return ManifestCopy(bytes(tmp_path / "no" / "MD5SUMS"))


class TestJson(TestMd5sum):
    """Objects with sizes and two kinds of digests."""

    published = frozenset({Kind.MD5, Kind.SHA256})
    states_size = True

    @pytest.fixture
    def make(self, tmp_path: Path) -> MakeCopy:
        def write(folder: Path) -> Copy:
            manifest = tmp_path / "sums.json"
            with manifest.open("w") as file:
                for path in find_files(folder):
                    data = Path(os.fsdecode(os.path.join(bytes(folder), path))).read_bytes()
                    sums = {kind: hashlib.new(kind, data).hexdigest() for kind in ("md5", "sha256")}
                    name = {"path": "shown", "path_b64": base64.b64encode(path).decode()}
                    file.write(json.dumps({"type": "sum", "size_bytes": len(data), **name, **sums}) + "\n")
            return open_copy(str(manifest))

        return write


def read(tmp_path: Path, data: bytes, **arguments: object) -> list[CopyEntry | Trouble]:
    path = tmp_path / "manifest"
    path.write_bytes(data)
    with ManifestCopy(bytes(path), **arguments) as copy:  # type: ignore[arg-type]
        return list(copy.list())


def test_lines_of_one_file_become_one_entry(tmp_path):
    """BSD's tools write a line for each digest; what contradicts itself stays apart."""
    sha = hashlib.sha256(b"hello").digest()
    lines = b"MD5 (a) = %s\nSHA256 (a) = %s\nMD5 (b) = %s\nMD5 (b) = %s\n" % (
        *(digest.hex().encode() for digest in (HELLO, sha, HELLO, HELLO[::-1])),
    )
    both = (Published(Kind.MD5, HELLO), Published(Kind.SHA256, sha))
    apart = [CopyEntry(b"b", None, None, (Published(Kind.MD5, value),)) for value in (HELLO, HELLO[::-1])]
    assert [CopyEntry(b"a", None, None, both), *apart] == read(tmp_path, lines)


@pytest.mark.parametrize(
    "name", [b"../a", b"a/../../b", b"/etc/passwd", b"..", b"/", b"a/", b"/srv/photos", b"/srv/photos/../a"]
)
def test_name_that_leads_out_is_trouble(tmp_path, name):
    """Hostile names are told with their line, and nothing is looked at."""
    found = read(tmp_path, LINE + b"good\n" + LINE + name + b"\n", tops=(b"/srv/photos",))
    assert [b"good"] == [entry.path for entry in found if isinstance(entry, CopyEntry)]
    troubles = [trouble for trouble in found if isinstance(trouble, Trouble)]
    assert len(troubles) == 1
    assert "line 2" in troubles[0].message


def test_name_with_nul_is_trouble(tmp_path):
    """No file has such a name; which one was meant can't be told."""
    found = read(tmp_path, LINE + b"good\n" + LINE + b"ba\0d\n")
    assert [Trouble] == [type(one) for one in found[1:]]


def test_spelling_of_a_name_means_nothing(tmp_path):
    """``find`` writes ``./a``, sloppy scripts double slashes; absolute names may begin with the root."""
    lines = b"".join(LINE + name + b"\n" for name in (b"./a", b".//b/./c", b"/srv/photos/d", b"/srv/photos//./e"))
    found = read(tmp_path, lines, tops=(b"/srv/photos/",))
    assert [b"a", b"b/c", b"d", b"e"] == [one.path for one in found]


def test_bag_may_stand_for_its_payload(tmp_path):
    """Of a bag's names ``data/`` is taken away where the root is what was put into it."""
    path = tmp_path / "manifest-md5.txt"
    path.write_bytes(LINE + b"data/a%0Ab\n")
    with ManifestCopy(bytes(path), tops=(b"data",)) as copy:
        assert [b"a\nb"] == [one.path for one in copy.list()]


def test_hashdeep_and_sfv_are_read(tmp_path):
    """Sizes and several digests from hashdeep, CRC32 from SFV."""
    header = b"%%%% HASHDEEP-1.0\n%%%% size,md5,sha256,filename\n"
    sha = hashlib.sha256(b"hello").hexdigest().encode()
    found = read(tmp_path, header + b"5," + LINE.strip() + b"," + sha + b",a,b\n")
    assert [(b"a,b", 5, [Kind.MD5, Kind.SHA256])] == [
        (one.path, one.size_bytes, [each.kind for each in one.published]) for one in found if isinstance(one, CopyEntry)
    ]
    found = read(tmp_path, b"; made by hand\na b 3610a686\n")
    assert [CopyEntry(b"a b", None, None, (Published(Kind.CRC32, bytes.fromhex("3610a686")),))] == found


def test_digest_that_looks_like_another_is_what_was_said(tmp_path):
    """What b3sum wrote looks like SHA-256."""
    found = read(tmp_path, b"ab" * 32 + b"  a\n", wanted=[BLAKE3])
    assert [CopyEntry(b"a", None, None, (Published(Kind.BLAKE3, b"\xab" * 32),))] == found


def test_line_that_cannot_be_read_puts_every_absence_in_doubt(tmp_path):
    """C2: any file may have stood there, so the Trouble is of the whole copy, whatever the prefix."""
    path = tmp_path / "manifest"
    path.write_bytes(LINE + b"a\n" + b"garbage\n" + LINE + b"b/c\n")
    with ManifestCopy(bytes(path)) as copy:
        found = list(copy.list(b"b"))
    assert [b"", b"b/c"] == [one.path for one in found]
    assert "line 2" in found[0].message if isinstance(found[0], Trouble) else False


@pytest.mark.parametrize("data", [b"", b"# comment\n", b"no manifest at all\n" * 10, b"\0" * 100_000])
def test_file_without_any_digest_is_unreachable(tmp_path, data):
    """C3: what is no manifest says nothing of any file."""
    with pytest.raises(CopyUnreachable, match="manifest"):
        read(tmp_path, data)


def test_manifest_that_grows_while_it_is_read_is_unreachable(tmp_path):
    """C3: half a manifest is none."""
    path = tmp_path / "manifest"
    path.write_bytes(LINE + b"a\n" + LINE + b"b\n")
    with ManifestCopy(bytes(path)) as copy:
        listing = copy.list()
        next(listing)
        with path.open("ab") as file:
            file.write(LINE + b"c\n")
        with pytest.raises(CopyUnreachable, match="written to"):
            list(listing)


def test_name_twice_comes_twice(tmp_path):
    """C5: noticing would take memory; the caller has each one in its hands anyway."""
    found = read(tmp_path, (LINE + b"a\n" + LINE + b"b\n") * 2)
    assert [b"a", b"b", b"a", b"b"] == [one.path for one in found]


def test_memory_does_not_grow_with_the_lines(tmp_path):
    """C5: sixty thousand lines, good, bad and hostile, in less than a megabyte."""
    path = tmp_path / "manifest"
    with path.open("wb") as file:
        for number in range(20_000):
            file.write(LINE + b"%d\n" % number + LINE + b"../%d\n" % number + b"bad\n")
    with ManifestCopy(bytes(path)) as copy:
        tracemalloc.start()
        try:
            count = sum(1 for _ in copy.list())
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert 60_000 == count
    assert peak < 1_000_000
