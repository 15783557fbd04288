"""``integrity service``: what it writes where, what it leaves alone, and what it says to do next."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli import Box
from support.privileges import as_nobody, run_as_nobody

UNIT = "etc/systemd/system/integrity.service"
SYSUSERS = "etc/sysusers.d/integrity.conf"
TMPFILES = "etc/tmpfiles.d/integrity.conf"
SMART = {"etc/systemd/system/integrity-smart.socket", "etc/systemd/system/integrity-smart@.service"}
PAGE = "etc/systemd/system/integrity-web.service"
PAGE_SYSUSERS = "etc/sysusers.d/integrity-web.conf"
PROGRAM = Path(sys.executable).with_name("integrity")

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"the package is not installed: there is no {PROGRAM}")


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """The root folder of a system that is being made."""
    folder = tmp_path / "system"
    folder.mkdir()
    return folder


@pytest.fixture
def nobodys(nobodys_box: Box) -> Box:
    """Give a home to a user who is not root."""
    with as_nobody():
        assert nobodys_box.environment
    return nobodys_box


def find_files(folder: Path) -> set[str]:
    """Return the files and links below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or path.is_file()}


def get_versions(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the inode and the time of change of each file below a folder."""
    return {name: ((folder / name).stat().st_ino, (folder / name).stat().st_ctime_ns) for name in find_files(folder)}


def test_install_writes_the_units_and_what_they_need(integrity: Box, system: Path) -> None:
    """The unit, its user and its folders, readable by all whatever the umask, with the program's own path."""
    before = os.umask(0o077)
    try:
        done = integrity.run("service", "install", "--root", system, expect=0)
    finally:
        os.umask(before)

    assert {UNIT, SYSUSERS, TMPFILES, *SMART} == find_files(system)
    assert all(0o644 == stat.S_IMODE((system / name).stat().st_mode) for name in find_files(system))
    assert f"\nExecStart={PROGRAM} daemon\n" in (system / UNIT).read_text()
    assert "\nUser=integrity\n" in (system / UNIT).read_text()
    assert "@" not in (system / UNIT).read_text().replace("@system-service", "").replace("@privileged @resources", "")
    assert "\nu integrity " in (system / SYSUSERS).read_text()
    assert 5 == done.stdout.count(": written")


def test_installing_again_changes_nothing(integrity: Box, system: Path) -> None:
    """Files that are as they would be written are left alone; with -q only what is wrong is said."""
    assert "" == integrity.run("-q", "service", "install", "--root", system, expect=0).stdout
    before = get_versions(system)
    actions = [one["action"] for one in integrity.json("service", "install", "--root", system, expect=0)]

    assert ["unchanged"] * 5 == actions
    assert before == get_versions(system)


def test_older_version_is_replaced(integrity: Box, system: Path) -> None:
    """What was written by another version, whose checksum is right, is brought up to date without a question."""
    integrity.run("service", "install", "--root", system, expect=0)
    unit = system / UNIT
    current = unit.read_text()
    head, _, body = current.partition("# Checksum of what follows: ")
    older = body.partition("\n")[2].replace("WatchdogSec=5min", "WatchdogSec=1min").encode()
    checksum = hashlib.blake2b(older, digest_size=16).hexdigest().encode()
    unit.write_bytes(head.encode() + b"# Checksum of what follows: " + checksum + b"\n" + older)
    integrity.run("service", "install", "--root", system, expect=0)

    assert current == unit.read_text()
    assert {UNIT, SYSUSERS, TMPFILES, *SMART} == find_files(system)


@pytest.mark.parametrize("name", [UNIT, SYSUSERS, TMPFILES])
def test_edited_file_is_not_replaced(integrity: Box, system: Path, name: str) -> None:
    """Nothing is written at all, the message names the file and the better way, and --force keeps the edits."""
    integrity.run("service", "install", "--root", system, expect=0)
    (system / (UNIT if name != UNIT else SYSUSERS)).unlink()
    edited = (system / name).read_text() + "# mine\n"
    (system / name).write_text(edited)
    before = find_files(system)
    refused = integrity.run("service", "install", "--root", system, expect=2)

    assert str(system / name) in refused.stderr
    assert "systemctl edit" in refused.stderr
    assert before == find_files(system)
    assert edited == (system / name).read_text()

    forced = integrity.run("service", "install", "--force", "--root", system, expect=0)
    assert f"{system / name}.edited" in forced.stdout
    assert edited == (system / f"{name}.edited").read_text()
    assert "# mine" not in (system / name).read_text()


def test_foreign_and_masked_units_are_not_replaced(integrity: Box, system: Path) -> None:
    """A unit that somebody else wrote, and one that was masked, count as edited."""
    (system / UNIT).parent.mkdir(parents=True)
    (system / UNIT).write_text("[Service]\nExecStart=/usr/local/bin/own\n")
    integrity.run("service", "install", "--root", system, expect=2)
    (system / UNIT).unlink()
    (system / UNIT).symlink_to("/dev/null")
    integrity.run("service", "install", "--root", system, expect=2)

    assert "/dev/null" == os.readlink(system / UNIT)
    assert {UNIT} == find_files(system)


def test_second_edit_does_not_push_out_the_first(integrity: Box, system: Path) -> None:
    """Each edited file is kept under a name of its own."""
    for text in ("first", "second"):
        integrity.run("service", "install", "--force", "--root", system, expect=0)
        (system / UNIT).write_text(text)
    integrity.run("service", "install", "--force", "--root", system, expect=0)

    assert "first" == (system / f"{UNIT}.edited").read_text()
    assert "second" == (system / f"{UNIT}.edited-2").read_text()


def test_uninstall_removes_what_install_wrote(integrity: Box, system: Path) -> None:
    """Also the link that enabled it; drop-ins and edited files are kept, and named."""
    integrity.run("service", "install", "--root", system, expect=0)
    wants = system / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir()
    (wants / "integrity.service").symlink_to("/etc/systemd/system/integrity.service")
    (system / f"{UNIT}.d").mkdir()
    (system / f"{UNIT}.d/nice.conf").write_text("[Service]\nNice=19\n")
    (system / TMPFILES).write_text("# mine\n")
    done = integrity.run("service", "uninstall", "--root", system, expect=0)

    assert {f"{UNIT}.d/nice.conf", f"{TMPFILES}.edited"} == find_files(system)
    assert f"kept: {system / UNIT}.d" in done.stdout
    assert f"{TMPFILES}.edited" in done.stdout
    assert "no service is installed" in integrity.run("service", "uninstall", "--root", system, expect=0).stdout


def test_page_is_installed_only_if_asked_for(integrity: Box, system: Path) -> None:
    """With --web two more files are written, with the program's own path; installing without it leaves them alone."""
    integrity.run("service", "install", "--root", system, expect=0)
    assert {UNIT, SYSUSERS, TMPFILES, *SMART} == find_files(system)

    integrity.run("service", "install", "--web", "--root", system, expect=0)
    assert {UNIT, SYSUSERS, TMPFILES, *SMART, PAGE, PAGE_SYSUSERS} == find_files(system)
    assert f"ExecStart={PROGRAM} web\n" in (system / PAGE).read_text()
    assert "# Rather add a drop-in: systemctl edit integrity-web\n" in (system / PAGE).read_text()

    before = get_versions(system)
    integrity.run("service", "install", "--root", system, expect=0)
    assert before == get_versions(system)


def test_page_is_not_installed_without_what_it_needs(integrity: Box, system: Path) -> None:
    """Exit 2 with the command that installs the extra, before anything is written."""
    program = "import sys; sys.modules['starlette'] = None; from integrity.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, "service", "install", "--web", "--root", system],
        env=integrity.environment,
        capture_output=True,
        text=True,
    )

    assert 2 == done.returncode, done.stderr
    assert "pip install" in done.stderr
    assert "[web]" in done.stderr
    assert set() == find_files(system)


