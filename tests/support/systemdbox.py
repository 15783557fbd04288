r"""
A real systemd, booted as PID 1 of its own namespaces on a throw-away overlay of this machine's root.

    with SystemdBox() as box:
        box.put("/etc/systemd/system/hello.service", "[Service]\nType=oneshot\nExecStart=/bin/true\n")
        box.run("systemctl", "daemon-reload")
        box.run("systemctl", "start", "hello.service")

Nothing that it writes reaches the machine, but what goes to a folder of ``binds``. It has a network of its own with a
loopback device only, no udev, and none of the machine's own units. cgroup v2 without controllers, so limits of memory
and CPU are not enforced; sandboxing, device rules, watchdogs, restarts and the journal are.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from support import AnyPath
from support.loopfs import unmount
from support.machine import need_file_system, need_programs, need_root
from support.programs import ProgramError, sh
from support.waiting import TimedOutError, wait_until

PROGRAM = Path(sys.executable).with_name("integrity")
_SYSTEMD = "/lib/systemd/systemd"
_TARGET = "box.target"
BOOT_ID = "/run/boot-id"
"""
Which boot of the box it is, in a file that is mounted over the kernel's, which only knows the machine's.

A service with a procfs of its own (ProtectProc=) does not see it there, and needs a BindReadOnlyPaths= of it.
"""

_CLONE_NEWNET = 0x4000_0000  # linux/sched.h
_libc = ctypes.CDLL(None, use_errno=True)

_BOOT_TIMEOUT_S = 60.0
_RUN_TIMEOUT_S = 60.0
_POWEROFF_NOW = signal.SIGRTMIN + 14  # systemd(1), "Signals"
_POWEROFF = signal.SIGRTMIN + 4
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SIZE = "1g"  # of the overlay, in memory; costs only what is written

# What of the machine's own must not, or can not, start in the box.
# fmt: off
_MASKED = (
    "dev-hugepages.mount", "e2scrub_reap.service", "getty-static.service", "kmod-static-nodes.service",
    "proc-sys-fs-binfmt_misc.automount", "sys-kernel-config.mount", "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount", "systemd-binfmt.service", "systemd-firstboot.service", "systemd-hwdb-update.service",
    "systemd-logind.service", "systemd-machine-id-commit.service", "systemd-modules-load.service",
    "systemd-networkd.service", "systemd-pstore.service", "systemd-random-seed.service", "systemd-remount-fs.service",
    "systemd-repart.service", "systemd-sysctl.service", "systemd-timesyncd.service",
    "systemd-tmpfiles-setup-dev.service", "systemd-udev-trigger.service", "systemd-udevd.service",
    "systemd-udevd-control.socket", "systemd-udevd-kernel.socket", "systemd-update-utmp.service",
)
# fmt: on

_FILES = {
    f"etc/systemd/system/{_TARGET}": "[Unit]\nRequires=basic.target\nAfter=basic.target\nAllowIsolate=yes\n",
    "etc/systemd/journald.conf": "[Journal]\nStorage=volatile\nRateLimitIntervalSec=0\n",
    "etc/systemd/system.conf": "[Manager]\nDefaultTimeoutStartSec=30\nDefaultTimeoutStopSec=10\n",
    "etc/fstab": "",
    "etc/hostname": "box\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
    "etc/ssh/ssh_config": "",
    "etc/ssh/sshd_config": "Subsystem sftp internal-sftp\n",
}
# What the machine's owner has set, started from init scripts, or keeps where the tests keep theirs.
_REMOVED = (
    *("etc/systemd", "etc/tmpfiles.d", "etc/sysusers.d", "etc/init.d", "etc/ssh", "etc/integrity", "srv"),
    *(f"var/{kind}/integrity{page}" for kind in ("lib", "cache") for page in ("", "-web", "-hub")),
    *(f"etc/rc{level}.d" for level in "0123456S"),
    *("etc/aliases", "usr/sbin/sendmail"),
)

# Run as PID 1 of the box, with its root in $1; what it binds follows in threes. What is mounted here nobody else sees.
_INIT = r"""
set -eu
r=$1; shift
mount -t proc proc "$r/proc"
mount --bind "$r/proc/sys" "$r/proc/sys"; mount -o remount,ro,bind "$r/proc/sys"
mount -t sysfs -o ro sysfs "$r/sys"
mount -t tmpfs -o mode=755 tmpfs "$r/run"; mkdir "$r/run/lock"
cat "$r/proc/sys/kernel/random/uuid" > "$r/BOOT_ID"; mount --bind "$r/BOOT_ID" "$r/proc/sys/kernel/random/boot_id"
mount -t tmpfs -o mode=1777 tmpfs "$r/tmp"
mount -t tmpfs -o mode=755 tmpfs "$r/dev"
for device in DEVICES; do cp -a "/dev/$device" "$r/dev/"; done
mkdir "$r/dev/pts" "$r/dev/shm" "$r/dev/mqueue"
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$r/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$r/dev/shm"
ln -s pts/ptmx "$r/dev/ptmx"; ln -s /proc/self/fd "$r/dev/fd"
ln -s fd/0 "$r/dev/stdin"; ln -s fd/1 "$r/dev/stdout"; ln -s fd/2 "$r/dev/stderr"
: > "$r/dev/console"; mount --bind "$r/../console" "$r/dev/console"
mount -t cgroup2 cgroup2 "$r/sys/fs/cgroup"
while [ $# -gt 0 ]; do
    mkdir -p "$r$3"; mount --rbind "$2" "$r$3"; [ "$1" = rw ] || mount -o remount,ro,bind "$r$3"; shift 3
done
mkdir -p "$r/.old"; cd "$r"; pivot_root . .old; umount -l /.old; rmdir /.old
mount --make-rshared /  # as systemd does on a machine, and leaves to others in a container
exec env -i container=box TERM=dumb PATH=SEARCH SYSTEMD --system --unit=TARGET \
    --show-status=no --log-target=journal </dev/null >/dev/console 2>&1
"""


class SystemdBox:
    """
    A booted systemd; see the module. Skips the test where it can't be.

    Args:
        base: a root file system to boot instead of this machine's, which has nothing of the tests.
        binds: folders of the machine, each with the place where it is seen inside, writable. The interpreter that runs
            the tests and their checkout are seen where they are, without being named.

    Attributes:
        root: the box's files as seen from outside; what is mounted inside is not.
    """

    def __init__(self, binds: Mapping[AnyPath, str] | None = None, base: Path = Path("/")) -> None:
        self._base = base
        self._binds = {os.fsdecode(source): place for source, place in (binds or {}).items()}
        self._pid = 0

    def __enter__(self) -> SystemdBox:
        need_root()
        need_programs("systemctl", "nsenter", "pivot_root")
        need_file_system("overlay")
        if not os.path.exists(_SYSTEMD):
            pytest.skip(f"needs systemd (Debian package systemd): there is no {_SYSTEMD}")
        self._cgroup = _make_cgroup()
        self._home = Path(tempfile.mkdtemp(prefix="systemdbox-"))
        self.root = self._home / "root"
        try:
            self._make_root()
            self._boot()
        except BaseException:  # whatever it is, nothing may stay behind
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    @property
    def pid(self) -> int:
        """PID 1 of the box, as seen from outside."""
        return self._pid

    def run(self, *command: AnyPath, expect: int | None = 0) -> str:
        """
        Run a command inside, as root and with an environment of its own, and return what it printed.

        Args:
            command: found through PATH.
            expect: the exit code that the test insists on; None for any.
        """
        inside = ["nsenter", f"--target={self._pid}", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
        environment = [f"PATH={_PATH}", "TERM=dumb", "LANG=C.UTF-8", "HOME=/root", "SYSTEMD_PAGER=", "SYSTEMD_COLORS=0"]
        done = subprocess.run(
            [*inside, "--root", "--", "env", "-i", "--chdir=/", *environment, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_RUN_TIMEOUT_S,
            check=False,
        )
        printed = (done.stdout + done.stderr).decode(errors="replace")
        assert expect is None or done.returncode == expect, f"{command!r}: exit {done.returncode}: {printed}"
        return printed

    def show(self, unit: str, name: str) -> str:
        """Return one property of a unit, as ``systemctl show`` has it."""
        return self.run("systemctl", "show", "--property", name, "--value", unit).strip()

    def log(self, unit: str) -> str:
        """Return what the journal has of a unit: what it printed, and what systemd said of it."""
        self.run("journalctl", "--sync")
        return self.run("journalctl", "--no-pager", "--output=cat", f"--unit={unit}")

    @contextmanager
    def network(self) -> Iterator[None]:
        """Let the connections that this thread makes in the block go to the box's network, as those of a browser."""
        with open("/proc/thread-self/ns/net", "rb") as own, open(f"/proc/{self._pid}/ns/net", "rb") as theirs:
            _enter_network(theirs.fileno())
            try:
                yield
            finally:
                _enter_network(own.fileno())

    def let_in(self, place: AnyPath) -> None:
        """Open all folders above ``place`` to all users; only in the box."""
        for folder in reversed(Path(os.fsdecode(place)).parents):
            if self.run("stat", "--format=%a", folder)[-2] not in "1357":
                self.run("chmod", "o+x", folder)

    def let_program_in(self) -> None:
        """Let all users of the box start the program that is tested, with its Python and this checkout."""
        if not PROGRAM.exists():
            pytest.skip(f"the package is not installed: there is no {PROGRAM}")
        for place in (PROGRAM, os.path.realpath(sys.executable), __file__):
            self.let_in(place)

    def put(self, path: str, text: str) -> None:
        """Write a file of the box, with its folders."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")

    def power_off(self) -> None:
        """Shut down in order: services get their SIGTERM."""
        os.kill(self._pid, _POWEROFF)
        wait_until(self._has_ended, "the end of the box", timeout_s=_BOOT_TIMEOUT_S)

    def cut_power(self) -> None:
        """End everything at once; what was written stays, but for what was only in memory, as /run is."""
        os.kill(self._pid, signal.SIGKILL)
        wait_until(self._has_ended, "the end of the box", timeout_s=_BOOT_TIMEOUT_S)

    def boot(self) -> None:
        """Boot again, after ``power_off`` or ``cut_power``: another boot of the same machine."""
        wait_until(lambda: _remove_cgroup(self._cgroup), "the end of the processes of the box")
        self._cgroup.mkdir()
        self._pid = 0
        self._boot()

    def _make_root(self) -> None:
        """Lay an empty layer over the machine's root, and turn off what the machine has turned on."""
        sh("mount", "-t", "tmpfs", "-o", f"size={_SIZE},mode=755", "systemdbox", self._home)
        for name in ("upper", "work", "root"):
            (self._home / name).mkdir()
        layers = f"lowerdir={self._base},upperdir={self._home}/upper,workdir={self._home}/work"
        sh("mount", "-t", "overlay", "-o", layers, "systemdbox", self.root)
        sh("rm", "-rf", *(self.root / name for name in _REMOVED))
        units = self.root / "etc/systemd/system"
        for folder in (units, self.root / "srv"):
            folder.mkdir(parents=True)
        for name in _MASKED:
            (units / name).symlink_to("/dev/null")
        for name, text in {**_FILES, "etc/machine-id": os.urandom(16).hex() + "\n"}.items():
            (self.root / name).unlink(missing_ok=True)
            self.put(name, text)
        (self._home / "console").touch()

    def _boot(self) -> None:
        devices = " ".join(_DEVICES)
        values = {"DEVICES": devices, "SEARCH": _PATH, "SYSTEMD": _SYSTEMD, "TARGET": _TARGET, "BOOT_ID": BOOT_ID}
        init = _INIT
        for word, value in values.items():
            init = init.replace(word, value)
        # Into the cgroup first: the namespace that is made then has it for its root. A test run that is killed takes
        # the box with it.
        start = 'echo $$ > "$0/cgroup.procs"; exec setpriv --pdeathsig KILL "$@"'
        spaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--propagation=private"]
        own = _find_own_places() if self._base == Path("/") else []
        binds = [word for place in own for word in ("ro", place, place)]
        binds += [word for source, place in self._binds.items() for word in ("rw", source, place)]
        command = ["unshare", *spaces, "--fork", "--kill-child", "sh", "-c", init, "sh", str(self.root), *binds]
        with open(self._home / "boot", "wb") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", start, str(self._cgroup), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            wait_until(self._is_up, "the boot of systemd", timeout_s=_BOOT_TIMEOUT_S, every_s=0.05)
        except (TimedOutError, ProgramError) as error:
            words = "".join((self._home / name).read_text(errors="replace") for name in ("boot", "console"))
            raise AssertionError(f"{error}; it said: {words}") from error

    def _is_up(self) -> bool:
        if self._has_ended():
            raise ProgramError("systemd did not boot")
        if not self._pid:
            children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
            # Before the exec of unshare there is no child but what the shell may have.
            if not children or Path(f"/proc/{children[0]}/comm").read_text() != "systemd\n":
                return False
            self._pid = int(children[0])
        return self.run("systemctl", "is-system-running", expect=None).strip() in ("running", "degraded")

    def _has_ended(self) -> bool:
        return self._process.poll() is not None

    def _remove(self) -> None:
        if hasattr(self, "_process"):
            if self._pid and not self._has_ended():
                os.kill(self._pid, _POWEROFF_NOW)
                with suppress(TimedOutError):
                    wait_until(self._has_ended, "the end of the box", timeout_s=5)
            if not self._has_ended():
                self._process.kill()  # and its child with it
            self._process.wait()
        for point in (self.root, self._home):
            if os.path.ismount(point):
                unmount(point)
        self._home.rmdir()
        wait_until(lambda: _remove_cgroup(self._cgroup), "the end of the processes of the box")


def _enter_network(fd: int) -> None:
    if _libc.setns(fd, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _find_own_places() -> list[str]:
    """Name the folders that the box needs and an overlay of the root file system may not have."""
    places = {str(Path(__file__).parents[2]), sys.prefix, sys.base_prefix, "/usr"}
    return [place for place in sorted(places) if os.stat(place).st_dev != os.stat("/").st_dev or _is_hidden(place)]


def _is_hidden(place: str) -> bool:
    """Tell whether the box has something of its own there."""
    return place.startswith(("/tmp/", "/run/", "/dev/", "/srv/"))


def _make_cgroup() -> Path:
    """Make a group below that of this process, so that the limits which hold for the tests hold for the box."""
    base = Path("/sys/fs/cgroup")
    if not (base / "cgroup.controllers").exists():
        base /= "unified"
    with open("/proc/self/cgroup", encoding="ascii") as lines:
        own = next((line[3:].strip() for line in lines if line.startswith("0::")), None)
    if own is None or not (base / "cgroup.procs").exists():
        pytest.skip("needs cgroup v2: it is not mounted")
    try:
        group = Path(tempfile.mkdtemp(prefix="systemdbox-", dir=base / own.lstrip("/")))
    except OSError as error:
        pytest.skip(f"needs to make cgroups: {error}")
    group.chmod(0o755)  # the managers of users go through it to theirs
    return group


def _remove_cgroup(group: Path) -> bool:
    """Remove a group and those below it, as far as their processes have ended."""
    for folder, _, _ in os.walk(group, topdown=False):
        with suppress(OSError):  # EBUSY: tried again
            os.rmdir(folder)
    return not group.exists()
