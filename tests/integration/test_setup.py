"""
``integrity setup`` on a machine that has booted: three disks, one of them an old backup, a mail server, and systemd.

The dialog of a person who presses Enter at each question is written to ``tests/output/setup.txt``, without what differs
from run to run, to be proofread; ``docs/setup.md`` shows it.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.cli import JsonObject
from support.dialog import ENTER, Dialog
from support.loopfs import LoopFS
from support.setupbox import FILES, MISSING, PROMPT, answer, answer_secret, fill_disks, press_enter
from support.systemdbox import PROGRAM, SystemdBox
from support.waiting import wait_until
from support.webpage import PASSWORD

UNIT = "integrity.service"
TRANSCRIPT = Path(__file__).parents[1] / "output" / "setup.txt"
DOCUMENT = Path(__file__).parents[2] / "docs" / "setup.md"
CONFIG = "/etc/integrity/integrity.toml"
MAILS = "/run/mails"
WORDS_PER_MINUTE = 240  # what adults read of plain text; names and numbers are skimmed
READING_MIN = 2  # up to the last question
MACHINE_S = 60

_SINK = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from support.smtpsink import SmtpSink
from support.waiting import wait_until
seen = []
def note():
    for mail in sink.received[len(seen):]:
        seen.append(mail)
        with open({MAILS!r}, "a") as file:
            print(*mail.recipients, mail.mail["Subject"], file=file)
with SmtpSink(port=PORT) as sink:
    open({MAILS!r}, "w").close()
    wait_until(note, "the end", timeout_s=1e9, every_s=0.1)
"""

ADDRESS = "192.0.2.7"
MESSAGES = "/run/messages"
PHONE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from support.waiting import wait_until
from support.servers import WebSink
noted = 0
def note():
    global noted
    for _, _, body in sink.asked[noted:]:
        noted += 1
        with open({MESSAGES!r}, "ab") as file:
            file.write(body + b"\\n")
with WebSink(port=2586) as sink:
    open({MESSAGES!r}, "w").close()
    wait_until(note, "the end", timeout_s=1e9, every_s=0.1)
"""

pytestmark = pytest.mark.root


def make_sink(port: int = 25) -> str:
    """Make a program that takes mails as a mail server does, and keeps who gets them, and their subjects."""
    return _SINK.replace("PORT", str(port))


def read_mails(box: SystemdBox, count: int) -> list[str]:
    """Return whom the mails went to, and their subjects: the server notes them a moment after it took them."""

    def read() -> list[str]:
        return box.run("cat", MAILS).splitlines()

    wait_until(lambda: len(read()) >= count, f"{count} mails", every_s=0.1)
    return read()


@pytest.fixture
def box() -> Iterator[SystemdBox]:
    """Boot a machine with three disks and a mail server, and nothing of ours."""
    with ExitStack() as stack:
        data, photos, old = (stack.enter_context(LoopFS(kind)).folder for kind in ("ext4", "xfs", "ext4"))
        fill_disks(data, photos, old)
        os.sync()
        places = {data: "/srv/data", photos: "/srv/photos", old: "/mnt/disk3"}
        box = stack.enter_context(SystemdBox(places))
        box.let_program_in()
        box.run("ln", "-s", PROGRAM, "/usr/local/bin/integrity")
        box.run("rm", "-rf", "/home")
        box.put("/root/sink.py", make_sink())
        box.run("systemd-run", "--unit=sink", sys.executable, "/root/sink.py")
        wait_until(lambda: box.run("cat", MAILS, expect=None) == "", "the mail server", every_s=0.1)
        yield box


def talk(box: SystemdBox, *options: str, path: str = "") -> Dialog:
    """Sit down at the terminal of the machine, and start setup."""
    inside = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root"]
    search = f"{path}/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    environment = [f"PATH={search}", "TERM=xterm", "LANG=C.UTF-8", "HOME=/root", "TZ=UTC"]
    command = ["nsenter", f"--target={box.pid}", *inside, "--", "env", "-i", "--chdir=/", *environment]
    return Dialog([*command, "integrity", "setup", *options], env=dict(os.environ))


def press_enter_to_the_end(dialog: Dialog) -> int:
    """Take each default, up to the end; return the number of questions."""
    questions = 0
    while "What happens next" not in dialog.text and dialog.wait_for_any(PROMPT, "What happens next") == PROMPT:
        dialog.type(ENTER)
        questions += 1
    return questions


def ask(box: SystemdBox, *arguments: str) -> list[JsonObject]:
    """Run a command of root's in the box and return what it told."""
    told = box.run(PROGRAM, "--json", *arguments, expect=None)
    return [json.loads(line) for line in told.splitlines() if line.startswith("{")]


