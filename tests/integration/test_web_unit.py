"""The page as systemd runs it: its user can read the catalog, ask how the service does, and nothing else."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator

import pytest

from support.bitrot import flip_bit
from support.loopfs import LoopFS
from support.planted import age
from support.repairs import BLOCK, blocks
from support.systemdbox import PROGRAM, SystemdBox

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

AS_PAGE = ("setpriv", "--reuid=integrity-web", "--regid=integrity-web", "--init-groups")
_ASK = (
    "import sys; from urllib.request import Request, urlopen;"
    "headers = {'Authorization': 'Bearer 0123456789abcdef0123'};"
    "print(urlopen(Request('http://127.0.0.1:8431' + sys.argv[1], headers=headers)).read().decode())"
)


@pytest.fixture
def box(ext4: LoopFS) -> Iterator[SystemdBox]:
    """Boot a systemd, with the service and the page installed and started."""
    (ext4.folder / "photo.jpg").write_bytes(b"x" * 9_000)
    with SystemdBox({ext4.folder: "/srv/data"}) as box:
        box.let_program_in()
        box.put("/etc/integrity/integrity.toml", '[[root]]\npath = "/srv/data"\n')
        # The program under test may lie in somebody's home, or below /tmp.
        settings = "[Service]\nProtectHome=read-only\nPrivateTmp=no\n"
        box.put("/etc/systemd/system/integrity-web.service.d/test.conf", settings)
        installed = box.run(PROGRAM, "service", "install", "--web", "--now", expect=None)
        assert "started" in installed, installed + box.log("integrity-web.service")
        assert "journalctl -u integrity-web" in installed
        yield box


def ask(box: SystemdBox, path: str) -> str:
    return box.run(sys.executable, "-c", _ASK, path)


def test_page_runs_beside_the_service(box: SystemdBox) -> None:
    """It is healthy, and its log has the link that sets the password; a new start of the service does not end it."""
    assert "active" == box.show("integrity-web.service", "ActiveState")
    assert "ok" in ask(box, "/healthz")
    assert re.search(r"http://127.0.0.1:8431/welcome\?token=\S+", box.log("integrity-web.service"))
    box.run("systemctl", "restart", "integrity.service")
    assert "ok" in ask(box, "/healthz")
    assert "700 integrity-web" in box.run("stat", "--format=%a %U", "/var/lib/integrity-web")


@pytest.mark.long
def test_page_shows_the_last_known_state(box: SystemdBox) -> None:
    """It knows the status of a folder that jobs have locked, while the service is stopped, and after it was killed."""
    box.put("/etc/integrity/token", "0123456789abcdef0123\n")
    box.put(
        "/etc/integrity/integrity.toml", '[[root]]\npath = "/srv/data"\n[web]\ntoken_file = "/etc/integrity/token"\n'
    )
    box.run("systemctl", "restart", "integrity.service", "integrity-web.service")
    box.run(PROGRAM, "scan", "/srv/data")
    assert "integrity:integrity 600" in box.run(
        "stat", "--format=%U:%G %a", "/var/lib/integrity/catalog.db.root-1.lock"
    )
    known = 'integrity_root_files{root="/srv/data"} 1.0'

    for stop in (("kill", "--signal=KILL", "integrity.service"), ("stop", "integrity.service")):
        box.run("systemctl", *stop)
        box.run("systemctl", "stop", "integrity.service")
        box.run("systemctl", "reset-failed", "integrity.service", expect=None)
        box.run("systemctl", "restart", "integrity-web.service")
        assert known in ask(box, "/metrics")
        assert "inactive" == box.show("integrity.service", "ActiveState"), "what its owner stopped stays so"
        box.run("systemctl", "start", "integrity.service")


@pytest.mark.long
@pytest.mark.parametrize("folder", ["/srv/state", "/mnt/a b/state", "/home/alice/state"])
def test_service_and_page_have_their_catalog_where_the_owner_wants_it(box: SystemdBox, folder: str) -> None:
    """Once the folder is the service's. The page also reads a token; of what else is beside them it sees nothing."""
    box.put("/mnt/secrets/token", "0123456789abcdef0123\n")
    box.put(
        "/etc/integrity/integrity.toml",
        f'catalog = "{folder}/catalog.db"\n[[root]]\npath = "/srv/data"\n[web]\ntoken_file = "/mnt/secrets/token"\n',
    )
    install = (PROGRAM, "service", "install", "--web", "--now")
    refused = box.run(*install, expect=2)
    make = re.search(r"install -d -o integrity .*?(?=; then)", refused)
    assert make is not None, refused
    box.run("mkdir", "-p", os.path.dirname(folder))
    box.run("sh", "-c", make[0])
    box.run(*install)
    box.run(PROGRAM, "scan", "/srv/data")
    main_pid = box.show("integrity-web.service", "MainPID")
    seen = ("nsenter", f"--target={main_pid}", "--mount", "ls", "-A")

    assert "integrity:integrity 640" in box.run("stat", "--format=%U:%G %a", f"{folder}/catalog.db")
    assert 'integrity_root_files{root="/srv/data"} 1.0' in ask(box, "/metrics")
    assert "data" not in box.run(*seen, "/srv", expect=None).split()
    assert {"secrets"} >= set(box.run(*seen, "/mnt").split("\n")) - {"a b", ""}
    box.run(PROGRAM, "service", "uninstall")
    assert not (box.root / "etc/systemd/system/integrity.service.d").exists()
    assert ["test.conf"] == [path.name for path in (box.root / "etc/systemd/system/integrity-web.service.d").iterdir()]


