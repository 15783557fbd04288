"""
A hostile local user in the watched folder, while root scans, scrubs, compares and repairs it.

The folder is his; beside it lie files of root's: a secret, a canary tree, a backup. He does what ``campaigns.tricks``
says, as fast as he can, a few tricks a round. After each round

- nothing outside of his folders has changed: owner, mode, content, inode, and the times of folders;
- the secret is nowhere in the catalog, in what was printed, and in files that he may read;
- the command ended in time, with an exit code that is documented, and no traceback;
- no file in his folders is root's that was not before, or has set-id bits that he did not give; what a repair made has
  the old or the good bytes, and nothing that it made for itself is left;
- with him gone, a scan and a scrub account for each name, and accuse the disk of nothing that he did.

By hand: ``python -m campaigns.neighbour --seed 1 --count 500`` in ``tests``; ``--only NAME`` for one scenario,
``--only NAME --at N`` for one of its rounds. Races do not repeat exactly: repeat a round some times.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import stat
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import xxhash

from campaigns.tricks import MARK, TRICKS, Attack, Prey, furnish
from campaigns.world import BLOCK, World, run_in_memory
from support import AnyPath
from support.bitrot import rot
from support.cli import Completed
from support.privileges import NOBODY, as_nobody, let_in
from support.programs import sh
from support.shapes import damage, put
from support.stored import query

DEADLINE_S = 120.0
_SIZES = (3_000, 9_000, BLOCK + 9_000, 3 * BLOCK + 500)
_FOLDERS = ("a", "b", "c", "c/d", "c/d/e")
_CONFIG = '[defaults]\nblock_size = "64KiB"\npolicy = "{policy}"\n'
_CODES = {0, 1, 3}
_NO_FILE = "lies in no recorded folder"
"""What is said of a file in whose place, or above which, a link out of the tree stands: exit 2."""

_SET_ID = stat.S_ISUID | stat.S_ISGID
_NAMES = (
    "SELECT CASE folder.path WHEN x'' THEN name ELSE CAST(folder.path || x'2f' || name AS BLOB) END"
    " FROM file JOIN folder ON folder.id = folder_id"
)


class Land:
    """
    The watched folder and what lies beside it on the same file system.

    Attributes:
        world: file system, home and catalog.
        root: the watched folder, the neighbour's.
        home: another folder of his.
        his_copy: a backup in it.
        vault: a folder of root's with the secret, closed to others.
        canary: a folder of root's that all may read; one file in it may be written to by all.
        copy: a backup that only root may read.
        contents: all that may stand in a file, but for what the neighbour does to it.
        rotten: those of them that the disk made.
        secrets: what he must not get to read: that of the vault, and that of a file of root's in his tree.
    """

    def __init__(self, world: World) -> None:
        self.world, self.root = world, world.root
        above = world.fs.folder
        self.home, self.his_copy = above / "home", above / "home/copy"
        self.vault, self.canary, self.copy = above / "vault", above / "canary", above / "copy"
        self.contents: set[bytes] = set()
        self.rotten: set[bytes] = set()
        self.secrets: list[bytes] = []

    def make(self, source: random.Random) -> None:
        """Make all of it, as it is before anything is recorded."""
        let_in(self.world.fs.folder)
        self._make_roots(source)
        for folder in (self.root, self.home):
            folder.mkdir()
            os.chown(folder, NOBODY, NOBODY)
        with as_nobody():
            for name in _FOLDERS:
                (self.root / name).mkdir()
                for number, size in enumerate(_SIZES, 1):
                    put(self.root / name / f"{number}.bin", source.randbytes(size))
            (self.root / "c/link.bin").hardlink_to(self.root / "b/4.bin")
            links = (self.vault / "secret.bin", self.canary / "a/1.bin"), (self.vault, self.canary / "a")
            furnish(self.home, *links)
            sh("cp", "-a", self.root, self.his_copy)
        self._make_of_root_in_tree(source)
        sh("cp", "-a", self.root, self.copy)
        self.copy.chmod(0o700)
        self.take_contents()

    def _make_roots(self, source: random.Random) -> None:
        self.vault.mkdir(mode=0o700)
        self.secrets = [source.randbytes(5_000)]
        put(self.vault / "secret.bin", self.secrets[0])
        (self.vault / "secret.bin").chmod(0o600)
        for name in ("a", "b"):
            (self.canary / name).mkdir(parents=True)
            for number, size in enumerate(_SIZES, 1):
                put(self.canary / name / f"{number}.bin", source.randbytes(size))
        put(self.canary / "open.bin", source.randbytes(_SIZES[1]))
        (self.canary / "open.bin").chmod(0o666)

    def _make_of_root_in_tree(self, source: random.Random) -> None:
        """Have root keep two files in a folder of his: one that he can't read, one that runs as root."""
        for name, mode in (("private.bin", 0o600), ("tool.bin", 0o4755)):
            path = self.root / "a" / name
            put(path, source.randbytes(_SIZES[1]))
            path.chmod(mode)
        self.secrets.append((self.root / "a/private.bin").read_bytes())

    def take_contents(self) -> None:
        """Know all that files in the tree are by now, as what may stand in them."""
        self.contents.update(path.read_bytes() for path in self.root.rglob("*.bin"))
        self.contents.add((self.canary / "open.bin").read_bytes())

    def find_files(self) -> Iterator[tuple[str, os.stat_result, bytes]]:
        """Find all regular files of the file system: path relative to it, stat, content."""
        top = self.world.fs.folder
        for folder, _, names, fd in os.fwalk(top):
            for name in names:
                seen = os.lstat(name, dir_fd=fd)
                if stat.S_ISREG(seen.st_mode):
                    opened = os.open(name, os.O_RDONLY | os.O_NOATIME, dir_fd=fd)
                    with os.fdopen(opened, "rb") as file:
                        yield os.path.relpath(os.path.join(folder, name), top), seen, file.read()

    def describe_roots(self) -> dict[str, object]:
        """Return what of root's must never change: attributes and content; of a folder its times as well."""
        found: dict[str, object] = {}
        for top in (self.vault, self.canary, self.copy):
            for path in (top, *sorted(top.rglob("*"))):
                seen = path.lstat()
                content = path.read_bytes() if path.is_file() else b""
                moves = path.name != "open.bin"  # he may give that other names, which moves its ctime
                what = (seen.st_ino, seen.st_uid, seen.st_gid, seen.st_mode, seen.st_mtime_ns)
                found[str(path)] = (*what, seen.st_ctime_ns if moves else 0, hashlib.md5(content).hexdigest())
        return found

    def find_roots_inodes(self) -> set[int]:
        """Return the inodes of root's files wherever they are."""
        return {seen.st_ino for _, seen, _ in self.find_files() if seen.st_uid == 0}


