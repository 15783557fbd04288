"""
Histories of files in the versions of real repositories: what is told of them, and what is repaired from them.

Files are edited, edited under their time, rot, are put back or deleted between backups of restic or borg, some of which
read all files, and a version is forgotten. Somewhere in between the files are recorded. Held against what each version
has: ``history`` names each silent change between two versions and nothing else; ``versions`` says of each version what
it is; and a file that is not as recorded is repaired to the byte if any version has the recorded content.

By hand: ``python -m campaigns.versions --count 300`` in ``tests``; 30 histories are one repository.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from campaigns.world import run_in_memory
from integrity.cli.exitcodes import ExitCode
from support.archives import ARCHIVES, Archive
from support.cli import Box, Completed

_FILES, _PHASES, _SIZE = 30, 6, 3000
_EVENTS = ("nothing",) * 4 + ("edit", "edit under its time", "rot", "rot", "put back", "delete")


class Content(NamedTuple):
    """What a file had; ``mtime_s`` in whole seconds, which each program keeps."""

    data: bytes
    mtime_s: int


class World:
    """
    A folder, its repository, and what each version has.

    Attributes:
        versions: of each version, the content of each file.
        recorded: what the catalog was told first; None: not yet.
        failures: what was not right.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self._chance = random.Random(f"versions {seed}")
        self._integrity = Box(folder / "home")
        kind = ARCHIVES[seed % len(ARCHIVES)]
        self._archive: Archive = kind(folder)
        self._root = folder / "root"
        self._root.mkdir()
        self._files: dict[str, Content | None] = {f"file {number}": self._make(0) for number in range(_FILES)}
        self._past: dict[str, list[Content]] = {name: [] for name in self._files}
        self.versions: list[dict[str, Content]] = []
        self._recorded: dict[str, Content] = {}
        self.failures: list[str] = []
        self._integrity.configure(
            f'[[root]]\npath = "{self._root}"\n[[copy]]\nname = "nightly"\nof = "{self._root}"\n'
            f'url = "{self._archive.url}"\npassword_file = "{self._archive.password_file}"\n'
        )

    def live(self) -> None:
        """Let all phases happen."""
        scanned_in, forgotten = self._chance.randrange(_PHASES), self._chance.randrange(1, _PHASES - 1)
        for name, content in self._files.items():
            self._put(name, content)
        for phase in range(_PHASES):
            if phase:
                for name in self._files:
                    self._happen(name, phase)
            if phase == scanned_in:
                self._run("scan", expect=0)
                self._recorded = {name: one for name, one in self._files.items() if one is not None}
            self._archive.back_up(self._root, reads_all=self._chance.random() < 0.4)
            self.versions.append({name: one for name, one in self._files.items() if one is not None})
        if self._chance.random() < 0.5:
            self._archive.forget(forgotten)
            del self.versions[forgotten]

    def check(self) -> None:
        """Hold what is told against what each version has."""
        self._check_history()
        for name in self._files:
            self._check_versions(name)
        self._run("scrub")
        for name, recorded in self._recorded.items():
            self._check_repair(name, recorded)

    def _make(self, phase: int) -> Content:
        return Content(self._chance.randbytes(_SIZE), 1_700_000_000 + 86_400 * phase + self._chance.randrange(80_000))

    def _happen(self, name: str, phase: int) -> None:
        event, now = self._chance.choice(_EVENTS), self._files[name]
        if event == "nothing" or (now is None and event != "put back"):
            return
        if now is not None:
            self._past[name].append(now)
        if event == "edit":
            self._put(name, self._make(phase))
        elif event == "delete":
            self._put(name, None)
        elif event == "put back" and self._past[name]:
            self._put(name, self._chance.choice(self._past[name]))
        elif event == "edit under its time" and now is not None:
            self._put(name, Content(self._chance.randbytes(_SIZE), now.mtime_s))
        elif event == "rot" and now is not None:
            data = bytearray(now.data)
            data[self._chance.randrange(_SIZE)] ^= 1 << self._chance.randrange(8)
            self._put(name, Content(bytes(data), now.mtime_s))

    def _put(self, name: str, content: Content | None) -> None:
        self._files[name], path = content, self._root / name
        if content is None:
            path.unlink()
            return
        path.write_bytes(content.data)
        os.utime(path, (content.mtime_s, content.mtime_s))

    def _run(self, *args: str | Path, expect: int | None = None) -> Completed:
        done = self._integrity.run("--json", *args, expect=expect, timeout=600)
        assert done.code != ExitCode.INTERRUPTED, f"somebody stopped {args}, so this world proves nothing"
        return done

    def _fail(self, text: str) -> None:
        self.failures.append(text)

    def _check_history(self) -> None:
        expected = [
            (name, number, self._find_here(name, older[name], newer[name]))
            for number, (older, newer) in enumerate(pairwise(self.versions), start=1)
            for name in older.keys() & newer.keys()
            if older[name].data != newer[name].data and older[name].mtime_s == newer[name].mtime_s
        ]
        told = self._run("history", "nightly").of_type("silent_change")
        found = sorted((Path(str(one["path"])).name, str(one["here"])) for one in told)
        if sorted((name, here) for name, _, here in expected) != found:
            self._fail(f"history: {expected} happened, {found} told")

    def _find_here(self, name: str, older: Content, newer: Content) -> str:
        recorded = self._recorded.get(name)
        if recorded is None:
            return "not_recorded"
        return {older.data: "older", newer.data: "newer"}.get(recorded.data, "other")

    def _check_versions(self, name: str) -> None:
        recorded = self._recorded.get(name)
        told = self._run("versions", self._root / name).of_type("version")[::-1]
        if len(told) != len(self.versions):
            self._fail(f"{name}: {len(told)} versions told of {len(self.versions)}")
            return
        for one, version in zip(told, self.versions, strict=True):
            has = version.get(name)
            if has is None:
                expected = "missing"
            elif recorded is not None and has.data == recorded.data:
                expected = "same"
            else:
                expected = "differs"
            if one["content"] != expected:
                self._fail(f"{name}: {one['version']} is told as {one['content']}, and is {expected}")
            is_silent = expected == "differs" and recorded is not None and has.mtime_s == recorded.mtime_s  # type: ignore[union-attr]
            if one["is_silent"] != is_silent:
                self._fail(f"{name}: {one['version']}: is_silent is {one['is_silent']}")

    def _check_repair(self, name: str, recorded: Content) -> None:
        now, path = self._files[name], self._root / name
        if now is None or now.data == recorded.data or now.mtime_s != recorded.mtime_s:
            return  # only what nobody wrote to, as far as times tell, is repaired
        done = self._run("repair", path, "--from", "nightly", "--apply", "--discard")
        is_good = path.read_bytes() == recorded.data
        is_possible = any(version.get(name, now).data == recorded.data for version in self.versions)
        if is_good != is_possible:
            printed = f"exit {done.code}: {done.stdout}{done.stderr}"
            self._fail(f"{name}: {'not ' * (not is_good)}repaired, but {is_possible=}: {printed}")


def run(seed: int) -> list[str]:
    """Live one world, and return what was not right."""
    with tempfile.TemporaryDirectory(prefix="versions-") as folder:
        world = World(seed, Path(folder))
        world.live()
        world.check()
        return [f"--seed {seed}: {one}" for one in world.failures]


def main() -> int:
    """Run the campaign, and say what it came to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=_FILES, help="histories to live")
    options = parser.parse_args()
    run_in_memory()
    failures: list[str] = []
    for seed in range(options.seed, options.seed + -(-options.count // _FILES)):
        began, new = time.monotonic(), run(seed)
        failures += new
        print(
            *new,
            f"seed {seed}: {len(failures)} failures so far, {time.monotonic() - began:.0f} s",
            sep="\n",
            flush=True,
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