def test_edited_unit_of_the_page_is_kept(integrity: Box, system: Path) -> None:
    """Installing is refused and writes nothing, --force and uninstalling keep the edited file under another name."""
    integrity.run("service", "install", "--web", "--root", system, expect=0)
    (system / PAGE).write_text("[Service]\nExecStart=/bin/true\n")
    before = get_versions(system)
    refused = integrity.run("service", "install", "--web", "--root", system, expect=2)
    assert "systemctl edit integrity.service or integrity-web.service" in refused.stderr
    assert before == get_versions(system)

    integrity.run("service", "install", "--web", "--force", "--root", system, expect=0)
    (system / PAGE).write_text("[Service]\nExecStart=/bin/false\n")
    (system / f"{PAGE}.d").mkdir()
    removed = integrity.run("service", "uninstall", "--root", system, expect=0)
    assert {f"{PAGE}.edited", f"{PAGE}.edited-2"} == find_files(system)
    assert f"kept: {system / PAGE}.d" in removed.stdout


def test_page_is_the_systems_only(integrity: Box, nobodys: Box) -> None:
    """A user is told how to start a page of his own, and nothing is written."""
    refused = run_as_nobody(nobodys, "service", "install", "--user", "--web")

    assert 2 == refused.code
    assert refused.stderr.endswith(" web\n")
    assert not (nobodys.home / ".config/systemd").exists()
    assert "integrity web" in integrity.run("service", "show", "--user", "--web", expect=2).stderr