class Scenario(NamedTuple):
    """
    A command that is raced against.

    Attributes:
        name: of the scenario.
        state: what was before, of ``STATES``.
        args: of the command.
        area: the folder in which he is at work.
        tricks: he always plays these, besides a few others or none.
        waits: he begins only when a repair makes a file: one that moved before is refused.
    """

    name: str
    state: str
    args: Callable[[Land], Sequence[AnyPath]]
    area: Callable[[Land], Path] = lambda land: land.root
    tricks: tuple[str, ...] = ()
    waits: bool = False


_AT_TEMPS = ("temporary_files",)
_TARGETS = ("a/2.bin", "a/3.bin", "b/1.bin", "b/4.bin", "c/d/e/3.bin")
_GONE = ("a/1.bin", "a/private.bin", "c/d/2.bin")


def _name_targets(land: Land) -> list[AnyPath]:
    return [land.root / name for name in _TARGETS]


SCENARIOS = (
    Scenario("scan", "clean", lambda w: ("scan", w.root)),
    Scenario("scan --full", "clean", lambda w: ("scan", "--full", w.root)),
    Scenario("scrub", "clean", lambda w: ("scrub", w.root)),
    Scenario("scrub --no-scan", "damaged", lambda w: ("scrub", "--no-scan", w.root)),
    Scenario("compare", "clean", lambda w: ("compare", w.root, "--with", w.copy)),
    Scenario("compare --read", "clean", lambda w: ("compare", w.root, "--with", w.copy, "--read")),
    Scenario(
        "compare his copy",
        "clean",
        lambda w: ("compare", w.root, "--with", w.his_copy, "--read"),
        lambda w: w.his_copy,
    ),
    Scenario("repair", "damaged", lambda w: ("repair", w.root, "--from", w.copy, "--apply")),
    Scenario(
        "repair, aimed at",
        "damaged",
        lambda w: ("repair", w.root, "--from", w.copy, "--apply"),
        waits=True,
    ),
    Scenario(
        "repair, temporary files",
        "damaged",
        lambda w: ("repair", w.root, "--from", w.copy, "--apply"),
        tricks=_AT_TEMPS,
        waits=True,
    ),
    Scenario(
        "repair FILE...",
        "damaged",
        lambda w: ("repair", *_name_targets(w), "--from", w.copy, "--apply", "--discard"),
        tricks=_AT_TEMPS,
        waits=True,
    ),
    Scenario(
        "repair from his copy",
        "damaged",
        lambda w: ("repair", w.root, "--from", w.his_copy, "--apply"),
        lambda w: w.his_copy,
    ),
    Scenario(
        "repair what is gone",
        "gone",
        lambda w: ("repair", w.root, "--from", w.copy, "--apply"),
        tricks=_AT_TEMPS,
        waits=True,
    ),
)