@pytest.mark.long
def test_page_can_ask_and_read_and_nothing_else(box: SystemdBox) -> None:
    """Its user may not have the service do anything, and can write nothing of the catalog and of the files."""
    refused = box.run(*AS_PAGE, PROGRAM, "scan", "/srv/data", expect=None)
    assert "actions of the page are switched off" in refused or "by the page" in refused
    assert "integrity:integrity 640" in box.run("stat", "--format=%U:%G %a", "/var/lib/integrity/catalog.db")
    for place in ("/var/lib/integrity/new", "/var/lib/integrity/catalog.db", "/etc/integrity/integrity.toml"):
        box.run(*AS_PAGE, "sh", "-c", f"! echo x >> {place}")


_PASSWORD = "correct horse battery"
_REPAIR = """
import html, re, sys
from http.client import HTTPConnection
from urllib.parse import urlencode

cookie = ""

def ask(method, path, **fields):
    global cookie
    connection = HTTPConnection("127.0.0.1", 8431, timeout=60)
    form = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": cookie}
    connection.request(method, path, urlencode(fields), form)
    reply = connection.getresponse()
    cookie = (reply.headers["Set-Cookie"] or cookie).partition(";")[0]
    text = html.unescape(reply.read().decode())
    print(method, path, reply.status, re.sub("<[^>]*>", "", text.partition("<main")[2]))
    return text

ask("POST", "/login", password=sys.argv[1])
number = re.search(r'href="/findings/([0-9]+)"', ask("GET", "/findings"))[1]
token = re.search(r'name="csrf" value="([0-9a-f]+)"', ask("GET", "/findings/" + number))[1]
plan = ask("POST", "/actions/plan", csrf=token, id=number)
seen = re.search(r'name="seen" value="([0-9a-f]+)"', plan)[1]
ask("POST", "/actions/repair", csrf=token, id=number, seen=seen, password=sys.argv[1])
"""


@pytest.mark.long
def test_page_repairs_where_the_owner_allows_it(ext4: LoopFS) -> None:
    """A flipped bit is mended at the page's request, the owner of the file stays, and nothing else may be written."""
    data = blocks(3)
    for folder in ("watched", "copy", "other"):
        (ext4.folder / folder).mkdir()
        (ext4.folder / folder / "a b").write_bytes(data)
    damaged = ext4.folder / "watched" / "a b"
    os.chmod(damaged, 0o640)
    os.chown(damaged, 1234, 1235)
    age(damaged)
    with SystemdBox({ext4.folder: "/srv"}) as box:
        box.let_program_in()
        box.put(
            "/etc/integrity/integrity.toml",
            '[web]\nactions = true\n[defaults]\nblock_size = "64KiB"\n[[root]]\npath = "/srv/watched"\n'
            '[[copy]]\nname = "nightly"\nof = "/srv/watched"\nurl = "/srv/copy"\n',
        )
        settings = "[Service]\nProtectHome=read-only\nPrivateTmp=no\n"
        box.put("/etc/systemd/system/integrity-web.service.d/test.conf", settings)
        box.run(PROGRAM, "service", "install", "--web", "--now")
        box.run(PROGRAM, "scan", "/srv/watched")
        flip_bit(damaged, BLOCK + 9)
        assert "DAMAGED" in box.run(PROGRAM, "scrub", "/srv/watched", expect=None)
        box.run("sh", "-c", f"echo {_PASSWORD} | {PROGRAM} web --set-password")
        ask_to_repair = (sys.executable, "-c", _REPAIR, _PASSWORD)

        refused = box.run(*ask_to_repair)
        assert "POST /actions/plan 200" in refused
        assert "intact in nightly" in refused
        assert "POST /actions/repair 409" in refused
        assert "integrity repair '/srv/watched/a b' --apply" in refused
        assert "integrity service install --allow-repair --now" in refused
        box.run(PROGRAM, "service", "install", "--allow-repair", "--now")
        repaired = box.run(*ask_to_repair)
        main_pid = box.show("integrity.service", "MainPID")
        written = box.run(
            *("nsenter", f"--target={main_pid}", "--mount", "sh", "-c", "touch /srv/watched/x && ! touch /srv/other/x"),
        )

        assert "repaired, and verified by reading it from disk" in repaired, written
        assert data == damaged.read_bytes()
        status = damaged.stat()
        assert (1234, 1235, 0o640) == (status.st_uid, status.st_gid, status.st_mode & 0o7777)
        box.run(PROGRAM, "findings")
        box.run(PROGRAM, "service", "uninstall")
        assert not (box.root / "etc/systemd/system/integrity.service.d").exists()
