"""The real service compares copies, tells what it finds, and waits for disks that are away."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from support.cli import Box, JsonObject
from support.loopfs import LoopFS
from support.planted import plant, plant_path
from support.running import Running
from support.service import Service
from support.shapes import damage
from support.smtpsink import SmtpSink, mail_toml
from support.stored import query, rewrite
from support.waiting import wait_until

NEVER = "0 0 29 feb *"
COUNT = 30
DAY_S = 86_400
MIB = 1 << 20


def write(
    box: Box,
    root: Path,
    *copies: Path | str,
    sink: SmtpSink | None = None,
    compare: str = NEVER,
    scrub: str = NEVER,
    more: str = "",
) -> None:
    """Write the configuration; a copy that was never compared is due when the service begins, whatever the schedule."""
    text = f'[[root]]\npath = "{root}"\nsettle = "1s"\n'
    for number, copy in enumerate(copies):
        text += f'[[copy]]\nname = "copy{number}"\nof = "{root}"\nurl = "{copy}"\n'
    text += f'[schedule]\nscan = "{NEVER}"\nscrub = "{scrub}"\ncompare = "{compare}"\n'
    if sink is not None:
        text += mail_toml(sink.port)
        text += '[alerts]\ngroup = "0s"\n'
    box.configure(text + more)


def wait_compared(box: Box, *outcomes: str, name: str = "copy0") -> None:
    """Wait until the comparisons of the schedule have ended like this, and no other was begun."""
    sql = "SELECT outcome FROM schedule_run WHERE schedule = ? ORDER BY id"
    wait_until(
        lambda: query(box, sql, (f"compare:{name}",)) == [(one,) for one in outcomes],
        f"comparisons that ended {outcomes}",
        every_s=0.05,
    )


def show(box: Box, name: str = "copy0") -> JsonObject:
    """Return what status says of a copy; until the service has made the catalog, that it waits for nothing."""
    unknown: JsonObject = {"waits": None}
    return next((one for one in box.json("status") if one["type"] == "copy" and one["name"] == name), unknown)


def wait_waiting(box: Box, part: str) -> None:
    """Wait until status says what a copy waits for."""
    wait_until(lambda: part in str(show(box)["waits"]), f"a copy that {part}", every_s=0.2)


def copy_findings(box: Box) -> list[object]:
    """List the kinds of the open findings."""
    return [row[0] for row in query(box, "SELECT kind FROM finding WHERE state != 'resolved' ORDER BY id")]


def test_damage_in_a_copy_is_mailed_and_its_end_as_well(integrity: Box, tmp_path: Path) -> None:
    """One mail names file, copy and what to do. A day is missed; the copy was mended meanwhile: an all-clear."""
    root = plant(tmp_path / "photos", COUNT, size_bytes=5000)
    copy = Path(shutil.copytree(root, tmp_path / "backup"))
    os.truncate(plant_path(copy, 4), 4000)
    with SmtpSink() as sink:
        write(integrity, root, copy, sink=sink)
        with Service(integrity) as service:
            wait_compared(integrity, "findings")
            wait_until(lambda: len(sink.received) == 1, "a mail")
            service.stop()
        (mail,) = sink.received
        assert ": BACKUP of 1 file is incomplete, original unchanged" in mail.mail["Subject"]
        assert f"in the copy copy0  {plant_path(root, 4)}\n" in mail.text
        assert "run the backup again, keeping what it replaces" in mail.text
        assert f"next:  {integrity.program} compare {plant_path(root, 4)} --with copy0\n" in mail.text
        assert f"<code>{plant_path(root, 4)}</code>" in mail.html

        shutil.copy2(plant_path(root, 4), plant_path(copy, 4))
        rewrite(integrity, "UPDATE schedule_run SET started_at = started_at - ?", (DAY_S,))
        write(integrity, root, copy, sink=sink, compare="daily")
        with Service(integrity) as service:
            wait_compared(integrity, "findings", "clean")
            wait_until(lambda: len(sink.received) == 2, "another mail")
            service.stop()
    assert "all clear: 1 finding resolved, none open" in sink.received[1].mail["Subject"]
    assert "the copy matches the record" in sink.received[1].text


def test_copy_that_was_compared_is_left_alone_until_it_is_due(integrity: Box, tmp_path: Path) -> None:
    """Also over restarts; the next run is shown."""
    root = plant(tmp_path / "root", COUNT)
    write(integrity, root, shutil.copytree(root, tmp_path / "copy"), compare="sun 03:00")
    for _ in range(2):
        with Service(integrity) as service:
            wait_compared(integrity, "clean")
            service.wait_begun()
            service.stop()
    with Service(integrity) as service:
        runs = integrity.get_object("service", "status")["next_runs"]
        service.stop()
    assert isinstance(runs, list)
    assert {"compare:copy0", "scan"} <= {one["name"] for one in runs}
    wait_compared(integrity, "clean")


@pytest.mark.root
def test_copy_on_a_removable_disk_is_compared_when_it_appears(integrity: Box, tmp_path: Path) -> None:
    """Until then it waits without a word, over a restart, too; taken away again it is no alarm either."""
    root = plant(tmp_path / "root", COUNT, size_bytes=3000)
    with LoopFS() as disk, SmtpSink() as sink:
        copy = Path(shutil.copytree(root, disk.folder / "backup"))
        plant_path(copy, 7).unlink()
        disk.umount()
        write(integrity, root, copy, sink=sink)
        for _ in range(2):
            with Service(integrity) as service:
                wait_waiting(integrity, "waits for its disk: ")
                service.wait_idle()
                service.stop()
        assert [] == copy_findings(integrity)
        with Service(integrity) as service:
            wait_waiting(integrity, "waits for its disk: ")
            disk.mount()
            wait_compared(integrity, "findings")
            wait_until(lambda: len(sink.received) == 1, "a mail")
            disk.umount()
            service.wait_idle()
            service.stop()
        assert ["copy_missing"] == copy_findings(integrity)
        assert plant_path(root, 7).name in sink.received[0].text


@pytest.mark.root
def test_disk_that_is_pulled_in_the_middle_is_waited_for(integrity: Box, tmp_path: Path) -> None:
    """No file is missing for that, and nothing is open; when it is back, what was compared is not read again."""
    root = plant(tmp_path / "root", 8)
    for number in range(8):
        plant_path(root, number).write_bytes(os.urandom(2 * MIB))
    with LoopFS() as disk:
        copy = Path(shutil.copytree(root, disk.folder / "backup"))
        write(integrity, root, copy)
        integrity.run("scan", expect=0)
        write(integrity, root, copy, more='[pace]\nrate = "2MiB"\nfloor = "1MiB"\n')
        with Service(integrity) as service:
            compared = "SELECT count(*) FROM copy_file"
            wait_until(lambda: int(str(query(integrity, compared)[0][0])) > 1, "a part")
            service.stop()
        disk.umount()
        write(integrity, root, copy)
        with Service(integrity) as service:
            wait_waiting(integrity, "waits for its disk: ")
            disk.mount()
            wait_compared(integrity, "clean")
            service.stop()
    assert [] == copy_findings(integrity)
    runs = query(integrity, "SELECT bytes_read FROM run WHERE job = 'compare'")
    read = sum(int(str(row[0])) for row in runs)
    assert 16 * MIB <= read <= 20 * MIB, runs


def test_scan_that_is_asked_for_does_not_wait_for_a_comparison(integrity: Box, tmp_path: Path) -> None:
    """It makes room at once, and goes on afterwards."""
    root = plant(tmp_path / "root", 8)
    for number in range(8):
        plant_path(root, number).write_bytes(os.urandom(2 * MIB))
    copy = shutil.copytree(root, tmp_path / "copy")
    write(integrity, root, copy, more='[pace]\nrate = "2MiB"\nfloor = "1MiB"\n')
    with Service(integrity) as service:
        service.wait_status("with copy0: ")
        (root / "new.txt").write_text("new")
        summary = integrity.summary("scan", root, expect=0)
        assert 9 == summary["files_known"]
        wait_until(lambda: "with copy0: " in service.status, "the comparison to go on")
        wait_compared(integrity, "findings")  # the new file is not in the copy
        service.stop()
    assert ["copy_missing"] == copy_findings(integrity)


def test_server_that_does_not_answer_is_told_at_once(integrity: Box, tmp_path: Path) -> None:
    """No file is missing for that. A copy that is there now is compared when the configuration says where."""
    root = plant(tmp_path / "root", COUNT)
    copy = shutil.copytree(root, tmp_path / "copy")
    with SmtpSink() as sink:
        write(integrity, root, "ssh://nobody@127.0.0.1:1/copy", sink=sink)
        with Service(integrity) as service:
            wait_until(lambda: len(sink.received) == 1, "a mail")
            wait_waiting(integrity, "is tried again")
            assert ["copy_unreadable"] == copy_findings(integrity)
            assert ": backup copy0 can't be read" in sink.received[0].mail["Subject"]
            write(integrity, root, copy, sink=sink)
            service.reload()
            wait_compared(integrity, "clean")
            wait_until(lambda: len(sink.received) == 2, "an all-clear")
            service.stop()
    assert "all clear" in sink.received[1].mail["Subject"]


def test_reload_takes_new_copies_and_lets_go_of_former_ones(integrity: Box, tmp_path: Path) -> None:
    """What is open about one that is gone ends with it."""
    root = plant(tmp_path / "root", COUNT)
    first, second = (Path(shutil.copytree(root, tmp_path / name)) for name in ("first", "second"))
    plant_path(first, 3).unlink()
    write(integrity, root)
    with Service(integrity) as service:
        service.wait_begun()
        write(integrity, root, first, second)
        service.reload()
        wait_compared(integrity, "findings")
        wait_compared(integrity, "clean", name="copy1")
        write(integrity, root)
        service.reload()
        wait_until(lambda: copy_findings(integrity) == [], "the end of the finding")
        assert not [one for one in integrity.json("status") if one["type"] == "copy"]
        service.stop()


def test_command_has_the_service_make_room(integrity: Box, tmp_path: Path) -> None:
    """
    A scrub of hours is no reason to refuse a comparison or a repair.

    It goes on when the command has ended, also if that is killed.
    """
    root = plant(tmp_path / "root", COUNT)
    (root / "large.bin").write_bytes(os.urandom(64 * MIB))
    copy = shutil.copytree(root, tmp_path / "copy")
    integrity.run("scan", root, expect=0)
    damaged = plant_path(root, 5)
    good = damaged.read_bytes()
    damage(damaged)
    integrity.run("scrub", damaged, expect=1)
    pace = '[pace]\nrate = "4MiB"\nfloor = "1MiB"\n'
    write(integrity, root, more=pace, scrub="00:00-24:00")
    with Service(integrity) as service:
        service.wait_status("scrub of")
        integrity.run("repair", damaged, "--from", copy, "--apply", expect=0)
        assert good == damaged.read_bytes()
        service.wait_status("scrub of")
        summary = integrity.summary("compare", root, "--with", copy, expect=0)
        assert COUNT + 1 == summary["files_verified"]
        service.wait_status("scrub of")

        with Running(integrity, "compare", root, "--with", copy, "--rate", "1M") as running:
            service.wait_status(f"compare of {root}")
            running.signal(signal.SIGKILL)
            service.wait_status("scrub of")
        service.stop()