def _make_clean(land: Land) -> None:
    land.world.run("scan", land.root, expect=0)
    land.world.run("scrub", land.root, expect=0)


def _make_damaged(land: Land) -> None:
    _make_clean(land)
    for name in _TARGETS[:2]:
        rot(land.root / name, 700)
        land.rotten.add((land.root / name).read_bytes())
    for name in _TARGETS[2:]:
        damage(land.root / name, 100)
    land.world.run("scrub", land.root, expect=1)


def _make_gone(land: Land) -> None:
    land.world.box.configure(_CONFIG.format(policy="archive"))
    _make_clean(land)
    for name in _GONE:
        (land.root / name).unlink()
    sh("rm", "-r", land.root / "c/d/e")
    land.world.run("scan", land.root, expect=1)


STATES = {"clean": _make_clean, "damaged": _make_damaged, "gone": _make_gone}


@dataclass
class Result:
    """What a campaign comes to: rounds, exit codes and repaired files by scenario, tricks, and what was wrong."""

    rounds: Counter[str] = field(default_factory=Counter)
    ends: Counter[tuple[str, object]] = field(default_factory=Counter)
    tricks: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


class Stage:
    """One scenario, prepared."""

    def __init__(self, land: Land, scenario: Scenario) -> None:
        self._land, self._scenario = land, scenario
        land.world.restore(scenario.state)
        self._known = {one["id"] for one in land.world.box.findings("findings")}

    def play(self, chance: random.Random, result: Result) -> list[str]:
        """Play one round, and name what is wrong after it."""
        others = chance.choice((0, 0, 1, 3) if self._scenario.tricks else (1, 2, 3, 6))
        names = sorted({*self._scenario.tricks, *chance.sample(sorted(TRICKS), others)})
        try:
            wrong = self._play(names, chance, result)
        except AssertionError as error:  # what is said of a command that does not end
            wrong = [str(error)[:3000]]
        return [f"tricks {', '.join(names)}: {text}" for text in wrong]

    def _play(self, names: Sequence[str], chance: random.Random, result: Result) -> list[str]:
        land, scenario, box = self._land, self._scenario, self._land.world.box
        land.world.restore(scenario.state)
        before, inodes = land.describe_roots(), land.find_roots_inodes()
        prey = Prey(scenario.area(land), land.home, land.canary / "open.bin")
        began = time.monotonic()
        with Attack(prey, names, repr(chance.random()), waits=scenario.waits) as attack:
            done = box.run("--json", *scenario.args(land), timeout=DEADLINE_S)
            result.tricks.update(attack.counts)
        result.ends[scenario.name, done.code] += 1
        result.ends[scenario.name, "repaired"] += sum(bool(one["is_repaired"]) for one in done.of_type("repair"))
        result.ends[scenario.name, "seconds"] += round(time.monotonic() - began)
        wrong = [*self._check_end(done), *self._check_roots(before), *self._check_files(inodes)]
        seen = [done]
        wrong += self._check_peace(seen)
        return [*wrong, *self._check_secret(seen)]

    def _check_end(self, done: Completed, codes: set[int] = _CODES) -> Iterator[str]:
        said = done.stdout + done.stderr
        if done.code not in codes and not (done.code == 2 and _NO_FILE in said):
            yield f"exit {done.code}: {said[-1500:]}"
        for word in ("Traceback", "this is a bug"):
            if word in said:
                yield f"says {word!r}: {said[-3000:]}"

    def _check_roots(self, before: dict[str, object]) -> Iterator[str]:
        after = self._land.describe_roots()
        for path in sorted(before.keys() | after.keys()):
            if before.get(path) != after.get(path):
                yield f"root's {path} was {before.get(path)}, is {after.get(path)}"

    def _check_files(self, inodes: set[int]) -> Iterator[str]:
        land = self._land
        for name, seen, content in land.find_files():
            if name.split("/")[0] not in ("data", "home"):
                continue
            if seen.st_uid == 0 and seen.st_ino not in inodes and not self._is_private(seen):
                yield f"{name} is root's now, mode {seen.st_mode:o}"
            if seen.st_uid == 0 and seen.st_mode & _SET_ID and not self._is_of_root(content):
                yield f"{name} runs as root, with other content"
            if re.search(r"\.integrity-[0-9a-f]{16}\.new$", name) and name.startswith("data/"):
                yield f"{name} is left"
            if seen.st_size and not _is_like(content, land.contents):
                yield f"{name} has content that nobody wrote"

    def _is_private(self, seen: os.stat_result) -> bool:
        """Say whether he has no use for a file: root's that was gone, or an unfinished one that he put elsewhere."""
        return stat.S_IMODE(seen.st_mode) == 0o600

    def _is_of_root(self, content: bytes) -> bool:
        return content == (self._land.copy / "a/tool.bin").read_bytes()

    def _check_peace(self, seen: list[Completed]) -> Iterator[str]:
        """Scan and scrub with him gone: all is accounted for, and the disk is blamed for what it did only."""
        land, box = self._land, self._land.world.box
        for command in ("scan", "scrub"):
            done = box.run("--json", command, land.root, timeout=DEADLINE_S)
            seen.append(done)
            yield from (f"afterwards, {command}: {text}" for text in self._check_end(done, {0, 1}))
            if done.of_type("summary"):
                yield from self._check_sum(command, done)
        there = {
            os.fsencode(name).removeprefix(b"data/")
            for name, _, _ in land.find_files()
            if name.startswith("data/") and ".integrity-" not in name
        }
        known = {bytes(name) for (name,) in query(box, _NAMES) if isinstance(name, bytes)}
        if missed := there - known:
            yield f"not recorded: {sorted(missed)[:3]}"
        found = box.run("--json", "findings", timeout=DEADLINE_S).findings
        if stale := known - there - {os.fsencode(os.path.relpath(str(one["path"]), land.root)) for one in found}:
            yield f"recorded, though gone, with no finding: {sorted(stale)[:3]}"
        for one in found:
            if one["kind"] == "rot" and one["id"] not in self._known and not self._is_rotten(Path(str(one["path"]))):
                yield f"the disk is blamed: {one}"

    def _check_sum(self, command: str, done: Completed) -> Iterator[str]:
        counts = {name: value for name, value in done.summary.items() if name.startswith("files_")}
        parts = ("verified", "new", "changed", "damaged", "missing", "unreadable", "unstable", "skipped", "not_due")
        if counts["files_known"] != sum(int(str(counts[f"files_{part}"])) for part in parts):
            yield f"{command} does not account for all: {counts}"

    def _is_rotten(self, path: Path) -> bool:
        """Say whether a file that is said to be rotten has bytes that the disk changed, wherever it stands by now."""
        try:
            content = path.read_bytes()
        except OSError:
            return False
        return _is_like(content, self._land.rotten)

    def _check_secret(self, seen: Sequence[Completed]) -> Iterator[str]:
        land = self._land
        secret = land.secrets[0]
        digests = [hashlib.md5(secret).digest(), xxhash.xxh3_128_digest(secret)]
        needles = [secret[100:132], *digests, *(digest.hex().encode() for digest in digests)]
        texts = [(done.stdout + done.stderr).encode("utf-8", "surrogateescape") for done in seen]
        if any(needle in text for text in texts for needle in needles):
            yield "the secret is in what was printed"
        for path in land.world.box.home.rglob("*"):
            if path.is_file() and any(needle in path.read_bytes() for needle in needles):
                yield f"the secret is in {path.name}"
        for name, status, content in land.find_files():
            is_readable = status.st_uid == NOBODY or bool(status.st_mode & stat.S_IROTH)
            if is_readable and any(secret[100:132] in content for secret in land.secrets):
                yield f"he may read what was root's alone: {name}, owner {status.st_uid}, mode {status.st_mode:o}"