@pytest.mark.parametrize("options", [[], ["--web"]], ids=["service", "page"])
def test_show_prints_what_would_be_written(integrity: Box, system: Path, options: list[str]) -> None:
    """To the byte; nothing is written, and no root is needed."""
    integrity.run("service", "install", *options, "--root", system, expect=0)
    shown = {str(one["path"]).lstrip("/"): one["text"] for one in integrity.json("service", "show", *options, expect=0)}
    text = integrity.run("service", "show", expect=0).stdout

    assert {name: (system / name).read_text() for name in find_files(system)} == shown
    assert "# /etc/systemd/system/integrity.service\n" in text
    assert f"ExecStart={PROGRAM} daemon" in text


def test_show_user_is_the_users_own_unit(integrity: Box) -> None:
    """It lies in the user's folder, starts with the session, and has neither a user nor a sandbox."""
    (unit,) = integrity.json("service", "show", "--user", expect=0)

    assert str(integrity.home / ".config/systemd/user/integrity.service") == unit["path"]
    assert "WantedBy=default.target" in str(unit["text"])
    assert not [line for line in str(unit["text"]).splitlines() if line.startswith(("User=", "NoNewPriv", "Protect"))]


def test_user_installs_and_uninstalls_his_own(nobodys: Box) -> None:
    """Without root; where no manager of his runs, the commands for later are named. The catalog stays and is named."""
    unit = nobodys.home / ".config/systemd/user/integrity.service"
    installed = run_as_nobody(nobodys, "service", "install", "--user")
    assert (0, "") == (installed.code, installed.stderr)
    assert unit.exists()
    assert "systemctl --user enable integrity.service" in installed.stdout
    with as_nobody():
        nobodys.catalog.write_bytes(b"a catalog")
    removed = run_as_nobody(nobodys, "service", "uninstall", "--user")

    assert 0 == removed.code
    assert not unit.exists()
    assert f"kept: {nobodys.catalog}" in removed.stdout
    assert b"a catalog" == nobodys.catalog.read_bytes()


@pytest.mark.parametrize("option", [[], ["--now"]])
def test_who_installs_without_mail_learns_that_nobody_will_be_told(nobodys: Box, option: list[str]) -> None:
    """With the setting to add and its file, which is the service's and not the one that this command was given."""
    config = nobodys.home / ".config/integrity/integrity.toml"
    bare = run_as_nobody(nobodys, "service", "install", "--user", *option)
    (alerts,) = run_as_nobody(nobodys, "--json", "service", "install", "--user", *option).of_type("alerts")
    with as_nobody():
        config.parent.mkdir()
        config.write_text('[mail]\nto = ["me@example.org"]\n')
    mailed = run_as_nobody(nobodys, "service", "install", "--user", *option)
    with as_nobody():
        config.write_text("qq = 1\n")
    wrong = run_as_nobody(nobodys, "service", "install", "--user", *option)

    assert "nobody will be told of damage: no channel is configured\n" in bare.stdout
    assert f"  set `to` in [mail], or `apprise`, `command` or `heartbeat_url` in [alerts], in {config}\n" in bare.stdout
    assert [] == alerts["recipients"]
    assert "told" not in mailed.stdout
    assert "alerts go to mail:me@example.org" in mailed.stdout
    assert f"{config}:1: qq" in wrong.stdout + wrong.stderr
    assert {0} == {one.code for one in (bare, mailed, wrong)}


def test_user_can_not_install_the_systems(nobodys: Box) -> None:
    """He is told about sudo and --user, and nothing is done."""
    for command in ("install", "uninstall"):
        refused = run_as_nobody(nobodys, "service", command)
        assert 2 == refused.code
        assert "sudo" in refused.stderr
        assert "--user" in refused.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_has_no_service_of_his_own(integrity: Box) -> None:
    """What root is at home with is the system's."""
    assert "--user" in integrity.run("service", "install", "--user", expect=2).stderr


def test_now_is_refused_below_another_folder(integrity: Box, system: Path) -> None:
    """Nothing can be started there, and nothing is written."""
    integrity.run("service", "install", "--now", "--root", system, expect=2)

    assert set() == find_files(system)


def test_folder_that_can_not_be_written(integrity: Box, system: Path) -> None:
    """The file and the reason are named, and no stump stays."""
    (system / "etc").mkdir()
    (system / "etc/systemd").write_text("in the way")
    failed = integrity.run("service", "install", "--root", system)

    assert 0 != failed.code
    assert str(system / UNIT) in failed.stderr
    assert {"etc/systemd"} == find_files(system)
