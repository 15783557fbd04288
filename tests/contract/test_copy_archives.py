"""Repositories of the real restic and borg, and folders by date, as copies: each is what ``copysuite`` asks for."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from contract.copysuite import CopySuite, MakeCopy
from integrity.copies.opening import open_copy
from integrity.copies.protocol import Copy
from integrity.copies.repository import ArchiveOptions
from support.archives import Archive, Borg, Restic


class ArchiveSuite(CopySuite):
    """What repositories are held to; a copy of a folder is a backup of it."""

    kind: ClassVar[type[Archive]]
    every = 6

    @pytest.fixture
    def archive(self, tmp_path: Path) -> Archive:
        """Make a repository."""
        return self.kind(tmp_path)

    def open_again(self, url: str, tree: Path) -> Copy:
        options = ArchiveOptions(password_file=bytes(tree.parent / "password"))
        return open_copy(url, root=bytes(tree), archive=options)

    @pytest.fixture
    def make(self, archive: Archive) -> MakeCopy:
        def back_up(folder: Path) -> Copy:
            archive.back_up(folder)
            return self.open_again(archive.url, folder)

        return back_up

    @pytest.fixture
    def gone(self, archive: Archive, tmp_path: Path) -> Copy:
        return self.open_again(f"{archive.program}:{tmp_path}/no/such", tmp_path)


class TestRestic(ArchiveSuite):
    """A repository of restic."""

    kind = Restic


@pytest.mark.long  # in the short run, tests/integration/test_archives.py tries it
class TestBorg(ArchiveSuite):
    """A repository of borg."""

    kind = Borg


class TestSnapshots(CopySuite):
    """Folders by date, of which there is one."""

    is_folder = True

    @pytest.fixture
    def make(self) -> MakeCopy:
        return lambda folder: open_copy(f"snapshots:{folder.parent}/[{folder.name[0]}]{folder.name[1:]}")

    @pytest.fixture
    def gone(self, tmp_path: Path) -> Copy:
        return open_copy(f"snapshots:{tmp_path}/no/such/*")
