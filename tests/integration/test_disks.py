"""What disks report: read by a real program, recorded, told once, and told beside damage."""

from __future__ import annotations

import html
import os
from pathlib import Path

import pytest

from integrity.catalog.connection import Catalog
from integrity.catalog.root_meta import replace_reports
from integrity.config import Config, parse_config
from integrity.disks.report import Count, DeviceKind, DeviceReport, DeviceTrouble, Quantity
from integrity.files.block_devices import find_device
from integrity.jobs.context import Context
from integrity.jobs.disks import DiskCheck
from integrity.service.device_queue import LogReport
from support.alerting import Teller, mail_config
from support.bitrot import rot
from support.catalogs import CatalogBox
from support.cli import Box, JsonObject
from support.clock import Clock
from support.loopfs import LoopFS
from support.reading import opened_root
from support.service import Service
from support.smartctl import ASLEEP, FakeSmartctl, ata
from support.smtpsink import SmtpSink, mail_toml
from support.waiting import wait_until
from support.webpage import WebPage

pytestmark = pytest.mark.root

NOW = 1_764_000_000
DAY_S = 86_400
HOUR_S = 3600
LATE_S = 60


class Checked:
    """
    A recorded folder, its disk, and a check whose clock is set.

    Attributes:
        disk: the name of the disk below the folder.
    """

    def __init__(self, box: Box, folder: Path, smartctl: FakeSmartctl) -> None:
        self.box, self.folder, self.smartctl = box, folder, smartctl
        with opened_root(os.fsencode(folder)) as fd:
            self.disk = find_device(fd).name
        (folder / "a.jpg").write_bytes(os.urandom(1 << 20))
        box.run("scrub", folder, expect=0)
        self.clock = Clock(NOW)
        self._check = DiskCheck()

    def check(self, *, after_s: int = 0, config: str = "", is_restarted: bool = False) -> bool:
        """Let time pass, and check the disks once."""
        self.clock.now += after_s
        self._check = DiskCheck() if is_restarted else self._check
        with Catalog.open(bytes(self.box.catalog), writes=True) as catalog:
            return self._check.run(Context(catalog, self._parse(config), LogReport(), clock=self.clock))

    def _parse(self, config: str) -> Config:
        return parse_config(config.encode(), "integrity.toml")

    @property
    def open(self) -> list[JsonObject]:
        """The open findings."""
        return list(self.box.run("--json", "findings").findings)

    @property
    def messages(self) -> list[str]:
        """What the open findings say."""
        return [str(one["message"]) for one in self.open]


