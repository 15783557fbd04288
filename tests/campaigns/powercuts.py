"""
The power fails under the catalog and under the watched files while commands work (R9).

One recorded log of a disk's writes, cut at many moments: of what was not flushed the drive has kept nothing, half or
all, with torn sectors. After each cut the file system replays its journal, and

- ``catalog check`` says that all is well, and all that a command had said before the cut is in the catalog;
- a file that ``repair`` was to mend is the damaged one or the good one, whole; the good one if the repair had ended;
- a scrub finds all damage that is there, and nothing else.

By hand: ``python -m campaigns.powercuts --fs ext4 --seed 1 --count 1000`` in ``tests``.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from campaigns.facts import Facts, read_facts
from campaigns.world import run_in_memory
from support.cli import Box, Completed, run_here
from support.crashdisk import Cache, CrashDisk, Cut
from support.killpoints import run_forked
from support.loopfs import LoopFS, unmount
from support.planted import age
from support.programs import sh
from support.repairs import BLOCK, CONFIG, leftovers
from support.shapes import damage, put

STEPS = ("scanned", "verified", "found", "acked", "repaired", "accepted", "backed up", "scanned again")
NAMES = ("mended.bin", "accepted.bin", *(f"keep{number}.bin" for number in range(8)))


@dataclass
class Result:
    """What a campaign comes to."""

    cuts: int = 0
    failures: list[str] = field(default_factory=list)


class Scene:
    """
    A folder with a catalog, a root and a copy, on a disk that is always mounted at the same place.

    Attributes:
        contents: good and damaged content of each file.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.point, self.copy = folder / "disk", folder / "copy"
        self.point.mkdir()
        self.box, self.root = Box(self.point / "home"), self.point / "data"
        source = random.Random(seed)
        self.contents = {name: [source.randbytes(2 * BLOCK + 100)] for name in NAMES}

    @contextmanager
    def at_its_place(self, fs: LoopFS) -> Iterator[None]:
        """Show the disk where it always is."""
        sh("mount", "--bind", fs.folder, self.point)
        try:
            yield
        finally:
            unmount(self.point)

    def play(self, disk: CrashDisk) -> None:
        """Do all that is done while the log is recorded, and mark what was said to be done."""
        for folder in (self.root, self.copy):
            folder.mkdir()
            for name, contents in self.contents.items():
                put(folder / name, contents[0])
        self.box.configure(CONFIG)
        age(*self.root.iterdir())
        os.sync()
        commands: dict[str, tuple[tuple[str | Path, ...], int]] = {
            "scanned": (("scan", self.root), 0),
            "verified": (("scrub", self.root), 0),
            "found": (("scrub", self.root), 1),
            "acked": (("ack", "1", "2"), 0),
            "repaired": (("repair", self.root / "mended.bin", "--from", self.copy, "--apply"), 0),
            "accepted": (("accept", self.root / "accepted.bin", "--reason", "mine"), 0),
            "backed up": (("catalog", "backup"), 0),
            "scanned again": (("scan", self.root), 0),
        }
        for step in STEPS:
            if step == "found":
                for name in NAMES[:2]:
                    damage(self.root / name, BLOCK + 5)
                    self.contents[name].append((self.root / name).read_bytes())
                os.sync()
            args, code = commands[step]
            done = run_here(args, self.box.environment)
            assert done.code == code, (step, done)
            disk.mark(step)

    def check(self, cut: Cut) -> list[str]:
        """Say what is wrong after a cut."""
        said = cut.marks
        wrong = self._check_files(said)
        if not self.box.catalog.exists():
            return [*wrong, "no catalog"] if said else wrong
        wrong += self._check_facts(read_facts(self.box.catalog, 1 << 40), said) if said else []
        is_damaged = {name: (self.root / name).read_bytes() != self.contents[name][0] for name in NAMES[:2]}
        commands = [("catalog", "check"), ("--json", "scrub", self.root), ("--json", "findings"), ("catalog", "check")]
        first, scrub, found, last = run_forked(commands, self.box.environment).completed
        wrong += [f"exit {each.code}: {each.stdout}{each.stderr}" for each in (first, last) if each.code]
        return wrong + self._check_scrub(scrub, found, is_damaged, said)

    def _check_files(self, said: tuple[str, ...]) -> list[str]:
        wrong = []
        for name in NAMES:
            content = (self.root / name).read_bytes()
            if content not in self.contents[name] and "verified" in said:
                wrong.append(f"{name} is neither the good nor the damaged one: {len(content)} bytes")
        if "repaired" in said and (self.root / "mended.bin").read_bytes() != self.contents["mended.bin"][0]:
            wrong.append("the repair is lost")
        return wrong

    def _check_facts(self, facts: Facts, said: tuple[str, ...]) -> list[str]:
        rows = {row["name"]: row for _, row in _rows(facts["file"])}
        states = {row["path"]: row["state"] for _, row in _rows(facts["finding"])}
        wrong = [f"{len(rows)} files are recorded"] if len(rows) != len(NAMES) else []
        if "verified" in said:
            kept = [row for row in rows.values() if row["version"] == 1]
            wrong += [f"{row['name']} is not verified any more" for row in kept if row["verified_at"] is None]
        if "found" in said and len(states) != 2:
            wrong.append(f"findings: {states}")
        if "acked" in said and "open" in states.values():
            wrong.append(f"the acknowledgement is lost: {states}")
        if "repaired" in said and states.get(b"mended.bin") != "resolved":
            wrong.append(f"the end of the finding is lost: {states}")
        if "accepted" in said and rows[b"accepted.bin"]["version"] != 2:
            wrong.append("what was accepted is lost")
        return wrong

    def _check_scrub(
        self, scrub: Completed, found: Completed, is_damaged: dict[str, bool], said: tuple[str, ...]
    ) -> list[str]:
        wanted = {name for name, is_so in is_damaged.items() if is_so and "found" in said}
        maybe = set(NAMES[:2]) & {name for name, is_so in is_damaged.items() if is_so}
        named = {os.path.basename(str(each["path"])) for each in found.findings}
        if "accepted" in said:
            wanted -= {"accepted.bin"}
        wrong = [] if wanted - {"accepted.bin"} <= named <= maybe else [f"open findings: {named}; damaged: {maybe}"]
        if scrub.code not in (0, 1):
            wrong.append(f"scrub: exit {scrub.code}: {scrub.stdout}{scrub.stderr}")
        bad = [left for left in leftovers(self.root) if left.read_bytes() != self.contents["mended.bin"][-1]]
        return wrong + [f"{left.name} was left, {left.stat().st_size} bytes" for left in bad]


