"""
The command lines of the documents, and a place in which they run as they are written.

A block of code whose lines begin with ``$`` or ``#`` shows commands and their output; blocks ``sh`` and ``python`` are
scripts.
Comments before a block, which readers do not see, say what a test needs to know:

    <!-- setup: COMMAND -->     run it first
    <!-- exits: 1 0 -->         the exit codes of the block's last commands, here of two; of all others it is 0
    <!-- not run: REASON -->    why this block can't be run in a test
"""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support import AnyPath
from support.namespaces import with_binds
from support.programs import SEARCH_PATH

_DIRECTIVE = re.compile(r"<!-- (setup|exits|not run): (.*?) -->$")
_PROMPTS = ("$ ", "# ")
_CONTINUED = ("\\", "&&", "|")
_PROGRAM = Path(sys.executable).parent
_TIMEOUT_S = 240
_YEAR_S = 31_536_000
_PHOTOS = 12
_LARGE_PHOTO_BYTES = 3 << 20
_COVERED = ("/etc", "/opt", "/var/lib")
_DISKS = ("/mnt/disk1", "/mnt/disk2", "/mnt/parity", "/mnt/usb", "/run")
_FLIP = """#!/bin/sh
# Change a byte of a file and put its modification time back: what a test can do of what a failing disk does.
touch -r "$1" /tmp/flip.$$
printf XYZ | dd of="$1" bs=1 seek=1100 conv=notrunc status=none && touch -r /tmp/flip.$$ "$1" && rm /tmp/flip.$$
"""


@dataclass(frozen=True, slots=True)
class DocCommand:
    """
    One command line of a document.

    Attributes:
        line: number of its line in the document, or of the block that a hidden command belongs to.
        code: the exit code that is expected.
        why_not: why it can't be run; empty: it can.
    """

    line: int
    text: str
    code: int = 0
    why_not: str = ""


def find_commands(document: str) -> Iterator[DocCommand]:
    """Yield the commands of a document in order, hidden ones included."""
    setup: list[str] = []
    codes, why_not = list[int](), ""
    lines = document.splitlines()
    position = 0
    while position < len(lines):
        begin, directive = position, _DIRECTIVE.match(lines[position])
        language, body, position = _read_block(lines, position)
        texts = list(_read_commands(language, body))
        if directive:
            word, value = directive.groups()
            setup += [value] if word == "setup" else []
            codes = [int(code) for code in value.split()] if word == "exits" else codes
            why_not = value if word == "not run" else why_not
        elif texts:
            codes = [0] * (len(texts) - len(codes)) + codes
            yield from (DocCommand(begin + 1, text) for text in setup)
            yield from (DocCommand(begin + 1, text, code, why_not) for text, code in zip(texts, codes, strict=True))
            setup, codes, why_not = [], [], ""


def _read_block(lines: list[str], begin: int) -> tuple[str, list[str], int]:
    """Return language and lines of the block of code at a line, and where it ends; any other line has no language."""
    if lines[begin].startswith("```"):
        end = lines.index("```", begin + 1)
        return lines[begin].removeprefix("```"), lines[begin + 1 : end], end + 1
    end = begin
    while end < len(lines) and (lines[end].startswith("    ") or (end > begin and not lines[end])):
        end += 1
    return "console" if end > begin else "", [line[4:] for line in lines[begin:end]], max(end, begin + 1)


def _read_commands(language: str, lines: list[str]) -> Iterator[str]:
    if language == "sh":
        yield "\n".join(lines)
    if language == "python":
        yield "\n".join(["python3 - <<'PYTHON'", *lines, "PYTHON"])
    if language != "console":
        return
    command = ""
    for line in lines:
        if command or line.startswith(_PROMPTS):
            command += f"\n{line}" if command else line[2:]
            if not command.rstrip().endswith(_CONTINUED):
                yield command
                command = ""


def _cover(top: str, folder: Path) -> str:
    """Return the commands that keep what is written below a folder of the machine in another one."""
    options = f"lowerdir={top},upperdir={folder}/upper,workdir={folder}/work"
    return f"mkdir -p {folder}/upper {folder}/work\nmount -t overlay overlay -o {options} {top}\n"


class DocSandbox:
    """
    A machine with photos in /srv/photos and a backup of them in /mnt/backup/photos; root only.

    What commands write below /etc, /mnt, /opt, /srv and /var/lib goes with it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._make_photos(folder / "srv/photos", "img_{:04}.jpg", _PHOTOS)
        self._make_photos(folder / "srv/archive", "letter_{:04}.txt", 4)
        for name in ("mnt/disk1", "mnt/disk2", "mnt/parity", "mnt/usb", "home", "bin"):
            (folder / name).mkdir(parents=True)
        for name in ("photos", "archive"):
            shutil.copytree(folder / "srv" / name, folder / "mnt/backup" / name)
        (folder / "bin/flip").write_text(_FLIP)
        (folder / "bin/flip").chmod(0o755)

    @staticmethod
    def _make_photos(folder: Path, name: str, count: int) -> None:
        source = random.Random(name)
        for number in range(1, count + 1):
            path = folder / "2019" / name.format(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source.randbytes(_LARGE_PHOTO_BYTES if number == 7 else 6000))
            os.utime(path, (1.5e9, 1.5e9 + _YEAR_S * number / count))

    def run(self, commands: list[DocCommand]) -> list[str]:
        """Run the commands in one shell. Return what is to be said of those that ended with another code."""
        script = "".join(
            f"eval {shlex.quote(command.text)} </dev/null >{self._folder}/{number}.out 2>&1; echo $? >&3\n"
            for number, command in enumerate(commands)
        )
        codes = self._folder / "codes"
        layers = "".join(_cover(top, self._folder / f"layer{number}") for number, top in enumerate(_COVERED))
        disks = "".join(f"mount -t tmpfs tmpfs {disk}\n" for disk in _DISKS)
        world = f"set -e\n{layers}{disks}rm -rf /etc/integrity /var/lib/integrity\nset +e\ncd ~\n"
        binds: dict[AnyPath, AnyPath] = {"/srv": self._folder / "srv", "/mnt": self._folder / "mnt"}
        path = f"{self._folder}/bin:{_PROGRAM}:{SEARCH_PATH}"
        environment = {"PATH": path, "HOME": str(self._folder / "home"), "LANG": "C.UTF-8", "TZ": "UTC"}
        whole = f"{world}exec 3>{codes}\n{script}"
        done = subprocess.run(
            with_binds(binds, "timeout", str(_TIMEOUT_S), "bash", "-c", whole),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        ended = codes.read_text().split() if codes.exists() else []
        found = [done.stderr] if len(ended) < len(commands) else []
        for number, (command, code) in enumerate(zip(commands, ended, strict=False)):
            if int(code) != command.code:
                said = (self._folder / f"{number}.out").read_text(errors="replace")
                found.append(f"line {command.line}: {command.text}\nexit {code}, not {command.code}:\n{said}")
        return found