@pytest.fixture
def checked(integrity: Box, ext4: LoopFS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checked:
    """Record a folder whose disk the test speaks for."""
    smartctl = FakeSmartctl(tmp_path / "bin")
    monkeypatch.setenv("PATH", smartctl.environment["PATH"])
    return Checked(integrity, ext4.folder, smartctl)


def test_disk_that_begins_to_fail_is_a_finding(checked: Checked) -> None:
    """Before any file is lost; it ends when the disk reports nothing any more."""
    checked.smartctl.show(checked.disk, ata(a197=8))
    checked.check()
    (finding,) = checked.open

    assert "disk_warning" == finding["kind"]
    assert str(finding["message"]).endswith("reports 8 pending sectors.")
    replace = f"{checked.disk}: copy what you need from it to another disk, then replace it; all that it reports"
    assert [
        {"words": replace, "command": f"smartctl -x /dev/{checked.disk}"},
        {
            "words": "after you moved the files to another disk",
            "command": f"integrity root rebind {checked.folder} NEW",
        },
    ] == finding["next_steps"]
    assert 3 == checked.box.run("status").code
    checked.smartctl.show(checked.disk, ata())
    assert checked.check(after_s=DAY_S)
    assert [] == checked.open


def test_growth_is_told_anew_and_standing_still_is_not(checked: Checked) -> None:
    """An acknowledged warning that gets worse is a new one."""
    checked.smartctl.show(checked.disk, ata(a197=5))
    checked.check()
    first = checked.open[0]["id"]
    checked.box.run("ack", str(first), expect=0)
    assert not checked.check(after_s=DAY_S)
    assert [first] == [one["id"] for one in checked.open]
    checked.smartctl.show(checked.disk, ata(a197=8))
    assert checked.check(after_s=DAY_S)
    (finding,) = checked.open

    assert first != finding["id"]
    assert "open" == finding["state"]
    assert "8 pending sectors (5 until 2025-11-26)" in str(finding["message"])


def test_disk_is_read_once_a_day(checked: Checked) -> None:
    """Also by a service that starts again and again."""
    checked.smartctl.show(checked.disk, ata())
    for _ in range(23):
        checked.check(after_s=HOUR_S, is_restarted=True)
    assert 1 == len(checked.smartctl.calls)
    checked.check(after_s=2 * HOUR_S)
    assert 2 == len(checked.smartctl.calls)


def test_disk_is_read_again_after_damage(checked: Checked) -> None:
    """The mail about it is to say what the disk reports now; more damage within the hour reads nothing more."""
    checked.smartctl.show(checked.disk, ata())
    checked.clock.now = 0
    checked.check()
    rot(checked.folder / "a.jpg", 5)
    checked.box.run("scrub", checked.folder, expect=1)
    checked.check(after_s=HOUR_S // 2)
    assert 1 == len(checked.smartctl.calls)
    checked.check(after_s=HOUR_S // 2)
    assert 2 == len(checked.smartctl.calls)


def test_sleeping_disk_keeps_its_values_and_writes_nothing(checked: Checked) -> None:
    """The next look follows within hours, and finds it awake."""
    checked.smartctl.show(checked.disk, ata(a197=8))
    checked.check()
    checked.smartctl.show(checked.disk, "", code=ASLEEP)
    before = checked.box.catalog.read_bytes()
    checked.check(after_s=DAY_S)
    assert before == checked.box.catalog.read_bytes()
    assert 1 == len(checked.open)
    checked.smartctl.show(checked.disk, ata())
    checked.check(after_s=HOUR_S)
    assert [] == checked.open


def test_two_folders_on_one_disk_ask_it_once(checked: Checked, tmp_path: Path) -> None:
    """Each shows what it reports."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "b.jpg").write_bytes(b"b")
    checked.box.run("scrub", other, expect=0)
    checked.smartctl.show(checked.disk, ata())
    checked.check()

    assert 1 == len(checked.smartctl.calls)
    objects = checked.box.run("--json", "status", expect=0).of_type("root")
    assert [["WDC WD40EFRX-68N32N0, serial WD-TEST0001"]] * 2 == [
        [one["label"] for one in root["devices"]]  # type: ignore[attr-defined]
        for root in objects
    ]


def test_disk_that_is_not_asked(checked: Checked, ext4: LoopFS) -> None:
    """
    A virtual disk has nothing to report, and is not mentioned. Without `smart` what was known is forgotten.

    An unmounted folder says nothing of the disk below its mount point: its own may be well or not.
    """
    checked.check()
    assert "disks" not in checked.box.run("status", expect=0).stdout
    assert [] == checked.open
    checked.smartctl.show(checked.disk, ata(a197=8))
    checked.check(after_s=DAY_S)
    assert 1 == len(checked.open)
    asked = len(checked.smartctl.calls)
    checked.check(after_s=1, config="[disks]\nsmart = false\n")
    assert [] == checked.open
    ext4.umount()
    checked.check(after_s=DAY_S, is_restarted=True)
    assert asked == len(checked.smartctl.calls)


def test_page_status_and_metrics_show_what_the_disk_reports(checked: Checked) -> None:
    """The same values everywhere; nothing is damaged, and nothing was left unchecked."""
    checked.smartctl.show(checked.disk, ata(a197=8))
    checked.check()
    text = checked.box.run("status", expect=3).stdout
    (device,) = checked.box.get_object("root", "status")["devices"]  # type: ignore[attr-defined,misc]
    metrics = checked.box.run("status", "--prometheus", expect=0).stdout

    assert "could not be checked" not in text
    name = f"disk {checked.disk} (WDC WD40EFRX-68N32N0, serial WD-TEST0001)"
    assert f"  disks      {name}: 8 pending sectors, 34 °C (read 2025-11-24" in text
    assert (8, ["8 pending sectors"], 34) == (
        device["counts"]["pending_sectors"],
        device["signs"],
        device["temperature_c"],
    )
    where = f'device="{checked.disk}",kind="disk"'
    assert f'integrity_device_warning{{{where},root="{checked.folder}"}} 1.0' in metrics
    assert 'quantity="pending_sectors"' in metrics
    with WebPage(checked.box, "") as page:
        shown = html.unescape(page.visitor().get("/").text)
    assert "serial WD-TEST0001): 8 pending sectors, 34 °C (read 2025-11-24" in shown
    assert "Act before files are lost: 1 disk warning." in shown
    assert "could be checked" not in shown


def test_disk_that_does_not_answer_holds_nothing_up(checked: Checked, tmp_path: Path) -> None:
    """Files are verified and the service ends in time while the program that asks the disk hangs."""
    os.mkfifo(tmp_path / "never")
    checked.smartctl.replace(f"#!/bin/sh\necho \"$*\" >>'{tmp_path}/bin/calls'\nexec cat '{tmp_path}/never'\n")
    with Service(checked.box, env=checked.smartctl.environment) as service:
        service.wait_begun()
        wait_until(lambda: bool(checked.smartctl.calls), "the call", timeout_s=LATE_S)
        checked.box.run("scrub", checked.folder, expect=0)
        service.stop()
    assert "stopped although" not in service.log
    os.close(os.open(tmp_path / "never", os.O_RDWR))  # ends the program


@pytest.mark.parametrize(
    ("sample", "sentence"),
    [
        (ata(a197=8), "reports 8 pending sectors: copy what you need"),
        (ata(), "reports no problem: check its cable, and the memory (memtest86+)."),
    ],
)
def test_mail_about_damage_says_what_the_disk_reports(
    sample: dict[str, object], sentence: str, checked: Checked, sink: SmtpSink
) -> None:
    """A bit flipped on a real file system, found by the real service, beside a disk that reports something or not."""
    checked.smartctl.show(checked.disk, sample)
    checked.box.configure(f'{mail_toml(sink.port)}[alerts]\ngroup = "1s"\n')
    rot(checked.folder / "a.jpg", 5)
    with Service(checked.box, env=checked.smartctl.environment) as service:
        service.wait_begun()
        checked.box.run("scrub", checked.folder, expect=1)
        wait_until(lambda: any("a.jpg" in one.text for one in sink.received), "the mail", timeout_s=LATE_S)
        service.stop()
    text = " ".join(next(one.text for one in sink.received if "a.jpg" in one.text).split())

    assert f"The disk {checked.disk} (WDC WD40EFRX-68N32N0, serial WD-TEST0001) {sentence}" in text


def test_reminder_of_damage_says_what_the_disk_reports(box: CatalogBox, sink: SmtpSink) -> None:
    """As last read; disks that report nothing, and arrays that are well, are not mentioned."""
    counts = {Quantity.PENDING: Count(8)}
    reports = [
        DeviceReport("sda", DeviceKind.DISK, "WDC WD40", NOW, NOW, is_healthy=True, counts=counts),
        DeviceReport("md0", DeviceKind.MD, "raid1", NOW, NOW),
        DeviceReport("vda", DeviceKind.DISK, "", NOW, trouble=DeviceTrouble.UNSUPPORTED),
    ]
    with box.catalog.transaction() as connection:
        replace_reports(connection, box.root, reports)
    teller = Teller(box, mail_config(sink.port))
    teller.find(b"a.jpg")
    teller.tick(after=HOUR_S)
    teller.tick(after=DAY_S)
    texts = [" ".join(one.text.split()) for one in sink.received]

    assert 2 == len(texts)
    assert all("The disk sda (WDC WD40) reports 8 pending sectors: copy what you need" in text for text in texts)
    assert not [text for text in texts if "md0" in text or "vda" in text]
