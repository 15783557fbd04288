"""The real service on real trees: what comes into a watched root is recorded soon, whatever else is going on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from support.cli import Box
from support.inotify import is_limiting_possible, limiting, make_folders
from support.planted import plant
from support.service import Service
from support.stored import count_rows, is_recorded, is_verified, query
from support.waiting import wait_until

SETTLE_S = 1
ALWAYS = 'scrub = "00:00-24:00"'
NEVER = 'scrub = "0 0 29 feb *"'
MIB = 1 << 20
QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")


def configure(box: Box, root: Path, schedule: str = NEVER, more: str = "") -> None:
    """Have one root that settles soon."""
    box.configure(f'[[root]]\npath = "{root}"\nsettle = "{SETTLE_S}s"\n\n[schedule]\n{schedule}\n{more}\n')


def test_copied_file_is_recorded_and_verified_soon(integrity: Box, root: Path, tmp_path: Path) -> None:
    """
    After the quiet time it is in the catalog; while a window is open it is read once more.

    A rename brings many files with one event, and what is later changed in them is seen, too.
    """
    configure(integrity, root, ALWAYS)
    with Service(integrity) as service:
        service.wait_begun()
        (root / "new.bin").write_bytes(os.urandom(3 * MIB))

        wait_until(lambda: is_recorded(integrity, "new.bin"), "a record", every_s=0.05)
        wait_until(lambda: is_verified(integrity, "new.bin"), "a second reading", every_s=0.05)
        plant(tmp_path / "elsewhere", 300)
        os.rename(tmp_path / "elsewhere", root / "here")
        wait_until(lambda: count_rows(integrity) == 301, "all files", every_s=0.05)
        (root / "here/d3/late.txt").write_text("late")
        wait_until(lambda: is_recorded(integrity, "late.txt"), "a record", every_s=0.05)
        service.stop()


def test_file_is_recorded_while_a_large_one_is_scrubbed(integrity: Box, root: Path) -> None:
    """A scrub makes room for what is new on its disk, goes on afterwards, and verifies the new one as well."""
    configure(integrity, root, ALWAYS, '[pace]\nrate = "8MiB"\n')
    (root / "large.bin").write_bytes(os.urandom(64 * MIB))
    integrity.run("scan", expect=0)
    with Service(integrity) as service:
        service.wait_status("scrub of")
        (root / "new.bin").write_bytes(os.urandom(MIB))

        wait_until(lambda: is_recorded(integrity, "new.bin"), "a record", every_s=0.05)
        assert not is_verified(integrity, "large.bin")
        wait_until(lambda: is_verified(integrity, "large.bin"), "the end of the scrub", every_s=0.1)
        wait_until(lambda: is_verified(integrity, "new.bin"), "a second reading", every_s=0.1)
        service.stop()
    scrubbed = sum(int(str(row[0])) for row in query(integrity, "SELECT bytes_read FROM run WHERE job = 'scrub'"))
    assert scrubbed <= 1.1 * 65 * MIB


def test_burst_beyond_the_queue_of_the_kernel_is_recorded(integrity: Box, root: Path) -> None:
    """The daemon sleeps through more new files than the kernel's queue holds; each of them is found."""
    configure(integrity, root)
    folders, count = make_folders(os.fsencode(root), 50), int(QUEUE.read_text()) // 2 + 1_000  # two events each
    with Service(integrity) as service:
        service.wait_begun()
        service.signal(signal.SIGSTOP)
        for nth in range(count):
            os.close(os.open(folders[nth % 50] + b"/%d.txt" % nth, os.O_CREAT | os.O_WRONLY))
        service.signal(signal.SIGCONT)

        service.wait_log("reason=overflow")
        wait_until(lambda: count_rows(integrity) == count, "all files", every_s=0.2)
        service.stop()


@pytest.mark.skipif(not is_limiting_possible(), reason="this kernel gives this user no user namespace")
def test_too_few_watches_are_said_and_scans_find_the_rest(integrity: Box, root: Path) -> None:
    """With 40 watches for 100 folders the log and the status say what to do, and a scan finds what nobody saw."""
    configure(integrity, root)
    folders = make_folders(os.fsencode(root), 100)
    with Service(integrity, wrapper=limiting(watches=40)) as service:
        service.wait_begun()
        service.wait_log("watch_blind")
        for folder in folders:
            with open(folder + b"/file", "xb") as file:
                file.write(folder)
        integrity.run("scan", expect=0)

        assert 100 == count_rows(integrity)
        assert "max_inotify_watches" in service.log
        assert "max_inotify_watches" in integrity.run("status").stdout
        service.stop()