def _rows(rows: dict[object, object]) -> Iterator[tuple[tuple[object, ...], dict[str, object]]]:
    for key, values in rows.items():
        assert isinstance(key, tuple)
        assert isinstance(values, tuple)
        yield key, dict(values[0])


def run(fs_type: str, seed: int, count: int) -> Result:
    """Cut the power at ``count`` moments, and at each with all that a drive can have kept."""
    result = Result()
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder, CrashDisk(fs_type) as disk:
        scene = Scene(Path(folder), seed)
        with disk.running() as fs, scene.at_its_place(fs):
            scene.play(disk)
        caches = (Cache.NONE, Cache.HALF, Cache.ALL)
        for cut in disk.find_cuts(-(-count // len(caches)), caches=caches, is_torn=True, seed=seed):
            result.cuts += 1
            with disk.after(cut) as fs, scene.at_its_place(fs):
                for text in scene.check(cut) if scene.box.home.exists() else ():
                    after = cut.marks[-1:] or ("nothing",)
                    text = f"{fs_type}, seed {seed}, entry {cut.entry}, {cut.cache}, after {after[0]}: {text}"
                    result.failures.append(text)
                    print(text, flush=True)
    return result


def main() -> int:
    """Run the campaign, and say what it came to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fs", choices=["ext4", "xfs"], action="append")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    run_in_memory()
    failures = 0
    for fs_type in options.fs or ["ext4", "xfs"]:
        began = time.monotonic()
        result = run(fs_type, options.seed, options.count)
        failures += len(result.failures)
        took_s = time.monotonic() - began
        print(f"{fs_type}, seed {options.seed}: {result.cuts} cuts in {took_s:.0f} s, {len(result.failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