def count_same(box: SystemdBox) -> int:
    """Count the files that the old backup was seen to have."""
    (copy,) = [one for one in ask(box, "status") if one["type"] == "copy"]
    return int(str(copy["files_same"]))


def normalize(text: str) -> str:
    """Replace what differs from run to run: times, rates, and the numbers of loop devices."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "2026-11-25 01:00", text)
    text = re.sub(r"at [\d.,]+ [KMG]iB/s \(measured\)", "at 180 MiB/s (measured)", text)
    text = re.sub(r"&& (rm -r \S+|\S+ -m pip uninstall integrity-nas)", "&& rm -r /opt/integrity", text)
    text = text.replace("  now               the first scrub", "  2026-11-25 01:00  the first scrub")  # in the window
    return re.sub(r"\bloop\d+", "loop0", text)


def test_five_minutes_of_a_person_with_defaults(box: SystemdBox) -> None:
    """Enter at each question: data and photos are watched, the old backup is compared, mail comes, the service runs."""
    began = time.monotonic()
    with talk(box) as dialog:
        questions = press_enter_to_the_end(dialog)
        assert 0 == dialog.finish(), dialog.text
    duration_s = time.monotonic() - began
    words, total = (len(text.split()) for text in (dialog.text.rpartition(PROMPT)[0], dialog.text))
    print(f"{questions} questions, {words} of {total} words, {duration_s:.0f} s of the machine's time")

    assert questions <= 10
    assert words <= READING_MIN * WORDS_PER_MINUTE, dialog.text
    assert duration_s < MACHINE_S
    text = box.run("cat", CONFIG)
    settings = {line.split("  ")[0] for line in text.splitlines() if line and not line.startswith(("#", "["))}
    expected = {
        *('path = "/srv/data"', 'path = "/srv/photos"', 'policy = "mutable"', 'policy = "archive"'),
        *('name = "disk3"', 'of = "/srv/data"', 'url = "/mnt/disk3"', 'behind = "2d"'),
        *('to = ["root"]', 'transport = "smtp"', "inspect = true"),
    }
    assert expected == settings
    assert "640 root integrity" == box.run("stat", "-c", "%a %U %G", CONFIG).strip()
    drill, test = read_mails(box, 2)
    assert "root [integrity] box: this is a drill: 1 damaged test file" == drill
    assert test.startswith("root [integrity] box: test")
    assert ("active", "enabled") == (box.show(UNIT, "ActiveState"), box.show(UNIT, "UnitFileState"))
    assert "all is well" in box.run(PROGRAM, "config", "check")

    wait_until(lambda: count_same(box) == FILES - MISSING, "the comparison", every_s=0.2)
    compare_with_transcript(normalize(dialog.text))


def compare_with_transcript(now: str) -> None:
    """Keep the dialog for people; the document shows no line that is not in it."""
    former = TRANSCRIPT.read_text() if TRANSCRIPT.exists() else ""
    if former != now:
        TRANSCRIPT.write_text(now)
    assert former == now, f"the dialog changed: proofread {TRANSCRIPT}, and commit it"
    shown = re.search(r"\n\n    \$ integrity setup\n(.*?)\n\n[^ \n]", DOCUMENT.read_text(), re.DOTALL)
    assert shown is not None
    numberless = {blur(line) for line in now.splitlines()}
    lines = [line.strip() for line in shown[1].splitlines()]
    assert [] == [line for line in lines if line not in ("", "...") and blur(line) not in numberless]


def blur(line: str) -> str:
    """Leave out sizes and rates, of which a real machine has larger ones, and blanks."""
    return re.sub(r"[\d.,]+ (B|[KMGT]iB|files?|h|min|s)\b|a moment|\s", "", line)


def test_service_is_set_up_without_a_terminal(box: SystemdBox) -> None:
    """Options for who installs many machines; a second time nothing is to be written."""
    options = ("--yes", "--root", "/srv/photos", "--no-copies", "--mail-to", "me@example.org")
    box.run(PROGRAM, "setup", *options)
    before, pid = box.run("cat", CONFIG), box.show(UNIT, "MainPID")
    again = box.run(PROGRAM, "setup", "--yes", "--no-copies", "--no-test")
    assert pid != box.show(UNIT, "MainPID")
    pid = box.show(UNIT, "MainPID")
    with talk(box, *options[1:], "--no-test", "--window", "01:00-06:00", "--verify-every", "30d") as dialog:
        for question in ("Which of these are archives?", "phone", "page for browsers?"):
            dialog.wait_for(question)
            dialog.type(ENTER)
        dialog.wait_for("Install and start the service?")
        dialog.type("no" + ENTER)
        assert 0 == dialog.finish()
    assert pid == box.show(UNIT, "MainPID")

    assert "active" == box.show(UNIT, "ActiveState")
    assert "says all of this already" in again
    assert before == box.run("cat", CONFIG)
    assert read_mails(box, 1)[0].startswith("me@example.org [integrity] box: this is a drill")


@pytest.mark.long
def test_page_and_push_are_set_up(box: SystemdBox) -> None:
    """
    In the network, with repairs: a browser that trusts the certificate logs in, and the service reaches the phone.

    Only the user of the page can read the key; the dialog shows the fingerprint of the certificate.
    """
    box.run("ip", "address", "add", f"{ADDRESS}/24", "dev", "lo")
    box.put("/root/phone.py", PHONE)
    box.run("systemd-run", "--unit=phone", sys.executable, "/root/phone.py")
    wait_until(lambda: box.run("cat", MESSAGES, expect=None) == "", "the server for phones", every_s=0.1)
    # The program under test may lie in somebody's home, or below /tmp.
    settings = "[Service]\nProtectHome=read-only\nPrivateTmp=no\n"
    box.put("/etc/systemd/system/integrity-web.service.d/test.conf", settings)
    with talk(box, "--root", "/srv/data", "--no-copies", "--mail-to", "none") as dialog:
        press_enter(dialog, 2)
        answer(dialog, "Should your phone get alerts, too?", "ntfy://127.0.0.1:2586/t0pic")
        answer(dialog, "Did the message arrive on your phone?", "yes")
        answer(dialog, "page for browsers? none, local, or lan", "lan")
        answer(dialog, "What may be done on the page? look, decide or repair", "repair")
        answer(dialog, "Write it, and install and start the service?")
        answer_secret(dialog, PASSWORD)
        answer_secret(dialog, PASSWORD)
        assert 0 == dialog.finish(), dialog.text + box.log("integrity-web.service")

    assert "the service has sent a test message, too" in dialog.text
    assert ["t0pic", "t0pic"] == [json.loads(line)["topic"] for line in box.run("cat", MESSAGES).splitlines()]
    assert "active" == box.show("integrity-web.service", "ActiveState")
    certificate = "/var/lib/integrity-web/certificate.pem"
    assert "600 integrity-web" == box.run("stat", "-c", "%a %U", certificate).strip()
    url = f"https://{ADDRESS}:8431"
    assert f"The page:           {url}/" in dialog.text
    form = ("--data-urlencode", f"password={PASSWORD}", "--output", "/dev/null", "--write-out", "%{http_code}")
    assert "303" == box.run("curl", "--silent", "--cacert", certificate, *form, f"{url}/login")
    shown = box.run("openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in", certificate).partition("=")[2]
    assert shown.strip() in re.sub(r"\s", "", dialog.text)
    assert "ReadWritePaths" in box.run("cat", "/etc/systemd/system/integrity.service.d/repair.conf")
    box.run("integrity", "service", "uninstall")


@pytest.mark.long
def test_interruption_of_the_installation_says_how_to_go_on(box: SystemdBox) -> None:
    """What is written is whole, and one command does the rest."""
    box.put("/root/bin/systemctl", "#!/bin/sh\nkill -INT $PPID\n")
    (box.root / "root/bin/systemctl").chmod(0o755)
    with talk(box, "--no-test", path="/root/bin:") as dialog:
        while dialog.wait_for_any(PROMPT, "interrupted") == PROMPT:
            dialog.type(ENTER)
        assert 130 == dialog.finish()

    assert f"interrupted; written: {CONFIG}; to go on: integrity service install --now" in dialog.text
    box.run("integrity", "service", "install", "--now")
    assert "active" == box.show(UNIT, "ActiveState")


def test_what_would_fail_at_the_end_is_told_before_the_first_question(box: SystemdBox) -> None:
    """Nobody answers ten questions for nothing."""
    unit, folder = "/etc/systemd/system/integrity.service", "/etc/integrity"
    for prepare, complaint, undo in (
        (f"ln -s /dev/null {unit}", "edited, or not written by integrity", f"rm {unit}"),
        (
            f"chmod o-x {PROGRAM.parent}",
            "closed to others, so the service's user can't start",
            f"chmod o+x {PROGRAM.parent}",
        ),
        (f"mkdir -p {folder} && mount -t tmpfs -o ro tmpfs {folder}", "the file system is mounted read-only", "true"),
    ):
        box.run("sh", "-c", prepare)
        assert complaint in box.run("integrity", "setup", "--yes", expect=2)
        assert "" == box.run("sh", "-c", f"ls -A {folder} 2>&-", expect=None)
        box.run("sh", "-c", undo)
