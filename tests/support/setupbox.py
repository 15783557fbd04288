"""A machine as ``integrity setup`` meets it: a few disks of its own, nothing of this machine's data, and a person."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from support import AnyPath
from support.cli import Box, Completed, complete, make_command
from support.dialog import ENTER, Dialog

DAY_S = 86_400
PROMPT = "] > "
FILES = 40
MISSING = 4

# What holds data on this machine is covered; then each disk is mounted at its place. There is no mail program and no
# mail server, whatever this machine has: no connection to the broadcast address is ever made.
_SCRIPT = """
[ ! -e /usr/sbin/sendmail ] || mount --bind /dev/null /usr/sbin/sendmail
echo 255.255.255.255 localhost >"$0" && mount --bind "$0" /etc/hosts || exit 99
for covered in /srv /home /mnt /media /data /storage /export /share /shares; do
    [ ! -d $covered ] || mount -t tmpfs -o mode=755 tmpfs $covered
done
while [ "$1" != -- ]; do mkdir -p "$2" && mount --bind "$1" "$2" || exit 99; shift 2; done
shift
exec "$@"
"""


def fill(folder: Path, count: int, suffix: str, *, age_days: float, size_bytes: int = 20_000) -> None:
    """Write files of different sizes into a few folders, all last changed some time ago."""
    then = time.time() - age_days * DAY_S
    for number in range(count):
        path = folder / f"part{number % 4}" / f"file{number:03}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size_bytes + number))
        os.utime(path, (then, then))


def fill_disks(data: Path, photos: Path, old: Path) -> None:
    """Fill a disk with documents, one with photos, and one with a copy of the documents that lacks some."""
    fill(data, FILES, "odt", age_days=20, size_bytes=150_000)
    fill(photos, FILES, "jpg", age_days=400, size_bytes=300_000)
    shutil.copytree(data, old, dirs_exist_ok=True)
    for number in range(MISSING):
        (old / f"part{number}/file{number:03}.odt").unlink()


class SetupBox:
    """
    Where setup runs: its own home, and a configuration that is still to be written.

    Args:
        disks: folders of a file system, by the path at which the machine has them; what is mounted is seen by setup
            only.

    Attributes:
        config: where the configuration will be.
        scratch: where the self-test works.
    """

    def __init__(self, home: Path, disks: Mapping[AnyPath, AnyPath]) -> None:
        self.box = Box(home)
        self.disks = dict(disks)
        self.environment = self.box.environment
        self.config = home / "etc/integrity.toml"
        self.scratch = home / "scratch"
        self.scratch.mkdir()
        self._hosts = home / "hosts"
        self._hosts.touch()
        self.environment |= {"INTEGRITY_CONFIG": str(self.config), "TMPDIR": str(self.scratch), "TERM": "xterm"}

    def command(self, *options: AnyPath) -> list[AnyPath]:
        """Return the argv of setup on this machine."""
        pairs = [word for place, folder in self.disks.items() for word in (folder, place)]
        return [
            *("unshare", "--mount", "--propagation", "private", "sh", "-c", _SCRIPT, self._hosts, *pairs, "--"),
            *make_command(*options),
        ]

    def talk(self, *options: AnyPath) -> Dialog:
        """Start setup on a terminal."""
        return Dialog(self.command("setup", *options), env=self.environment)

    def run(self, *options: AnyPath, expect: int = 0, is_json: bool = False) -> Completed:
        """Run setup without a terminal."""
        words = ["--json", "setup", *options] if is_json else ["setup", *options]
        done = subprocess.run(
            self.command(*words), env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        found = complete(done.returncode, done.stdout, done.stderr, is_json=is_json)
        assert expect == found.code, f"{found.stdout}{found.stderr}"
        return found

    def read(self) -> str:
        """Return what is set in the configuration that was written, without comments."""
        lines = (line.split("  ")[0] for line in self.config.read_text(encoding="utf-8").splitlines())
        return "\n".join(line for line in lines if line and not line.startswith("#"))

    def list_files(self) -> list[str]:
        """List everything below the home, to see what was left there."""
        return sorted(str(path) for path in self.box.home.rglob("*"))


def answer(dialog: Dialog, question: str, text: str = "") -> str:
    """Answer a question, and return what was shown before the place to type."""
    shown = dialog.wait_for(question) + dialog.wait_for(PROMPT)
    dialog.type(text + ENTER)
    return shown


def answer_secret(dialog: Dialog, text: str) -> None:
    dialog.wait_for("(not shown) > ")
    dialog.type(text + ENTER)


def press_enter(dialog: Dialog, times: int) -> None:
    """Take the default answer of some questions."""
    for _ in range(times):
        dialog.wait_for(PROMPT)
        dialog.type(ENTER)
