"""
One flipped bit in a used catalog, in any of its pages or of its log, or one lost write: detected, or harmless (R9).

After each flip every command that looks is run, then a scan and a scrub, and all that they say is held against what
they say of the catalog as it was. What differs must be announced: by exit code 4, or by a finding that the catalog
itself is damaged. Nobody is accused whose file is as it should be, no command fails in a way that it does not explain.
A log that is cut short is the catalog of some commits ago: it must be one that was, see ``campaigns.kills``. A lost
write is found by ``catalog check``, and before each backup; until then commands tell what was before it.

By hand: ``python -m campaigns.flips --seed 1 --rounds 5 --bits 1000`` in ``tests``.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from campaigns.facts import tame_run
from campaigns.kills import SCENARIOS, Stage
from campaigns.world import World, run_in_memory
from support.cli import Completed
from support.flips import find_flips, find_lost_writes, find_pages, flip_bit
from support.killpoints import run_forked

TALLIED = ("file", "version", "finding", "copy_file")
_WRITER = """
import os, sys
from integrity.catalog.connection import Catalog
with Catalog.open(sys.argv[1], writes=True) as catalog:
    with catalog.transaction() as c:
        for change in ("file SET reason = reason", "version SET note = note", "finding SET step = step",
                       "folder SET path = path", "run SET error = error", "copy_file SET stated = stated"):
            c.run(f"UPDATE {change}")
    print("written", flush=True)
    sys.stdin.read()
    os._exit(0)
"""
"""A program that writes all pages of the most important tables to the log as they are, and keeps the catalog open."""


class Outcome(StrEnum):
    """What became of a flip."""

    HARMLESS = "harmless"  # all commands say what they said before
    ANNOUNCED = "announced"  # each command that says something else says that the catalog is damaged
    ELSEWHERE = "announced elsewhere"  # `catalog check` says so, but another command says something else, and not why
    UNCHECKED = "not seen by check"  # other commands say so, and `catalog check` that all is well
    WRONG = "wrong"


class Flipped(NamedTuple):
    """A flip: what it was, and what became of it."""

    what: str
    outcome: Outcome
    details: str


@dataclass
class Result:
    """What a campaign comes to."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, flipped: Flipped) -> None:
        """Count a flip, and show it if it is wrong."""
        self.outcomes[flipped.outcome] += 1
        if flipped.outcome in (Outcome.WRONG, Outcome.ELSEWHERE, Outcome.UNCHECKED):
            text = f"{flipped.outcome}: {flipped.what}: {flipped.details}"
            print(text[:1500], flush=True)
            self.failures.append(text)


