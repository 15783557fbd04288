"""The service beside disks that come and go: it notices by itself, within seconds, and tells nobody what has passed."""

from __future__ import annotations

import pytest

from support.cli import Box
from support.loopfs import LoopFS
from support.planted import plant, plant_path
from support.service import Service
from support.shapes import damage
from support.smtpsink import SmtpSink, mail_toml
from support.waiting import wait_until

NEVER = 'scan = "0 0 29 feb *"\nscrub = "0 0 29 feb *"'
pytestmark = pytest.mark.root


@pytest.mark.long
def test_disk_that_was_away_for_a_moment_is_noticed_and_not_mailed(integrity: Box, ext4: LoopFS) -> None:
    """``status`` follows within seconds, both ways; the one mail that comes is about something else."""
    root = plant(ext4.folder / "photos", 8, size_bytes=5000)
    with SmtpSink() as sink:
        mail = mail_toml(sink.port)
        integrity.configure(f'[[root]]\npath = "{root}"\n[schedule]\n{NEVER}\n{mail}[alerts]\ngroup = "20s"\n')

        def is_suspended() -> bool:
            (known,) = integrity.run("--json", "status").of_type("root")
            return known["state"] == "suspended"

        with Service(integrity) as service:
            service.wait_begun()
            for _ in range(2):
                ext4.umount()
                wait_until(is_suspended, "the disk to be missed")
                (away,) = integrity.findings("findings", expect=3)
                assert "its disk is not mounted" in str(away["message"])
                ext4.mount()
                wait_until(lambda: not is_suspended(), "the disk to be back")
            integrity.run("findings", expect=0)
            damage(plant_path(root, 1), 100)
            integrity.run("scrub", root, expect=1)
            wait_until(lambda: bool(sink.received), "a mail")
            service.stop()
    (only,) = sink.received
    assert "1 damaged file" in only.mail["Subject"] or "changed" in only.mail["Subject"], only.mail["Subject"]
    assert "not mounted" not in only.text
