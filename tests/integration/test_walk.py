"""
An owner's year on a machine that has booted: set up with one command, damaged, deleted, unplugged, mended.

After each thing that happens ``status``, the findings, the page and the mails are asked until they agree and say what
is so; what a person reads first at each of these moments is written to ``tests/output/walk.txt``, without what differs
from run to run, to be proofread.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from integration.test_setup import make_sink
from support.bitrot import rot
from support.loopfs import LoopFS
from support.planted import age
from support.preload import Shims
from support.systemdbox import PROGRAM, SystemdBox
from support.waiting import TimedOutError, wait_until
from support.webpage import WebClient

TRANSCRIPT = Path(__file__).parents[1] / "output" / "walk.txt"
PHOTOS, BACKUP, MAILS = "/srv/photos", "/mnt/backup", "/run/mails"
ALBUMS, FILES, DAY_S = ("Album 1", "Album 2"), 12, 86_400
SOON_S = 150.0  # the service looks at the clock once a minute
SHIM, CLOCK = "/usr/local/lib/clockjump.so", "/usr/local/lib/clock"
DROP_IN = f"[Service]\nEnvironment=LD_PRELOAD={SHIM} RIG_CLOCK={CLOCK}\nProtectHome=read-only\nPrivateTmp=no\n"
PASSWORD = "correct horse battery"

pytestmark = [pytest.mark.root, pytest.mark.first, pytest.mark.timeout(900)]


class Disk:
    """A disk of the machine that is plugged in and pulled out while the service runs."""

    def __init__(self, box: SystemdBox, fs: LoopFS, point: str) -> None:
        self.folder = fs.folder
        self._box, self._point, self._device = box, point, fs.device.decode()
        box.run("mknod", self._device, "b", "7", self._device.removeprefix("/dev/loop"))
        box.run("mkdir", "-p", point)
        self.plug_in()

    def plug_in(self) -> None:
        self._box.run("mount", self._device, self._point)

    def pull_out(self) -> None:
        self._box.run("umount", "--lazy", self._point)


class Owner:
    """Somebody who keeps photos, and reads what is said about them."""

    def __init__(self, box: SystemdBox, photos: Disk, backup: Disk) -> None:
        self.box, self.photos, self.backup = box, photos, backup
        self.told: list[str] = []
        self._mails_seen = 0
        self._browser = WebClient(8431)

    def run(self, *arguments: str, expect: int | None = None) -> str:
        """Run a command, with the clock that the machine has."""
        environment = ("env", f"LD_PRELOAD={SHIM}", f"RIG_CLOCK={CLOCK}")
        return self.box.run(*environment, "integrity", *arguments, expect=expect)

    def set_clock(self, offset_s: int) -> None:
        self.box.run("sh", "-c", f"echo {offset_s} > {CLOCK}")  # the same file, which the programs have open

    def log_in(self) -> None:
        """Open the link of the page's log, and choose a password."""
        link = re.search(r"/welcome\?token=(\S+)", self.box.log("integrity-web.service"))
        assert link is not None
        with self.box.network():
            assert (
                303
                == self._browser.post("/welcome", {"token": link[1], "password": PASSWORD, "again": PASSWORD}).status
            )
            assert 303 == self._browser.log_in(PASSWORD).status

    def see(self, event: str, verdict: str, *, mails: tuple[str, ...] = ()) -> None:
        """Wait until status and page both say what is so, and the mails about it have come; keep what is read."""
        self.told.append(f"\n=== {event}")
        disagreement, status = "", ""

        def agree() -> bool:
            nonlocal disagreement, status
            page = self._read_page()
            new = self.read_mails()[self._mails_seen :]
            missing = [words for words in mails if not any(words in mail for mail in new)]
            disagreement = f"no mail: {missing}, or not on the page: {verdict!r}\n{page}"
            if missing or not re.search(verdict.removeprefix("^"), page):
                return False
            status = self.run("status")  # a start of the program, which costs more than a page
            first = status.splitlines()[0]
            disagreement = f"{first!r} of status, for {verdict!r}; on the page: {first in page}"
            return re.search(verdict, first) is not None and first in page

        try:
            wait_until(agree, event, timeout_s=SOON_S, every_s=2.0)
        except TimedOutError as error:
            raise AssertionError(f"{event}: {disagreement}\n{self.box.log('integrity.service')[-4000:]}") from error
        new, self._mails_seen = self.read_mails()[self._mails_seen :], len(self.read_mails())
        self.told += [status.partition("\n\n")[0], self.run("findings").rstrip(), *(f"mail to {mail}" for mail in new)]

    def _read_page(self) -> str:
        with self.box.network():
            page = self._browser.get("/")
            if page.status != 200:  # the log-in has ended, as after a month
                assert 303 == self._browser.log_in(PASSWORD).status
                page = self._browser.get("/")
        return html.unescape(re.sub(r"<[^>]+>", "", page.text))

    def read_mails(self) -> list[str]:
        return self.box.run("cat", MAILS).splitlines()


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    """Boot a machine with photos on one disk and their backup on another one, and a mail server."""
    Shims(tmp_path)
    with ExitStack() as stack:
        disks = [stack.enter_context(LoopFS("ext4")) for _ in range(2)]
        for disk in disks:
            for album in ALBUMS:
                (disk.folder / album).mkdir()
                for number in range(FILES):
                    path = disk.folder / album / f"{number:02}.jpg"
                    path.write_bytes(f"{album} {number}".encode() * 4_000)
                    age(path)
        box = stack.enter_context(SystemdBox())
        box.let_program_in()
        box.run("ln", "-s", PROGRAM, "/usr/local/bin/integrity")
        box.run("rm", "-rf", "/home")
        (box.root / SHIM.lstrip("/")).write_bytes((tmp_path / "clockjump.so").read_bytes())
        box.put(CLOCK, "0\n")
        for unit in ("integrity", "integrity-web"):
            box.put(f"/etc/systemd/system/{unit}.service.d/test.conf", DROP_IN)
        box.put("/root/sink.py", make_sink())
        box.run("systemd-run", "--unit=sink", sys.executable, "/root/sink.py")
        wait_until(lambda: box.run("cat", MAILS, expect=None) == "", "the mail server", every_s=0.1)
        yield Owner(box, Disk(box, disks[0], PHOTOS), Disk(box, disks[1], BACKUP))


