"""The service and its catalog in trouble: damaged at the start, on a disk that is full."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli import Box
from support.loopfs import LoopFS
from support.mounts import filled, small_tmpfs
from support.older import put_older
from support.planted import plant
from support.service import Service
from support.smtpsink import SmtpSink, mail_toml
from support.stored import count_rows
from support.waiting import wait_until

NEVER = 'scrub = "0 0 29 feb *"'


def configure(box: Box, root: Path, more: str = "") -> None:
    """Have one root that settles soon."""
    box.configure(f'[[root]]\npath = "{root}"\nsettle = "1s"\n[schedule]\n{NEVER}\n{more}\n')


def damage(catalog: Path) -> None:
    """Flip one bit in the middle of every second page; nobody has the file open."""
    data = bytearray(catalog.read_bytes())
    for offset in range(8192, len(data) - 4096, 8192):
        data[offset + 2000] ^= 1
    catalog.write_bytes(data)


def test_damaged_catalog_is_restored_from_the_newest_good_backup(integrity: Box, tmp_path: Path) -> None:
    """Log, finding and mail say so, the damaged one is kept, and what came since the backup is recorded again."""
    root = plant(tmp_path / "root", 300)
    with SmtpSink() as sink:
        mail = mail_toml(sink.port)
        configure(integrity, root, f'{mail}[alerts]\ngroup = "0s"\n')
        integrity.run("scan", expect=0)
        integrity.run("catalog", "backup", expect=0)
        newest = max(integrity.home.glob("catalog-*.db"))
        later = newest.with_name("catalog-20991231T235959Z.db")
        shutil.copy(newest, later)
        damage(later)
        (root / "late.txt").write_text("late")
        integrity.run("scan", expect=0)
        damage(integrity.catalog)

        with Service(integrity) as service:
            service.wait_begun()
            assert "catalog_restored" in service.log
            assert 301 == count_rows(integrity)
            wait_until(lambda: bool(sink.received), "a mail")
            service.stop()
    assert ["catalog_damaged"] == [one["kind"] for one in integrity.findings("findings", expect=1)]
    assert newest.name in sink.received[0].text
    assert list(integrity.home.glob("catalog.db.replaced-*"))


def test_older_catalog_is_upgraded_at_the_start(integrity: Box, tmp_path: Path) -> None:
    """The log names the files whose records were damaged, and the former catalog is kept."""
    configure(integrity, plant(tmp_path / "root", 3))
    put_older(integrity.catalog, "0010")
    with Service(integrity) as service:
        service.wait_begun()
        service.stop()

    assert "catalog_record_left_behind path=/srv/nas/photos/2020/same.jpg" in service.log
    assert 9 + 3 == count_rows(integrity)
    assert 1 == len(list(integrity.home.glob("catalog.db.before-*")))


def test_catalog_that_is_gone_or_damaged_without_a_backup_ends_the_service(integrity: Box, tmp_path: Path) -> None:
    """
    It exits 4 and says what is wrong; a damaged file is left as it is.

    If it is gone a new one would have forgotten all baselines: the message names the backup and the command.
    """
    configure(integrity, plant(tmp_path / "root", 300))
    integrity.run("scan", expect=0)
    integrity.run("catalog", "backup", expect=0)
    integrity.catalog.unlink()
    with Service(integrity, is_awaited=False) as service:
        assert 4 == service.wait_end()
        assert f"{integrity.program} catalog restore" in service.log
    assert not integrity.catalog.exists()

    integrity.run("catalog", "restore", "--yes", expect=0)
    for backup in integrity.home.glob("catalog-*.db"):
        backup.unlink()
    damage(integrity.catalog)
    before = integrity.catalog.read_bytes()

    with Service(integrity, is_awaited=False) as service:
        assert 4 == service.wait_end()
        assert "there is no backup" in service.log
        assert "Traceback" not in service.log
    assert before == integrity.catalog.read_bytes()


@pytest.fixture(params=["tmpfs", "ext4 with blocks of 1 KiB"])
def small_disk(integrity: Box, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Mount a small file system: one where pages are blocks, and one where they are several."""
    if request.param == "tmpfs":
        integrity.home.mkdir(exist_ok=True)
        with small_tmpfs(integrity.home / "disk", 24 << 20):
            yield integrity.home / "disk"
        return
    with LoopFS("ext4", size_bytes=24 << 20, mkfs=("-b", "1024", "-m", "0", "-J", "size=1")) as small:
        yield small.folder


