"""The service survives kill -9 at any moment: what it has said it has said once, what it calls verified is (R7, R9)."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from integrity.catalog.connection import Catalog
from integrity.catalog.maintenance import check
from support.bitrot import flip_bit
from support.cli import REAL_PAUSES, Box
from support.loopfs import LoopFS
from support.planted import age
from support.service import Service
from support.smtpsink import SmtpSink, mail_toml
from support.stored import query, rewrite
from support.waiting import wait_until

FILES, FILE_BYTES = 40, 32_768
# Most are short; some end while rot is being confirmed, which takes some seconds (R3), some with a mail.
LIVES_S = (*[(0.3, 1.1)] * 6, (2.0, 4.5), (12.0, 12.0))

LARGE_BYTES = 400 << 20


@dataclass
class Damage:
    """
    What the test has done to files behind everybody's back.

    Attributes:
        at: when, for each path.
        digests: of what was in the files before.
    """

    at: dict[Path, float] = field(default_factory=dict)
    digests: dict[Path, bytes] = field(default_factory=dict)

    def flip(self, path: Path) -> None:
        """Change one bit of a file on its disk."""
        self.digests[path] = md5(path)
        flip_bit(path, FILE_BYTES // 2)
        self.at[path] = time.time()


def md5(path: Path) -> bytes:
    """Digest what programs see in a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "md5").digest()


def make_tree(folder: Path, victims: int) -> list[Path]:
    """Make files, and return those that are going to rot."""
    folder.mkdir()
    paths = [folder / f"file{number}" for number in range(FILES)]
    rotten = [folder / f"victim{number}" for number in range(victims)]
    for path in (*paths, *rotten):
        path.write_bytes(os.urandom(FILE_BYTES))
    os.sync()
    age(*paths, *rotten)
    return rotten


def churn(folder: Path, life: int) -> None:
    """Edit, make, move and remove files, as people do."""
    source = random.Random(life)
    (folder / f"file{source.randrange(20)}").write_bytes(os.urandom(FILE_BYTES))
    (folder / f"new{life}").write_bytes(os.urandom(FILE_BYTES))
    if (folder / f"new{life - 2}").exists():
        (folder / f"new{life - 2}").rename(folder / f"moved{life}")
    (folder / f"moved{life - 3}").unlink(missing_ok=True)


def live(box: Box, folder: Path, life: int, sink: SmtpSink) -> None:
    """Let the service live for a while, with work to do, and kill it in the middle, or when it has just sent a mail."""
    life_s = random.Random(life).uniform(*LIVES_S[life % len(LIVES_S)])
    with Service(box, env=REAL_PAUSES, is_awaited=False) as service:
        ends_at = time.monotonic() + life_s
        wait_until(lambda: time.monotonic() > ends_at - life_s + min(life_s / 2, 0.8), "the time to work", every_s=0.01)
        churn(folder, life)
        mails = len(sink.received)
        wait_until(
            lambda: time.monotonic() > ends_at or len(sink.received) > mails, "its end", timeout_s=20, every_s=0.001
        )
        assert not service.has_ended, service.log
        service.kill()


def check_catalog(box: Box) -> None:
    """Have the catalog looked through as ``catalog check`` does, if there is one yet."""
    with Catalog.open(bytes(box.catalog), writes=False) as catalog:
        report = check(catalog)
    assert report.is_right, report


def check_verified(box: Box, folder: Path, damage: Damage) -> None:
    """Make sure that all that is recorded is true, and that nothing damaged was verified."""
    columns = "name, size_bytes, mtime_ns, md5, verified_at"
    for name, size_bytes, mtime_ns, digest, verified_at in query(box, f"SELECT {columns} FROM file"):
        assert isinstance(name, bytes)
        path = folder / os.fsdecode(name)
        if path in damage.at:
            assert digest == damage.digests[path], path
            assert verified_at is None or int(str(verified_at)) <= damage.at[path], path
        elif path.exists() and (path.stat().st_size, path.stat().st_mtime_ns) == (size_bytes, mtime_ns):
            assert digest == md5(path), path


def check_mails(box: Box, sink: SmtpSink, findings: set[object]) -> None:
    """Make sure that each finding was mailed, and none under two Message-IDs."""
    ids = {str(mail.mail["Message-ID"]).strip() for mail in sink.received}
    told = defaultdict(set)
    for message_id, incidents in query(box, "SELECT message_id, incidents FROM alert WHERE kind = 'incident'"):
        for number in str(incidents).split():
            told[int(number)].add(message_id)
    assert findings == set(told)
    assert all(len(messages) == 1 for messages in told.values()), told
    assert {one for messages in told.values() for one in messages} <= ids
    assert [] == query(box, "SELECT alert_id FROM delivery WHERE sent_at IS NULL")
    known = {str(row[0]) for row in query(box, "SELECT message_id FROM alert")}
    assert ids <= known


