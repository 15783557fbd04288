"""The units are what systemd wants, and the real program works in the sandbox that they make."""

from __future__ import annotations

import json
import os
import random
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from integrity.disks.smart import SMARTCTL_OPTIONS
from integrity.errors import ConfigError
from integrity.service.systemd.installed import Scope
from integrity.service.systemd.units import find_dangers, make_units, require_reachable
from support.formats import MAKERS
from support.loopfs import LoopFS
from support.machine import need_programs
from support.systemdbox import PROGRAM, SystemdBox

DROP_IN = "/etc/systemd/system/integrity.service.d/test.conf"
S3_PORT = 5000
DAY_S = 86_400


def analyze(*arguments: str | Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze; a user's manager wants to know where his things are."""
    need_programs("systemd-analyze")
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_RUNTIME_DIR": str(home), "SYSTEMD_PAGER": ""}
    return subprocess.run(
        ["systemd-analyze", *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


def write_unit(folder: Path, scope: Scope, program: bytes, name: str = "integrity.service") -> Path:
    """Write only the unit of a service, of the page, or of the hub."""
    units = make_units(scope, program, has_page=scope is Scope.SYSTEM, has_hub=scope is Scope.SYSTEM)
    path = folder / name
    path.write_bytes(next(unit.content for unit in units if os.path.basename(unit.path) == name.encode()))
    return path


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that may stand where integrity does."""
    return make_program(tmp_path / "bin")


def make_program(folder: Path) -> Path:
    """Make a program that systemd-analyze finds."""
    folder.mkdir(parents=True)
    path = folder / "integrity"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("scope", "names"),
    [
        (Scope.SYSTEM, ["integrity.service", "integrity-hub.service", "integrity-smart@.service"]),
        (Scope.USER, ["integrity.service"]),
    ],
)
def test_units_are_verified(scope: Scope, names: list[str], tmp_path: Path, program: Path) -> None:
    """The verifier has not a word to say: it warns of unknown settings with exit code 0."""
    units = [write_unit(tmp_path, scope, bytes(program), name) for name in names]
    done = analyze(f"--{scope.value}", "verify", *units, home=tmp_path)

    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


def test_verifier_finds_a_wrong_setting(tmp_path: Path, program: Path) -> None:
    """The test above would see a slip of the pen."""
    unit = write_unit(tmp_path, Scope.SYSTEM, bytes(program))
    unit.write_text(unit.read_text().replace("ProtectHome=", "ProtectHouse="))

    assert "ProtectHouse" in analyze("verify", unit, home=tmp_path).stderr


@pytest.mark.parametrize("name", ["a b", "a%b", "a$HOME", "a;b", "aüb", "-ab", "a#b"])
def test_program_in_a_folder_with_an_odd_name(name: str, tmp_path: Path) -> None:
    """What systemd can start is quoted as it wants it."""
    program = make_program(tmp_path / name)
    done = analyze("verify", write_unit(tmp_path, Scope.SYSTEM, bytes(program)), home=tmp_path)

    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize("name", [b"a'b", b'a"b', b"a\\b", b"a\nb", b"a\xffb"])
def test_program_that_systemd_can_not_start_is_refused(name: bytes) -> None:
    """With a name that it takes in no form there would be a broken unit."""
    with pytest.raises(ConfigError, match="install integrity elsewhere"):
        make_units(Scope.SYSTEM, b"/opt/" + name + b"/integrity")


@pytest.mark.parametrize("name", ["/srv/a b", "/srv/a%b", "/srv/aüb", "/none/such"])
def test_service_may_repair_in_folders_with_odd_names(name: str, tmp_path: Path, program: Path) -> None:
    """The verifier has not a word to say of the drop-in."""
    units = make_units(Scope.SYSTEM, bytes(program), tmp_path.as_posix().encode(), repair_in=[name.encode()])
    for unit in units:
        path = Path(os.fsdecode(unit.path))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(unit.content)
    folder = tmp_path / "etc/systemd/system"
    done = analyze("verify", folder / "integrity.service", home=tmp_path)
    shown = analyze("cat-config", f"--root={tmp_path}", "systemd/system/integrity.service", home=tmp_path).stdout

    assert (0, "") == (done.returncode, done.stderr)
    assert f'ReadWritePaths="-{name.replace("%", "%%")}"' in shown


@pytest.mark.parametrize("name", [b"/srv/a'b", b"/srv/a\xffb"])
def test_folder_that_no_unit_can_name_is_refused(name: bytes) -> None:
    """The message says how to repair there all the same."""
    with pytest.raises(ConfigError, match="repair as root, with: integrity repair"):
        make_units(Scope.SYSTEM, b"/opt/integrity", repair_in=[name])


@pytest.mark.parametrize(
    ("name", "highest"),
    [
        ("integrity.service", 2.0),
        ("integrity-web.service", 1.5),
        ("integrity-hub.service", 1.5),
        ("integrity-smart@.service", 2.0),
    ],
)
def test_exposure_is_small(tmp_path: Path, program: Path, name: str, highest: float) -> None:
    """By the measure of systemd-analyze."""
    unit = write_unit(tmp_path, Scope.SYSTEM, bytes(program), name)
    done = analyze("security", "--offline=true", f"--threshold={highest * 10:.0f}", "--no-pager", unit, home=tmp_path)

    assert 0 == done.returncode, done.stdout
    level = re.search(rf"Overall exposure level for {name.replace('@', '@.*')}: ([\d.]+)", done.stdout)
    assert level is not None
    assert float(level[1]) <= highest


@pytest.mark.parametrize(
    "reads",
    [[b"/srv/state"], [b"/mnt"], [b"/media/a b", b"/srv/x%y/key.pem"], [b"/home/me/state", b"/boot/token"]],
)
def test_page_that_reads_hidden_places_is_as_little_exposed(tmp_path: Path, program: Path, reads: list[bytes]) -> None:
    """The drop-in opens what is read and nothing else, and the verifier has not a word to say."""
    units = make_units(Scope.SYSTEM, bytes(program), has_page=True, page_reads=[b"/var/lib/integrity", *reads])
    texts = {os.path.basename(unit.path): unit.content.decode() for unit in units}
    unit = tmp_path / "integrity-web.service"
    unit.write_text(texts[b"integrity-web.service"] + texts[b"places.conf"])
    verified = analyze("verify", unit, home=tmp_path)
    done = analyze("security", "--offline=true", "--threshold=15", "--no-pager", unit, home=tmp_path)

    assert (0, "") == (verified.returncode, verified.stderr)
    assert 0 == done.returncode, done.stdout
    assert "/var/lib" not in texts[b"places.conf"]
    for name in (b"/srv", b"/mnt", b"/media", b"/boot"):
        is_hidden = f"InaccessiblePaths=-{name.decode()}\n" in texts[b"places.conf"] + "\n"
        assert is_hidden == (not any(place.startswith(name) for place in reads))


def test_page_that_reads_nothing_hidden_needs_no_drop_in(program: Path) -> None:
    """A name that only begins like a hidden folder lies in none."""
    units = make_units(Scope.SYSTEM, bytes(program), has_page=True, page_reads=[b"/var/lib/integrity", b"/srv2/state"])

    assert not [unit.path for unit in units if unit.path.endswith(b"places.conf")]


def test_program_in_a_closed_folder_is_refused(tmp_path: Path) -> None:
    """The service's user could not start it."""
    program = make_program(tmp_path / "closed")
    program.parent.chmod(0o700)
    with pytest.raises(ConfigError, match="closed to others"):
        require_reachable(bytes(program))


def test_program_that_others_can_change_is_warned_of(tmp_path: Path) -> None:
    """Whoever can replace it would read every file; a folder like /tmp, where nobody can replace another's, is none."""
    program = make_program(tmp_path / "open")
    calm = find_dangers(bytes(program))
    program.parent.chmod(0o777)
    dangers = [danger for danger in find_dangers(bytes(program)) if danger not in calm]
    program.parent.chmod(0o1777)

    if os.geteuid() == 0:
        (danger,) = dangers
        assert danger.startswith(f"{program.parent}: everybody can change")
        assert calm == find_dangers(bytes(program))
    else:
        assert any(f"{program}: user {os.getuid()}" in danger for danger in calm)


@pytest.fixture
def box(disk: LoopFS) -> Iterator[SystemdBox]:
    """Boot a systemd with the service installed, and a disk at /srv/data."""
    with SystemdBox({disk.folder: "/srv/data"}) as box:
        box.let_program_in()
        box.run(PROGRAM, "service", "install")
        yield box


@pytest.fixture
def disk(ext4: LoopFS) -> LoopFS:
    """A disk with files that only root may read, last read long ago."""
    folder = ext4.folder / "private"
    folder.mkdir(mode=0o700)
    for number in range(3):
        path = folder / f"file{number}"
        path.write_bytes(bytes([number]) * 100_000)
        path.chmod(0o600)
        now = path.stat().st_mtime
        os.utime(path, (now - 10 * DAY_S, now - 5 * DAY_S))
    os.sync()
    return ext4


def run_as_service(box: SystemdBox, command: str) -> str:
    """Have the unit run something else than the daemon, to its end, and return its log, that of earlier runs, too."""
    box.put(DROP_IN, f"[Service]\nType=oneshot\nRestart=no\nExecStart=\nExecStart={command}\n")
    box.run("systemctl", "daemon-reload")
    box.run("systemctl", "start", "integrity.service", expect=None)
    log = box.log("integrity.service")
    assert "success" == box.show("integrity.service", "Result"), log
    return log


def get_owners(box: SystemdBox) -> set[str]:
    """Tell whose the files of the catalog are."""
    return set(box.run("find", "/var/lib/integrity", "-printf", "%u:%g\n").split())


@pytest.mark.root
def test_installed_service_has_its_user_and_folders(box: SystemdBox) -> None:
    """Installing makes them, loads the unit, starts nothing, and may be done again; uninstalling keeps what matters."""
    assert "integrity" in box.run("id", "integrity")
    assert "750 root:integrity\n" == box.run("stat", "--format=%a %U:%G", "/etc/integrity")
    assert "loaded" == box.show("integrity.service", "LoadState")
    assert "inactive" == box.show("integrity.service", "ActiveState")
    assert 5 == box.run(PROGRAM, "service", "install").count(": unchanged")
    run_as_service(box, f"{PROGRAM} scan /srv/data")
    box.run("systemctl", "enable", "integrity.service")
    removed = box.run(PROGRAM, "service", "uninstall")

    assert "kept: /var/lib/integrity/catalog.db" in removed
    assert f"kept: {os.path.dirname(DROP_IN)}" in removed
    assert "all is well" in box.run(PROGRAM, "scrub", "/srv/data")
    assert not (box.root / "etc/systemd/system/multi-user.target.wants/integrity.service").is_symlink()
    assert not (box.root / "etc/systemd/system/integrity.service").exists()

    # Root without a running systemd is told what to do: the files are written, the commands for later are named.
    box.run("userdel", "integrity")
    hiding = 'mount -t tmpfs tmpfs /run/systemd && exec "$@"'
    said = box.run("unshare", "--mount", "sh", "-c", hiding, "sh", PROGRAM, "service", "install", "--now")
    assert 5 == said.count(": written")
    assert "systemd does not run here" in said
    for command in ("systemd-sysusers /etc/sysusers.d/integrity.conf", "systemctl enable integrity.service"):
        assert f"\n  {command}\n" in said
    box.run("id", "integrity", expect=1)


@pytest.mark.root
def test_service_is_started_and_stopped(box: SystemdBox) -> None:
    """
    With --now it is enabled and runs, in the version that was just installed; uninstalling ends it.

    If it does not start: exit 3, with systemd's words and the command to try again.
    """
    box.put(DROP_IN, "[Service]\nExecStart=\nExecStart=/bin/false\n")
    failed = box.run(PROGRAM, "service", "install", "--now", expect=3)
    assert "systemctl status integrity.service" in failed
    assert "then run: systemctl restart integrity.service" in failed
    box.run("systemctl", "reset-failed", "integrity.service")

    box.put(DROP_IN, "[Service]\nType=exec\nExecStart=\nExecStart=/bin/sleep 1000\n")
    said = box.run(PROGRAM, "service", "install", "--now")
    assert "started" in said
    assert "nobody will be told of damage: no channel is configured\n" in said
    first = box.show("integrity.service", "MainPID")
    assert "enabled" == box.show("integrity.service", "UnitFileState")
    assert "active" == box.show("integrity.service", "ActiveState")
    box.run(PROGRAM, "service", "install", "--now")
    assert first != box.show("integrity.service", "MainPID")
    box.run(PROGRAM, "service", "uninstall")

    assert "inactive" == box.show("integrity.service", "ActiveState")
    assert "no service is installed" in box.run(PROGRAM, "service", "uninstall")


@pytest.mark.root
def test_sandbox_lets_the_program_do_its_work(box: SystemdBox, disk: LoopFS) -> None:
    """
    It records and re-reads files that only root may read, past the cache, and moves no access time.

    Only its own folders can be written; no device can be opened, no file changed or given away.
    """
    files = sorted((disk.folder / "private").iterdir())
    before = [path.stat().st_atime_ns for path in files]
    run_as_service(box, f"{PROGRAM} scan /srv/data")
    log = run_as_service(box, f"{PROGRAM} --json scrub /srv/data")
    scrubbed = next(json.loads(line) for line in log.splitlines() if line.startswith('{"type":"summary"'))
    explained = json.loads(box.run(PROGRAM, "--json", "explain", "/srv/data/private/file0"))

    assert ("clean", 3, 300_000) == tuple(scrubbed[key] for key in ("outcome", "files_verified", "bytes_read"))
    assert "direct" == explained["read_how"]
    assert before == [path.stat().st_atime_ns for path in files]

    box.run("mknod", "-m", "666", "/dev/disk0", "b", "7", "0")
    own = " ".join(f"{folder}/integrity/own" for folder in ("/var/lib", "/var/cache", "/run"))
    box.run("mkdir", "/tmp/others")
    others = "/srv/data/new /srv/data/private/new /tmp/others/new /var/tmp/new /etc/integrity/new /root/new /usr/new"
    script = (
        f"touch {own} || exit 1; for path in {others}; do touch $path && exit 2; done;"
        " chmod 777 /srv/data/private && exit 3; head -c 1 /dev/disk0 && exit 4; head -c 1 /dev/null || exit 5;"
        " cat /proc/pressure/io >/dev/null || [ ! -e /proc/pressure ] || exit 6; exit 0"
    )
    box.put("/srv/script", script)
    run_as_service(box, "/bin/sh /srv/script")

    assert not [path for path in others.split() if (box.root / path.lstrip("/")).exists()]


_SMARTCTL = """#!/bin/sh
for last; do :; done
head -c 1 "$last" >/dev/null || exit 3
true >"$last" && exit 4
ls /srv/data /var/lib/integrity >/dev/null 2>&1 && exit 5
echo '{"smart_status": {"passed": true}, "model_name": "'"$(sed -n 's/^CapBnd:.//p' /proc/self/status) $*"'"}'
exit 8
"""
_ASK = "from integrity.disks.smart import read_smart; print(read_smart({disk!r}, 1))"


def ask_disk(box: SystemdBox, disk: str) -> str:
    """Read SMART values as the service does, and return what it makes of them."""
    box.put("/srv/ask.py", _ASK.format(disk=disk))
    log = run_as_service(box, f"{sys.executable} /srv/ask.py").splitlines()
    return next(line for line in log if line.startswith("DeviceReport"))


@pytest.mark.root
def test_service_has_smart_values_read_without_a_right_to_open_disks(box: SystemdBox) -> None:
    """
    A unit runs smartctl for it, on a disk that it may only read, with the two capabilities of such commands.

    Nobody else may ask: the socket is its user's. Where smartctl is missing what the service then says names the
    package; a name that is none of a disk is refused.
    """
    box.run("rm", "-f", "/usr/sbin/smartctl")  # of the machine, which may have it
    box.run("systemctl", "start", "integrity-smart.socket")
    assert "600 integrity:integrity\n" == box.run("stat", "--format=%a %U:%G", "/run/integrity-smart.sock")
    reading = 'from integrity.disks.smart import SOCKET, _ask_unit; print(_ask_unit({!r}, "", SOCKET))'
    answers = [box.run(sys.executable, "-c", reading.format(name)) for name in ("sda", "../etc/shadow", "-h", "")]
    assert "code=127" in answers[0]
    assert ["no_answer\n"] * 3 == answers[1:]

    box.run("mknod", "/dev/sda", "b", "7", "0")
    box.put("/usr/local/sbin/smartctl", _SMARTCTL)
    box.run("chmod", "755", "/usr/local/sbin/smartctl")
    answer = ask_disk(box, "sda")

    assert "is_healthy=True" in answer, box.log("integrity-smart@*")
    capabilities = 1 << 17 | 1 << 21  # CAP_SYS_RAWIO, CAP_SYS_ADMIN: linux/capability.h
    assert f"label='{capabilities:016x} {' '.join(SMARTCTL_OPTIONS)} /dev/sda'" in answer


def start_apart(box: SystemdBox, command: str) -> None:
    """Have the unit run something that says when it waits."""
    unit = f"[Service]\nType=exec\nRestart=no\nTimeoutSec=20\nExecStart=\nExecStart={command}\n"
    box.put(DROP_IN, unit)
    box.run("systemctl", "daemon-reload")
    box.run("systemctl", "start", "integrity.service")
    box.run("sh", "-c", "while [ ! -e /run/integrity/waits ]; do sleep 0.02; done")


def wait_for_its_end(box: SystemdBox) -> None:
    """Insist that what the unit ran ends well."""
    box.run("timeout", "20", "sh", "-c", "while systemctl -q is-active integrity.service; do sleep 0.02; done")
    assert "success" == box.show("integrity.service", "Result"), box.log("integrity.service")


@pytest.mark.root
def test_root_and_the_service_do_not_lock_each_other_out(box: SystemdBox) -> None:
    """
    They share one catalog; whoever comes first, its files are the service's, and closed to others.

    The log, its index and the locks that root's command makes while the service runs can be used by both. And what the
    system mounts reaches the service, whose mounts are its own, while it runs.
    """
    assert "a new catalog" in box.run(PROGRAM, "scan", "/srv/data").lower()
    assert {"root:root"} == get_owners(box)
    run_as_service(box, f"{PROGRAM} scrub /srv/data")  # systemd gives it what root had made
    assert {"integrity:integrity"} == get_owners(box)
    box.run("sh", "-c", "echo new > /srv/data/new")
    box.run(PROGRAM, "scan", "/srv/data")
    box.run(PROGRAM, "catalog", "backup")
    assert {"integrity:integrity"} == get_owners(box)
    run_as_service(box, f"{PROGRAM} scrub /srv/data")
    box.run(PROGRAM, "status", expect=3)  # the service is installed, and does not run

    assert 0o750 == stat.S_IMODE(int(box.run("stat", "--format=%a", "/var/lib/integrity"), 8))
    modes = box.run("find", "/var/lib/integrity", "-type", "f", "-printf", "%m\n").split()
    assert {"600"} == set(modes)

    script = (
        "import time\n"
        "from integrity.catalog.db import Connection\n"
        "c = Connection(b'/var/lib/integrity/catalog.db', busy_timeout_s=20)\n"
        "count = lambda: c.value('SELECT count(*) FROM file')\n"
        "before = count(); open('/run/integrity/waits', 'w').close()\n"
        "while count() == before: time.sleep(0.02)\n"
        "c.run('UPDATE meta SET value = value'); c.close()\n"
    )
    box.put("/srv/script.py", script)
    start_apart(box, f"{sys.executable} /srv/script.py")
    box.run("sh", "-c", "echo newer > /srv/data/newer")
    box.run(PROGRAM, "scan", "/srv/data")
    assert {"integrity:integrity"} == get_owners(box)
    wait_for_its_end(box)
    run_as_service(box, f"{PROGRAM} scrub /srv/data")

    box.run("mkdir", "/srv/late")
    box.put("/srv/script", "echo > /run/integrity/waits; while [ ! -e /srv/late/file ]; do sleep 0.02; done")
    start_apart(box, "/bin/sh /srv/script")
    box.run("sh", "-c", "mount -t tmpfs tmpfs /srv/late && touch /srv/late/file")
    wait_for_its_end(box)


def store_in_s3(box: SystemdBox) -> None:
    """Run an S3 server in the box, copy the data into it, and give the service credentials in its home."""
    box.run("systemd-run", "--unit=moto", sys.executable, "-m", "moto.server", "-p", str(S3_PORT))
    script = (
        "import boto3, os, socket, time\n"
        f"while socket.socket().connect_ex(('127.0.0.1', {S3_PORT})): time.sleep(0.05)\n"
        f"s3 = boto3.client('s3', endpoint_url='http://127.0.0.1:{S3_PORT}', region_name='us-east-1')\n"
        "s3.create_bucket(Bucket='backup')\n"
        "for name in os.listdir('/srv/data/private'):\n"
        "    s3.upload_file(f'/srv/data/private/{name}', 'backup', f'data/private/{name}')\n"
    )
    keys = "[default]\naws_access_key_id = key\naws_secret_access_key = secret\n"
    box.put("/var/lib/integrity/.aws/credentials", keys)
    box.run("chown", "-R", "integrity:integrity", "/var/lib/integrity/.aws")
    credentials = "AWS_SHARED_CREDENTIALS_FILE=/var/lib/integrity/.aws/credentials"
    box.run("env", credentials, "timeout", "60", sys.executable, "-c", script)


@pytest.mark.root
def test_sandbox_lets_copies_be_compared(box: SystemdBox) -> None:
    """A folder that only root may read; by rclone, another program; by SSH and S3, with the service's own keys."""
    need_programs("rclone", "sshd", "ssh-keygen", "ssh-keyscan")
    for command in (
        "useradd --create-home --shell /bin/sh --password '*' keeper",  # with "!", the default, SSH refuses it
        "cp -a /srv/data /srv/copy; cp -a /srv/data /home/keeper/copy; chown -R keeper /home/keeper/copy",
        "mkdir -p /run/sshd /srv/keys /home/keeper/.ssh",
        "install -d -o integrity -g integrity -m 750 /var/lib/integrity /var/lib/integrity/.ssh",
        "runuser -u integrity -- ssh-keygen -q -t ed25519 -N '' -f /var/lib/integrity/.ssh/id_ed25519",
        "cp /var/lib/integrity/.ssh/id_ed25519.pub /home/keeper/.ssh/authorized_keys; chown -R keeper /home/keeper",
        "ssh-keygen -q -t ed25519 -N '' -f /srv/keys/host",
        "$(command -v sshd) -p 2222 -h /srv/keys/host -o UsePAM=no -o ListenAddress=127.0.0.1 -o StrictModes=no",
        "ssh-keyscan -p 2222 127.0.0.1 > /var/lib/integrity/.ssh/known_hosts",
    ):
        box.run("sh", "-c", command)
    store_in_s3(box)
    urls = (
        *("/srv/copy", "rclone:/srv/copy", "ssh://keeper@127.0.0.1:2222/home/keeper/copy"),
        f"s3://backup/data?endpoint=http://127.0.0.1:{S3_PORT}",
    )
    copies = (f'[[copy]]\nname = "c{number}"\nof = "/srv/data"\nurl = "{url}"\n' for number, url in enumerate(urls))
    box.put("/etc/integrity/integrity.toml", '[[root]]\npath = "/srv/data"\n' + "".join(copies))
    run_as_service(box, f"{PROGRAM} scan /srv/data")
    for number in range(len(urls)):
        log = run_as_service(box, f"{PROGRAM} --json compare --with c{number}")
        lines = [line for line in log.splitlines() if line.startswith('{"type":"summary"')]
        assert ("compare", 3) == tuple(json.loads(lines[-1])[key] for key in ("job", "files_verified"))


@pytest.mark.root
def test_sandbox_lets_files_be_tested_by_their_formats(box: SystemdBox, disk: LoopFS) -> None:
    """Each library works in a child that may open no file, of files that only root may read."""
    for name, (suffix, make) in MAKERS.items():
        path = disk.folder / "private" / f"{name}{suffix}"
        make(random.Random(name), path)
        path.chmod(0o600)
    names = sorted(MAKERS)
    box.put("/etc/integrity/integrity.toml", '[[root]]\npath = "/srv/data"\ninspect = true\n')
    run_as_service(box, f"{PROGRAM} scan /srv/data")
    run_as_service(box, f"{PROGRAM} scrub /srv/data")
    script = (
        f"{Path(sys.executable)} -c 'from integrity.inspect.confinement import confine; confine(); "
        'open("/srv/data/private/file0")\' && exit 1; exit 0'
    )
    box.put("/srv/script", script)
    run_as_service(box, "/bin/sh /srv/script")

    checks = json.loads(box.run(PROGRAM, "--json", "status", expect=3).splitlines()[0])["own_checks"]
    assert (checks["passes"] + checks["whole"], checks["unknown"]) == (len(names), 3)
