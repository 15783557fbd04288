"""What ``status``, the page, the metrics, and the mails say after each thing that happens to an owner's folder."""

from __future__ import annotations

import html
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integrity.alerts.compose import Composer
from integrity.catalog.connection import Catalog
from integrity.catalog.findings import find_findings
from integrity.catalog.notified import PendingIncident
from support.bitrot import rot
from support.cli import Box
from support.comparing import back_up
from support.loopfs import LoopFS
from support.planted import plant, plant_path
from support.reading import let_age
from support.service import Service
from support.smtpsink import SmtpSink
from support.waiting import wait_until
from support.webpage import WebClient, WebPage

pytestmark = pytest.mark.root

_NEVER = 'scan = "0 0 29 feb *"\nscrub = "0 0 29 feb *"'
_METRIC = re.compile(r'^integrity_(?:copy_)?findings_open\{.*kind="(\w+)".*\} (\S+)$', re.MULTILINE)


class Owner:
    """Somebody whose photos are watched, and who reads all that is said about them."""

    def __init__(self, box: Box, disk: LoopFS, copy: Path, root: Path) -> None:
        self.box, self.disk, self.copy, self.root = box, disk, copy, root
        self._away = copy.with_name("away")

    def run(self, *args: str | Path) -> None:
        """Run a command, whatever it finds."""
        done = self.box.run(*args, timeout=60)
        assert done.code in (0, 1, 3), f"{args}: {done.stdout}{done.stderr}"

    def live(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """Return what happens, in order."""
        scrub = lambda: self.run("scrub", self.root)  # noqa: E731
        scan = lambda: self.run("scan", self.root)  # noqa: E731
        compare = lambda: self.run("compare", "--with", "nightly")  # noqa: E731
        album = plant_path(self.root, 3).parent
        yield "all is verified", scrub
        yield "one bit flips", lambda: (rot(plant_path(self.root, 1)), scrub())
        yield "another one", lambda: (rot(plant_path(self.root, 2)), scrub())
        yield "the backup is compared", compare
        yield "a file is repaired", lambda: self.run("repair", plant_path(self.root, 1), "--apply")
        yield "all is repaired", lambda: self.run("repair", self.root, "--from", "nightly", "--apply")
        yield "a folder is deleted", lambda: ([each.unlink() for each in album.iterdir()], scan())
        yield "it is brought back", lambda: self.run("repair", self.root, "--from", "nightly", "--apply")
        yield "a file is edited", lambda: (plant_path(self.root, 5).write_bytes(b"edited"), scan())
        yield "that is accepted", lambda: self.run("accept", plant_path(self.root, 5), "--reason", "meant")
        yield "its backup is old", compare
        yield "it is backed up", lambda: (back_up(self.root, self.copy), compare())
        yield "the backup loses a file", lambda: (plant_path(self.copy, 6).unlink(), compare())
        yield "the backup is away", lambda: (self.copy.rename(self._away), compare())
        yield "the backup is back", lambda: (self._away.rename(self.copy), back_up(self.root, self.copy), compare())
        yield "the disk is unplugged", lambda: (self.disk.umount(), scan())
        yield "the disk is plugged in", lambda: (self.disk.mount(), scan())
        yield "the folder is paused", lambda: self.run("root", "pause", self.root)
        yield "the folder is resumed", lambda: (self.run("root", "resume", self.root), scan())
        yield "new files come", lambda: (plant(self.root / "new", 3), scan())
        yield "they are verified", scrub


@pytest.mark.first
def test_all_that_is_said_agrees(integrity: Box, ext4: LoopFS, tmp_path: Path) -> None:
    """One verdict and the same numbers everywhere; a mail for what is wrong, and at the end an all-clear."""
    root = plant(ext4.folder / "photos", 12, size_bytes=5000)
    let_age(plant_path(root, 11))
    copy = back_up(root, tmp_path / "copy")
    integrity.configure(f'[[root]]\npath = "{root}"\npolicy = "archive"\n')
    integrity.run("scan", root, expect=0)
    with SmtpSink() as sink:
        toml = (
            f'[[root]]\npath = "{root}"\npolicy = "archive"\nsettle = "1s"\n'
            f'[schedule]\n{_NEVER}\n[alerts]\ngroup = "1s"\n'
            f'[[copy]]\nname = "nightly"\nof = "{root}"\nurl = "{copy}"\n'
            f'[mail]\nto = ["me@example.org"]\ntransport = "smtp"\nhost = "127.0.0.1"\nport = {sink.port}\n'
        )
        with WebPage(integrity, toml) as page, Service(integrity) as service:
            service.wait_begun()
            owner, visitor = Owner(integrity, ext4, copy, root), page.visitor()
            for event, happen in owner.live():
                happen()
                wait_until(lambda: _find_contradiction(owner, visitor) == "", event, every_s=0.5)
            subjects = [str(each.mail["Subject"]) for each in sink.received]
            wait_until(lambda: "all clear" in str(sink.received[-1].mail["Subject"]), "an all-clear")
            assert integrity.run("status").stdout.startswith("All 15 files")
            service.stop()
    assert any("damaged" in subject for subject in subjects), subjects


def test_file_with_two_findings_is_one_damaged_file(integrity: Box, ext4: LoopFS) -> None:
    """It rotted, and was replaced by another bad one of the same time: status, metrics, and the mail count files."""
    root = plant(ext4.folder / "photos", 12, size_bytes=5000)
    let_age(plant_path(root, 11))
    integrity.run("scan", root, expect=0)
    rot(plant_path(root, 1))
    rot(plant_path(root, 2))
    integrity.run("scrub", root, expect=1)
    bad, other = plant_path(root, 2), root / "other"
    other.write_bytes(b"x" * 5000)
    os.utime(other, ns=(bad.stat().st_mtime_ns, bad.stat().st_mtime_ns))
    other.rename(bad)
    integrity.run("scrub", bad, expect=1)

    found = integrity.findings("findings", expect=1)
    assert Counter({"rot": 2, "silent_rewrite": 1}) == Counter(str(one["kind"]) for one in found)
    said = integrity.run("status", expect=1).stdout
    assert said.startswith("2 damaged files; no good copy is known yet.")
    assert "open       2 damaged files:" in said
    assert f'integrity_damaged_files{{root="{root}"}} 2.0' in integrity.run("status", "--prometheus").stdout
    with Catalog.open(bytes(integrity.catalog), writes=False) as catalog, catalog.read() as connection:
        news = [PendingIncident(one, is_change=False, coalesced=0) for one in find_findings(connection)]
    body = Composer("nas").incident(news, 0, files=12).body
    assert body.startswith("nas: 2 damaged files in photos\n")
    assert "\n2 of 12 files are affected" in body


def _find_contradiction(owner: Owner, visitor: WebClient) -> str:
    """Return what two of them say differently about one moment; empty if all agree."""
    done = owner.box.run("--json", "status")
    known = Counter[str]()
    for part in (*done.of_type("root"), *done.of_type("copy")):
        open_kinds = part["findings_open"]
        assert isinstance(open_kinds, dict)
        known.update(open_kinds)
    metrics = Counter[str]()
    for kind, number in _METRIC.findall(visitor.get("/metrics").text):
        metrics[kind] += int(float(number))
    listed = Counter(str(one["kind"]) for one in owner.box.findings("findings"))
    (verdict, *_) = owner.box.run("status").stdout.splitlines()
    text = html.unescape(re.sub(r"<[^>]+>", "", visitor.get("/").text))
    said = {"metrics": +metrics == +known, "findings": listed == known, "page": verdict in text}
    return ", ".join(name for name, agrees in said.items() if not agrees)