def is_done(box: Box, names: set[bytes], rotten: set[bytes]) -> bool:
    """Tell whether all files but the rotten ones are verified, and the rotten ones told."""
    verified = {row[0] for row in query(box, "SELECT name FROM file WHERE verified_at IS NOT NULL")}
    found = {row[0] for row in query(box, "SELECT path FROM finding WHERE kind = 'rot'")}
    told = query(box, "SELECT count(*) FROM told")[0][0]
    unsent = query(box, "SELECT count(*) FROM delivery WHERE sent_at IS NULL")[0][0]
    return names - rotten <= verified and rotten == found and told == len(rotten) and unsent == 0


@pytest.mark.root
@pytest.mark.parametrize("kills", [8, pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_service_that_is_killed_again_and_again(ext4: LoopFS, integrity: Box, kills: int) -> None:
    """Scans, scrubs, findings and mails go on where they were; nothing is lost, told twice, or verified unread."""
    folder, damage = ext4.folder / "data", Damage()
    victims = make_tree(folder, kills // 3 + 1)
    with SmtpSink() as sink:
        integrity.configure(
            f'[[root]]\npath = "{folder}"\nsettle = "1s"\nverify_every = "1d"\n'
            '[schedule]\nscrub = "00:00-24:00"\n[pace]\nrate = "2M"\nfloor = "64K"\n[alerts]\ngroup = "1s"\n'
            f"{mail_toml(sink.port)}"
        )
        integrity.run("scan", folder, expect=0)
        for life in range(kills):
            live(integrity, folder, life, sink)
            check_catalog(integrity)
            check_verified(integrity, folder, damage)
            rewrite(integrity, "UPDATE alert SET created_at = created_at - 3600")  # no more than five an hour are sent
            if life % 3 == 0:
                damage.flip(victims[life // 3])
        rotten = {bytes(path.relative_to(folder)) for path in damage.at}
        with Service(integrity) as service:
            names = {os.fsencode(name) for name in os.listdir(folder)}
            wait_until(lambda: is_done(integrity, names, rotten), "the end of all work", every_s=0.2)
            service.stop()
        check_verified(integrity, folder, damage)
        findings = {row[0] for row in query(integrity, "SELECT id FROM finding")}
        assert len(rotten) == len(findings), query(integrity, "SELECT kind, path, state FROM finding")
        check_mails(integrity, sink, findings)
    assert "all is well" in integrity.run("catalog", "check", expect=0).stdout


def find_offset(box: Box) -> int:
    """Tell how far the large file was read, as the catalog has it."""
    return max([0, *(int(str(offset)) for (offset,) in query(box, "SELECT offset_bytes FROM checkpoint"))])


def kill_and_count(service: Service) -> int:
    """Kill the service, and tell how many bytes it has read from disks."""
    service.signal(signal.SIGSTOP)
    read_bytes = count_read(service)
    service.kill()
    return read_bytes


def count_read(service: Service) -> int:
    """Tell how many bytes the service has read from disks so far."""
    lines = Path(f"/proc/{service.pid}/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes:"))


@pytest.mark.root
def test_large_file_that_is_verified_between_kills(integrity: Box) -> None:
    """Whenever a part of it is done a kill costs one piece of 8 MiB: three less than a tenth of the file."""
    with LoopFS("ext4", size_bytes=2 * LARGE_BYTES) as disk:
        path = disk.folder / "data" / "large.img"
        path.parent.mkdir()
        with open(path, "wb") as file:
            for _ in range(LARGE_BYTES >> 20):
                file.write(os.urandom(1 << 20))
            os.fsync(file.fileno())
        age(path)
        integrity.configure(
            f'[[root]]\npath = "{path.parent}"\nblock_size = "64KiB"\n'
            '[schedule]\nscrub = "00:00-24:00"\n[pace]\nrate = "60M"\npressure = 100\n'
        )
        integrity.run("scan", path.parent, expect=0)
        total_bytes, offset = 0, 0
        for _ in range(3):
            with Service(integrity) as service:
                wait_until(lambda before=offset: find_offset(integrity) > before, "the next part")
                total_bytes += kill_and_count(service)
            offset = find_offset(integrity)
        with Service(integrity) as service:
            done = "SELECT 1 FROM file WHERE verified_at IS NOT NULL"
            wait_until(lambda: bool(query(integrity, done)), "the end of the file")
            total_bytes += count_read(service)
            service.stop()

    assert LARGE_BYTES <= total_bytes <= 1.1 * LARGE_BYTES
    assert [] == query(integrity, "SELECT kind FROM finding")


@pytest.mark.parametrize("is_told", [True, False])
def test_end_of_the_machine_is_marked(integrity: Box, tmp_path: Path, is_told: bool) -> None:
    """Only a service that was told so says that the machine went down in order; the next one takes it back."""
    (tmp_path / "data").mkdir()
    integrity.configure(f'[[root]]\npath = "{tmp_path}/data"\n')
    with Service(integrity) as service:
        if is_told:
            service.signal(signal.SIGPWR)
        service.stop()
    marked = query(integrity, "SELECT count(*) FROM boot WHERE stopped_cleanly_at IS NOT NULL AND fs_id = ''")
    with Service(integrity) as service:
        service.kill()

    assert [(int(is_told),)] == marked
    assert [(0,)] == query(integrity, "SELECT count(*) FROM boot WHERE stopped_cleanly_at IS NOT NULL")