@pytest.mark.root
def test_full_disk_under_the_catalog_is_said_and_lived_through(
    integrity: Box, tmp_path: Path, small_disk: Path
) -> None:
    """
    Log and status say it while it lasts, and what was recorded is shown.

    When there is space again all that came meanwhile is recorded.
    """
    root = plant(tmp_path / "root", 10)
    configure(integrity, root)
    integrity.catalog = small_disk / "catalog.db"
    with Service(integrity, env={"INTEGRITY_CATALOG": str(integrity.catalog)}) as service:
        service.wait_begun()
        with filled(small_disk):
            plant(root / "more", 500)
            service.wait_log("free space")
            service.wait_status("free space")
            told = integrity.run("status", expect=3)
            assert "its last job could not be recorded" in told.stdout
            assert "10 files" in told.stdout
            assert "The disk with the catalog is full: nothing can be recorded" in told.stdout
            integrity.run("findings", expect=0)
            assert "free space" in integrity.run("status", "--nagios", expect=1).stdout
            assert integrity.run("scan", root / "gone").code in (2, 4)  # nothing is there, or no room to look
            assert "free space" in service.status
            assert "its last job could not be recorded" in integrity.run("status", expect=3).stdout
            (root / "late.txt").write_text("late")
            assert not service.has_ended
        wait_until(lambda: count_rows(integrity) == 511, "all records", every_s=0.05)
        service.wait_idle()
        assert "free space" not in service.status
        integrity.run("status", expect=0)
        assert service.log.count(" ERROR ") < 5
        service.stop()
        assert "Traceback" not in service.log


@pytest.mark.root
def test_full_disk_at_the_start_ends_the_service(integrity: Box, tmp_path: Path) -> None:
    """It exits 4 with a sentence: whoever starts it again finds space, or not."""
    configure(integrity, plant(tmp_path / "root", 10))
    integrity.home.mkdir(exist_ok=True)
    with small_tmpfs(integrity.home / "disk", 24 << 20):
        integrity.catalog = integrity.home / "disk/catalog.db"
        with filled(integrity.home / "disk"):
            place = {"INTEGRITY_CATALOG": str(integrity.catalog)}
            with Service(integrity, env=place, is_awaited=False) as service:
                assert 4 == service.wait_end()
                assert "full" in service.log
                assert "Traceback" not in service.log


def test_catalog_of_a_running_service_is_not_restored(integrity: Box, tmp_path: Path) -> None:
    """
    The restore says what has it open; nothing is exchanged, and the service goes on with its own file.

    If that is exchanged by hand all the same, what follows goes into the one in its place.
    """
    root = plant(tmp_path / "root", 10)
    configure(integrity, root)
    integrity.run("scan", expect=0)
    integrity.run("catalog", "backup", expect=0)
    with Service(integrity, is_shared=False) as service:
        service.wait_begun()
        inode = integrity.catalog.stat().st_ino
        refused = integrity.run("catalog", "restore", "--yes", expect=4)
        assert "is in use" in refused.stderr
        assert "daemon" in refused.stderr
        assert "systemctl stop integrity" in refused.stderr
        assert inode == integrity.catalog.stat().st_ino

        copy = max(integrity.home.glob("catalog-*.db"))
        os.rename(integrity.catalog, tmp_path / "former.db")
        for suffix in ("-wal", "-shm"):
            os.rename(f"{integrity.catalog}{suffix}", tmp_path / f"former.db{suffix}")
        os.rename(copy, integrity.catalog)
        plant(root / "more", 7)
        wait_until(lambda: count_rows(integrity) == 17, "the new files in the catalog")
        integrity.run("catalog", "backup", expect=0)
        service.stop()
    integrity.run("catalog", "restore", "--yes", expect=0)
    assert 17 == count_rows(integrity)