class Judge:
    """Knows what the commands say of the catalog as it was."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._commands = (
            ("--json", "status"),
            ("--json", "findings", "--all"),
            ("--json", "explain", world.planted[0]),
            ("--json", "explain", world.root / "b/newer.bin"),
            ("--json", "explain", world.root / "b/accepted.bin"),
            ("catalog", "check"),
            ("--json", "scan", world.root),
            ("--json", "scrub", world.root),
            ("--json", "findings", "--all"),
            ("--json", "status"),
            ("--json", "gate", world.root),
            ("--json", "compare", world.root / "larger.bin", "--with", world.copy, "--read"),
        )
        names = [next(word for word in words if word != "--json") for words in self._commands]
        self._check, self._scan, self._scrub = map(names.index, ("catalog", "scan", "scrub"))
        self._right = [*map(tame_run, self._run())]
        world.restore("base", tree=False)

    def judge(self, what: str) -> Flipped:
        """Run all commands, and hold what they say against what they should say."""
        done = self._run()
        assert len(done) == len(self._commands), what
        bugs = [each.stderr for each in done if "Traceback" in each.stderr or "a bug" in each.stderr]
        if bugs:
            return Flipped(what, Outcome.WRONG, bugs[0])
        different = [nth for nth, each in enumerate(done) if tame_run(each) != self._right[nth]]
        if not different:
            return Flipped(what, Outcome.HARMLESS, "")
        silent = [nth for nth in different if not _is_announced(done[nth])]
        accused = self._find_accused(done)
        details = "; ".join(self._show(nth, done[nth]) for nth in silent)
        if accused:
            return Flipped(what, Outcome.WRONG, f"accused: {accused}; {details}")
        # What follows counts a finding about the catalog, too, or has not seen what a job that ended early would find.
        was_announced = any(map(_is_announced, (done[self._scan], done[self._scrub])))
        is_detected = done[self._check].code == 4
        if not [nth for nth in silent if nth <= self._scrub or not was_announced]:
            notices = "; ".join(done[nth].stderr for nth in different if done[nth].stderr)
            return Flipped(what, Outcome.ANNOUNCED if is_detected else Outcome.UNCHECKED, notices)
        return Flipped(what, Outcome.ELSEWHERE if is_detected else Outcome.WRONG, details)

    def _run(self) -> list[Completed]:
        return run_forked(self._commands, self._world.box.environment).completed

    def _find_accused(self, done: list[Completed]) -> set[object]:
        """Find files that have a finding, and have none when nothing is flipped."""
        kinds = {"rot", "silent_rewrite", "transient", "shrunk", "missing", "changed"}
        found = {
            each["path"] for one in done[self._scan : self._scrub + 1] for each in one.findings if each["kind"] in kinds
        }
        right = {os.fspath(path) for path in self._world.planted}
        return found - right - {os.fspath(self._world.root / f"b/{name}.bin") for name in ("acked", "newer")}

    def _show(self, nth: int, done: Completed) -> str:
        code, text = self._right[nth]
        one, other = set(text.splitlines()), set(tame_run(done)[1].splitlines())
        lines = f"{sorted(one - other)[:1]} {sorted(other - one)[:1]}"
        return f"{self._commands[nth][:2]} exit {done.code}, not {code}: {lines}"


def _is_announced(done: Completed) -> bool:
    """Say whether a command says that something is wrong with the catalog."""
    return done.code == 4 or "catalog_damaged" in done.stdout or "catalog" in done.stderr


def flip_pages(world: World, judge: Judge, seed: int) -> Iterator[Flipped]:
    """Flip a bit of each page."""
    for _, what in find_flips(world.box.catalog, random.Random(seed)):
        yield judge.judge(f"seed {seed}: {what}")
        world.restore("base", tree=False)


def lose_writes(world: World, judge: Judge, before: bytes) -> Iterator[Flipped]:
    """Lose each page of the tables that are counted which was written since a state of the file."""
    for _, what in find_lost_writes(world.box.catalog, before, *TALLIED):
        flipped = judge.judge(what)
        is_known = flipped.outcome is Outcome.ELSEWHERE
        yield flipped._replace(outcome=Outcome.ANNOUNCED) if is_known else flipped
        world.restore("base", tree=False)


def flip_file(world: World, judge: Judge, seed: int, count: int) -> Iterator[Flipped]:
    """Flip bits anywhere in the catalog's file."""
    chance = random.Random(seed)
    for _ in range(count):
        world.restore("base", tree=False)
        yield judge.judge(f"seed {seed}: {flip_bit(world.box.catalog, chance)}")
    world.restore("base", tree=False)


def flip_header(world: World, judge: Judge, seed: int, count: int) -> Iterator[Flipped]:
    """Flip bits of the header of the file, each once: 800 are all."""
    clean = world.box.catalog.read_bytes()
    for number in random.Random(seed).sample(range(800), min(count, 800)):
        world.restore("base", tree=False)
        byte, bit = divmod(number, 8)
        world.box.catalog.write_bytes(clean[:byte] + bytes([clean[byte] ^ 1 << bit]) + clean[byte + 1 :])
        yield judge.judge(f"header: bit {bit} of byte {byte}")
    world.restore("base", tree=False)