def set_up(owner: Owner) -> None:
    """Answer what setup asks, with a window far from now, and shorten what a person would wait for."""
    hour = int(owner.box.run("date", "+%H"))
    window = f"{(hour + 6) % 24:02}:00-{(hour + 11) % 24:02}:00"
    answers = ("--yes", "--root", PHOTOS, "--archive", PHOTOS, "--copy", PHOTOS, BACKUP, "--page", "local")
    owner.run("setup", *answers, "--mail-to", "me@example.org", "--window", window, expect=0)
    place = owner.box.root / "etc/integrity/integrity.toml"
    config = place.read_text(encoding="utf-8")
    for name in ("settle", "group"):
        config, count = re.subn(rf"^# {name} = \S+", f'{name} = "1s"', config, count=1, flags=re.MULTILINE)
        assert count == 1, name
    place.write_text(config, encoding="utf-8")
    owner.box.run("systemctl", "reload", "integrity.service")
    owner.log_in()


def test_year_of_an_owner(owner: Owner) -> None:
    """Each moment is told as it is: by status, page and mail alike."""
    box, run, see = owner.box, owner.run, owner.see
    first, second = (owner.photos.folder / album for album in ALBUMS)
    set_up(owner)
    see("set up with one command", "^24 files .* not been verified", mails=("alerts arrive",))
    rot(first / "03.jpg")
    rot(first / "07.jpg")
    run("scrub", PHOTOS, expect=1)
    see("one bit of two photos flips, and the disk is read", "^2 damaged files; both", mails=("2 damaged photos",))
    run("repair", PHOTOS, "--from", "backup", "--apply", expect=0)
    see("both are repaired as the mail says", "^All 24 files", mails=("all clear",))
    box.run("rm", "-r", f"{PHOTOS}/Album 2")
    see("an album is deleted", "^12 files missing; all 12", mails=("12 photos missing",))
    box.run("cp", "-rp", f"{BACKUP}/Album 2", PHOTOS)
    see("it is copied back by cp -rp", "^12 files .* not been verified", mails=("all clear",))
    (second / "05.jpg").write_bytes(b"another picture" * 3_000)
    see("a photo is replaced", "^1 file changed; it can be repaired", mails=("1 photo changed",))
    box.run("rsync", "-a", f"{BACKUP}/Album 2/05.jpg", f"{PHOTOS}/Album 2/")
    see("it is copied back by rsync -a", "^11 files .* not been verified", mails=("all clear",))
    box.run("mv", f"{PHOTOS}/Album 1", f"{PHOTOS}/Summer")
    see("an album is renamed", "^11 files .* not been verified")
    owner.photos.pull_out()
    see("the disk is pulled out", "its disk is not mounted", mails=("not mounted",))
    owner.photos.plug_in()
    see("it is plugged in again", "^11 files .* not been verified", mails=("all clear",))
    run("scrub", PHOTOS, expect=0)
    see("the disk is read", "^All 24 files")
    box.run("sh", "-c", f"dd if=/dev/zero of={PHOTOS}/film.mp4 bs=64k 2>/dev/null", expect=None)
    see("a film fills the disk", "^1 file .* not been verified")
    box.run("rm", f"{PHOTOS}/film.mp4")
    see("it is deleted", "^1 file missing; no good copy", mails=("missing",))
    run("accept", f"{PHOTOS}/film.mp4", "--reason", "too large", expect=0)
    see("that was meant", "^All 24 files", mails=("all clear",))
    box.run("sh", "-c", "dd if=/dev/zero of=/var/fill bs=64k 2>/dev/null", expect=None)
    (first.with_name("new.jpg")).write_bytes(b"a new picture" * 3_000)
    see("the disk of the catalog is full", "^The disk with the catalog is full")
    box.run("rm", "/var/fill")
    see("there is room again", "^1 file .* not been verified")
    box.run("systemctl", "stop", "integrity.service")
    see("the service is stopped", "^The service that checked here was stopped")
    box.run("systemctl", "start", "integrity.service")
    see("and started", "^1 file .* not been verified")
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "DATE TIME", "\n".join(owner.told).lstrip() + "\n")
    known = TRANSCRIPT.read_text(encoding="utf-8") if TRANSCRIPT.exists() else ""
    TRANSCRIPT.write_text(text, encoding="utf-8")

    before = len(owner.read_mails())  # what is said from here on depends on the time of day: of when files are verified
    owner.set_clock(31 * DAY_S)
    see("the clock is a month ahead", ".", mails=("alive",))
    owner.set_clock(0)
    see("and is set back", ".")
    mails = owner.read_mails()[before:]
    assert len(set(mails)) == len(mails), mails
    assert known == text, f"the transcript changed: proofread {TRANSCRIPT}, and commit it"
