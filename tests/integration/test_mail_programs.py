"""Mail programs that people have, as the ``sendmail`` of a service in its sandbox on a booted machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from integration.test_setup import MAILS, make_sink, read_mails
from support.loopfs import LoopFS
from support.machine import need_programs
from support.setupbox import fill
from support.systemdbox import PROGRAM, SystemdBox
from support.waiting import wait_until

PORT = 2525
WATCHED = "/tmp/data"
MSMTP = f"""
defaults
logfile /var/log/msmtp.log
account default
host 127.0.0.1
port {PORT}
from root@box
"""

pytestmark = pytest.mark.root


@pytest.fixture
def box(ext4: LoopFS) -> Iterator[SystemdBox]:
    """Boot a machine with a disk below /tmp, and a mail server that is not at the usual port."""
    fill(ext4.folder, 5, "odt", age_days=20)
    with SystemdBox({ext4.folder: WATCHED}) as box:
        box.let_program_in()
        box.run("rm", "-rf", "/home")
        box.put("/root/sink.py", make_sink(PORT))
        box.run("systemd-run", "--unit=sink", sys.executable, "/root/sink.py")
        wait_until(lambda: box.run("cat", MAILS, expect=None) == "", "the mail server", every_s=0.1)
        yield box


def test_msmtp_sends_the_mails_of_setup_and_service(box: SystemdBox) -> None:
    """It is found, and the service may run it: its temporary file has a place, and folders in /tmp stay visible."""
    need_programs("msmtp")
    box.run("ln", "-sf", "/usr/bin/msmtp", "/usr/sbin/sendmail")
    box.put("/etc/msmtprc", MSMTP)

    said = box.run(PROGRAM, "setup", "--yes", "--root", WATCHED, "--mail-to", "me@example.org")

    assert "mail      me@example.org, through sendmail" in said
    assert "the service has sent a test mail, too" in said
    assert [
        "me@example.org [integrity] box: this is a drill: 1 damaged test file",
        "me@example.org [integrity] box: test: alerts arrive",
    ] == read_mails(box, 2)
