"""The catalog under kill -9, power cuts, full and failing disks: what was committed stays, what was not is gone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from integrity.catalog import baselines, maintenance
from integrity.catalog.connection import Catalog
from integrity.errors import CatalogCorrupt
from support.catalogs import CatalogBox, make_reading
from support.cli import Box, make_command
from support.crashdisk import CrashDisk
from support.killpoints import sleep_into_next_second
from support.planted import plant
from support.proc import signal_at


def count_rows(path: bytes) -> int:
    """Open the catalog, look all of it through, and count the files."""
    with Catalog.open(path, writes=True) as catalog:
        report = maintenance.check(catalog)
        assert report.is_right, report
        return sum(count.actual for count in report.counts)


@pytest.mark.root
def test_power_cuts_lose_no_committed_row() -> None:
    """After every cut the catalog is whole and has what was acknowledged before it (WAL with synchronous=FULL)."""
    with CrashDisk("ext4") as disk:
        with disk.running() as fs, CatalogBox(fs.path("state/catalog.db")) as box:
            disk.mark("made")
            for batch in range(6):
                ids = box.record_all({b"%d/%d" % (batch, n): make_reading((batch, n)) for n in range(30)})
                disk.mark("committed")
                for file_id in ids:
                    with box.catalog.transaction(is_synced=False) as c:
                        baselines.mark_suspects(c, {file_id: None})
        for cut in disk.find_cuts(12, is_torn=True):
            with disk.after(cut) as fs:
                path = fs.path("state/catalog.db")
                if cut.marks:
                    assert count_rows(path) >= 30 * cut.marks.count("committed")
                elif os.path.exists(path):
                    assert count_rows(path) == 0


def test_damage_in_a_transaction_is_told_as_damage(tmp_path: Path) -> None:
    """A catalog that was damaged after it was opened names the way back, and the half-done batch is not there."""
    path = bytes(tmp_path / "catalog.db")
    with CatalogBox(path) as box:
        box.record_all({b"%d" % number: make_reading(number) for number in range(500)})
    with Catalog.open(path, writes=True) as catalog:
        with catalog.read() as c:
            page = c.value("SELECT rootpage FROM sqlite_master WHERE name = 'file'")
        whole = Path(os.fsdecode(path)).read_bytes()
        with open(path, "r+b") as stored:
            stored.seek((page - 1) * 4096 + 2000)
            stored.write(b"\xff")
        with pytest.raises(CatalogCorrupt, match=r"catalog restore.*catalog salvage"), catalog.transaction() as c:
            list(map(c.run, ("INSERT INTO meta (key, value) VALUES ('a', 'b')", "DELETE FROM file")))
        Path(os.fsdecode(path)).write_bytes(whole)
    assert count_rows(path) == 500


@pytest.mark.root("strace")
def test_lock_file_that_cannot_be_emptied(integrity: Box, tmp_path: Path) -> None:
    """A disk that fails at any truncation is explained; what was done when the last one failed is done."""
    root = plant(tmp_path / "root", 3)
    integrity.run("scan", root, expect=0)
    for nth in range(1, 9):
        inject = ["-e", "trace=ftruncate", "-e", f"inject=ftruncate:error=EIO:when={nth}"]
        strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", *inject]
        done = subprocess.run(
            [*strace, *make_command("scan", root)], env=integrity.environment, capture_output=True, text=True
        )
        assert done.returncode in (0, 4), done.stderr
        assert "a bug" not in done.stderr, (nth, done.stderr)


@pytest.mark.root("strace")
@pytest.mark.parametrize("words", [("scan",), ("catalog", "backup")])
def test_file_that_was_being_made_is_not_left_for_good(integrity: Box, tmp_path: Path, words: tuple[str, ...]) -> None:
    """A new catalog and a backup have a passing name until they are whole; who makes the next one removes it."""
    root = plant(tmp_path / "root", 42, size_bytes=700)
    if words != ("scan",):
        integrity.run("scan", root, expect=0)
    before = set(os.listdir(integrity.home)) if integrity.home.exists() else set()
    command = make_command(*words, *([root] if words == ("scan",) else []))
    nth = next(
        nth
        for nth in range(3, 60, 3)
        if signal_at(command, "pwrite64", nth, env=integrity.environment).was_killed
        and any(".new-" in name or name.endswith(".partial") for name in set(os.listdir(integrity.home)) - before)
    )
    assert nth
    sleep_into_next_second()
    integrity.run(*words, *([root] if words == ("scan",) else []), expect=0)
    assert [] == [name for name in os.listdir(integrity.home) if ".new-" in name or ".partial" in name]