def flip_live_log(world: World, judge: Judge, seed: int, count: int) -> Iterator[Flipped]:
    """Flip bits in the log of a program that has the catalog open, while other commands use it."""
    chance = random.Random(seed)
    for _ in range(count):
        world.restore("base", tree=False)
        with _writing(world):
            yield judge.judge(f"seed {seed}, live: {flip_bit(Path(f'{world.box.catalog}-wal'), chance)}")
    world.restore("base", tree=False)


@contextmanager
def _writing(world: World) -> Iterator[None]:
    command = [sys.executable, "-c", _WRITER, str(world.box.catalog)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        yield
        writer.kill()


def flip_log(world: World, seed: int, count: int) -> Iterator[Flipped]:
    """Flip bits in the log of a scan that was killed; what stands behind them is lost, as by an earlier kill."""
    chance = random.Random(seed)
    stage = Stage(world, next(each for each in SCENARIOS if each.name == "scan"))
    stage.reset(tree=False)
    log, clean = Path(f"{world.box.catalog}-wal"), world.box.catalog.read_bytes()
    done: list[str] = []

    def flip() -> None:
        # While a checkpoint is under way a part of the log is in the file, and both are needed: that is two faults.
        if world.box.catalog.read_bytes() == clean and log.exists() and log.stat().st_size:
            done.append(flip_bit(log, chance))

    for tries in itertools.count(1):
        at, before = chance.randrange(len(stage.calls) // 3, len(stage.calls) * 3 // 4), len(done)
        wrong = stage.kill(at, checks_first=chance.random() < 0.5, asks_all=False, then=flip)
        is_announced = any("exit 4" in text for text in wrong)
        outcome = Outcome.HARMLESS if not wrong else Outcome.ANNOUNCED if is_announced else Outcome.WRONG
        if len(done) > before:
            yield Flipped(f"seed {seed}: killed at {at}, {done[-1]}", outcome, "; ".join(wrong))
        if len(done) == count:
            return
        assert 2 * len(done) + 10 > tries, "of most kills no log is left to flip"


def run(seed: int, rounds: int, bits: int) -> Result:
    """
    Flip a bit of each page ``rounds`` times, lose each write, and flip ``bits`` bits of the file and of the log.

    The log is flipped while a program uses it, and after one was killed; of the header up to ``bits`` bits, once each.
    """
    result = Result()
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder, World(Path(folder)) as world:
        world.make(is_served=True)
        find_pages(world.box.catalog)  # empties the log
        before = world.box.catalog.read_bytes()
        world.run("scan", world.copy)
        world.run("scrub", world.copy)
        world.run("ack", "2", expect=0)
        world.save("base")
        judge = Judge(world)
        for nth in range(rounds):
            _add_all(result, f"pages, seed {seed + nth}", flip_pages(world, judge, seed + nth))
        _add_all(result, "lost writes", lose_writes(world, judge, before))
        _add_all(result, "file", flip_file(world, judge, seed, bits))
        _add_all(result, "header", flip_header(world, judge, seed, bits))
        _add_all(result, "live log", flip_live_log(world, judge, seed, bits))
        _add_all(result, "log", flip_log(world, seed, bits))
    return result


def _add_all(result: Result, name: str, flips: Iterator[Flipped]) -> None:
    before = result.outcomes.copy()
    for nth, flipped in enumerate(flips, 1):
        result.add(flipped)
        if nth % 100 == 0:
            print(f"{name}: {nth} flips", flush=True)
    print(f"{name}: {dict(result.outcomes - before)}", flush=True)


def main() -> int:
    """Run the campaign, and say what it came to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bits", type=int, default=1000)
    options = parser.parse_args()
    run_in_memory()
    began = time.monotonic()
    result = run(options.seed, options.rounds, options.bits)
    flips, failures = sum(result.outcomes.values()), len(result.failures)
    took_s = time.monotonic() - began
    print(f"seed {options.seed}: {flips} flips in {took_s:.0f} s, {failures} failures: {dict(result.outcomes)}")
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