def _is_like(content: bytes, known: set[bytes]) -> bool:
    """Say whether a file is one of those that are known, but for what he writes to it and cuts from it."""
    if set(content[len(MARK) :]) <= {*MARK, 0}:
        return True
    for one in known:
        half = len(one) // 2
        ends = {one[half:], bytes(len(one) - half), b""}
        if content[len(MARK) : half] == one[len(MARK) : half] and content[half:] in ends:
            return True
    return False


def run(seed: int, count: int, only: Sequence[str] = (), at: int | None = None) -> Result:
    """Play ``count`` rounds, spread evenly over the scenarios; one after the other."""
    result = Result()
    scenarios = [each for each in SCENARIOS if not only or each.name in only]
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder, World(Path(folder)) as world:
        land = _prepare(world, {each.state for each in scenarios})
        for nth, scenario in enumerate(scenarios):
            stage = Stage(land, scenario)
            share = count * (nth + 1) // len(scenarios) - count * nth // len(scenarios)
            for number in range(share) if at is None else [at] * count:
                result.rounds[scenario.name] += 1
                for text in stage.play(random.Random(f"{seed} {scenario.name} {number}"), result):
                    result.failures.append(text)
                    print(f"--seed {seed} --only '{scenario.name}' --at {number}: {text}", flush=True)
            ends = {key: value for (name, key), value in result.ends.items() if name == scenario.name}
            rounds = result.rounds[scenario.name]
            print(f"{scenario.name}: {rounds} rounds, ends {ends}, {len(result.failures)} wrong so far", flush=True)
    return result


def _prepare(world: World, states: set[str]) -> Land:
    """Make the land, and save it as it is in each state."""
    land = Land(world)
    world.box.configure(_CONFIG.format(policy="mutable"))
    land.make(random.Random(7))
    world.settle()
    world.save("bare")
    for state in sorted(states):
        world.restore("bare")
        STATES[state](land)
        land.take_contents()
        world.settle()
        world.save(state)
    return land


def main() -> int:
    """Run the campaign, and say what it came to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--only", action="append", default=[], choices=[each.name for each in SCENARIOS])
    parser.add_argument("--at", type=int)
    options = parser.parse_args()
    run_in_memory()
    began = time.monotonic()
    result = run(options.seed, options.count, options.only, options.at)
    rounds = sum(result.rounds.values())
    print(f"tricks done: {dict(result.tricks.most_common())}")
    print(f"seed {options.seed}: {rounds} rounds in {time.monotonic() - began:.0f} s, {len(result.failures)} failures")
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
