"""Parity as a copy, and what it makes of sets that are not what this program made."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from contract.copysuite import CopySuite, MakeCopy
from integrity.catalog.roots import find_roots
from integrity.copies.parity.copy import ParityCopy
from integrity.copies.protocol import Copy, Kind
from integrity.errors import Unreadable
from integrity.jobs.context import Context
from integrity.jobs.options import ScanOptions
from integrity.jobs.parity.protect import ProtectOptions, ProtectReport
from integrity.jobs.runner import protect, scan
from support.cli import Box
from support.faultfs import FaultFS, Rule
from support.jobs import open_context
from support.parity import find_set_files, make_random, needs_par2, rot
from support.parity import protect as protect_box

pytestmark = needs_par2


def open_parity(context: Context, folder: Path, parity: Path) -> ParityCopy:
    """Record a folder, protect it, and make the copy that its parity is."""
    parity.mkdir(exist_ok=True)
    path = os.path.realpath(bytes(folder))
    scan(context, [path], ScanOptions())
    protect(context, [path], ProtectOptions(folder=bytes(parity)), ProtectReport())
    with context.catalog.read() as connection:
        (root,) = (one for one in find_roots(connection) if one.path == path)
    return ParityCopy(context.catalog, root)


class TestParity(CopySuite):
    published = frozenset({Kind.MD5})
    keeps_times = states_times = False
    has_empty = False
    has_own_stat = True

    @pytest.fixture
    def context(self, tmp_path: Path) -> Iterator[Context]:
        """Open a catalog."""
        with ExitStack() as stack:
            yield stack.enter_context(open_context(tmp_path / "catalog.db"))

    @pytest.fixture
    def make(self, context: Context, tmp_path: Path) -> MakeCopy:
        """Protect the folder, and give its parity."""
        self.context, self.parity = context, tmp_path / "parity"
        return lambda folder: open_parity(context, folder, self.parity)

    @pytest.fixture
    def gone(self, context: Context, tmp_path: Path) -> Copy:
        """Give the parity of a disk that is not mounted."""
        (tmp_path / "root").mkdir()
        (tmp_path / "root/file").write_bytes(b"x")
        made = open_parity(context, tmp_path / "root", tmp_path / "parity")
        (tmp_path / "parity").rename(tmp_path / "away")
        return made

    def open_again(self, url: str, tree: Path) -> Copy:
        """Make the copy again."""
        return open_parity(self.context, tree, self.parity)


CONTENTS = {f"{number}.jpg": make_random(number, 60_000) for number in range(20)}


@pytest.mark.root
@pytest.mark.parametrize("op", ["read", "open"])
def test_files_that_a_disk_refuses_are_healed(faulty: FaultFS, integrity: Box, tmp_path: Path, op: str) -> None:
    """A bad sector takes the slices that it is in, a file that can't be opened all of its slices."""
    root, parity = faulty.folder, tmp_path / "parity"
    protect_box(integrity, root, parity, CONTENTS, "--parity", "20%")
    faulty.add(Rule(op, path="/7.jpg", errno=errno.EIO, offset=20_000, length=4096))
    integrity.run("scrub", root, expect=3)

    with open_context(integrity.catalog) as context:
        with context.catalog.read() as connection:
            (known,) = find_roots(connection)
        with ParityCopy(context.catalog, known) as copy:
            file = copy.open(b"7.jpg")
            assert file.read(0, 100_000) == CONTENTS["7.jpg"]
            file.close()


@pytest.mark.parametrize("name", [b"../../../escaped", b"/escaped", b"..\\escaped", b"a\0b"])
def test_set_that_leads_elsewhere_is_refused(integrity: Box, tmp_path: Path, name: bytes) -> None:
    """A set is read from a disk that others may write to: no name in it leads out of the folder of links."""
    root, parity = tmp_path / "root", tmp_path / "parity"
    protect_box(integrity, root, parity, {"x" * len(name): make_random(1, 5000), "other": make_random(2, 5000)})
    [path] = find_set_files(parity)
    _rename(path, b"x" * len(name), name)
    rot(root / "other", (10, b"damage"))

    with open_context(integrity.catalog) as context:
        with context.catalog.read() as connection:
            (known,) = find_roots(connection)
        with ParityCopy(context.catalog, known) as copy, pytest.raises(Unreadable, match="damaged itself"):
            copy.open(b"other")


def _rename(path: Path, old: bytes, new: bytes) -> None:
    """Change a name in a set, and the checksum of its packet."""
    from hashlib import md5

    data = bytearray(path.read_bytes())
    at = 0
    while (at := data.find(old, at)) >= 0:
        start = data.rfind(b"PAR2\0PKT", 0, at)
        length = int.from_bytes(data[start + 8 : start + 16], "little")
        data[at : at + len(old)] = new
        data[start + 16 : start + 32] = md5(data[start + 32 : start + length]).digest()
        at += len(old)
    path.write_bytes(data)
