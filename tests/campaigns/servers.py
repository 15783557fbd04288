"""
Servers that lie, stall and cut: S3, SSH, SFTP and rclone with a copy, and SMTP (``campaigns.mailserver``).

A round: a seed chooses a server, what it does wrong and when, and ``compare``, ``compare --read`` or ``repair --apply``
run with it. Then:

- the program ends by a deadline, with a documented exit code other than 0 (there is something to find), and explains;
- no file is written to but by ``repair``, and there only what was there or what is good stands afterwards; what is
  recorded of the originals is as before, and none is called damaged that wasn't before;
- what differs is not called the same;
- with the server honest again, the same command says and leaves what it does when there never was a lie.

What nobody can know is left out: no lie states the right digest of what differs.

By hand: ``python -m campaigns.servers --seed 1 --count 1000`` in ``tests``; ``--only s3`` for one server, ``--fault
NAME`` for one fault; ``--only s3 --round N`` for one round, whose number a failure comes with.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from campaigns import mailserver
from campaigns.facts import Facts, read_facts
from campaigns.liars import PART_BYTES, Fault, Liar, S3Liar, SshLiar
from campaigns.world import World, run_in_memory
from support import AnyPath
from support.bitrot import rot
from support.cli import Completed, complete
from support.killpoints import run_forked
from support.results import notes
from support.s3box import open_s3
from support.shapes import put
from support.stored import query
from support.warmstart import WarmStart

_SERVERS = ["s3", "rclone", "ssh", "sftp", "smtp"]
_AGAIN = "with the server honest again"
_DEADLINE_S = 90.0
_ENDS = (1, 3)
"""There is something to find, so nothing may end with 0; 2 and 4 are not a server's."""
_BASELINE = ("size_bytes", "mtime_ns", "md5", "xxh3_128", "crc64nvme", "version", "reason")
_ABOUT_FILES = ("rot", "silent_rewrite", "transient", "changed", "missing", "shrunk", "unreadable", "catalog_damaged")
_NOT_KNOWN = ("copy_unreadable", "copy_not_comparable")
"""All that can be said of a copy whose server did not come to an end of what it said."""
_OPEN = "SELECT kind, path FROM finding WHERE state != 'resolved'"
_SAME = (
    "SELECT folder.path, name FROM copy_file JOIN file ON file.id = file_id JOIN folder ON folder.id = folder_id"
    " WHERE vote = 'same' AND copy_file.version = file.version"
)


class Command(NamedTuple):
    """What is run with a lying server: the arguments before the copy's URL, after which its own options come."""

    name: str
    before: tuple[AnyPath, ...]
    after: tuple[AnyPath, ...]


class Left(NamedTuple):
    """What a run with an honest server leaves."""

    code: int
    findings: frozenset[tuple[object, object]]
    same: frozenset[tuple[object, ...]]
    tree: dict[str, object]
    facts: Facts
    asked: dict[str, int]
    unknown: frozenset[object]  # paths of what can't be compared with this copy


class Stage:
    """
    A world, a server with its copy, and what all the commands leave when it is honest.

    Args:
        world: with the states "new" and, when the stage was set, one in which the copy was compared before.
        liar: entered.
        warm: where runs come from.
    """

    def __init__(self, world: World, liar: Liar, warm: WarmStart) -> None:
        self._world, self.liar, self._warm = world, liar, warm
        compare = ("--json", "compare", world.root, "--with")
        repair = ("--json", "repair", world.root, "--from")
        self.commands = [
            Command("compare", compare, ()),
            Command("compare --read", compare, ("--read",)),
            Command("repair", repair, ("--apply",)),
        ]
        world.restore("new")
        liar.begin()
        self._run(self.commands[0], None)
        world.save(f"compared {liar.name}")
        self._measured: dict[tuple[str, str], Left] = {}

    def _run(self, command: Command, fault: Fault | None) -> Completed:
        url, *options = self.liar.find_url(fault)
        args = [*command.before, url, *options, *command.after]
        environment = self._world.box.environment | self.liar.env
        code, out, err = self._warm.run(args, environment, None, _DEADLINE_S)
        return complete(code, out, err, is_json=True)

    def _expect(self, command: Command, state: str) -> Left:
        """Return what an honest run leaves."""
        key = (command.name, state)
        if key not in self._measured:
            self._world.restore(state)
            self.liar.begin()
            done = self._run(command, None)
            assert done.code in (0, *_ENDS), (command.name, done)
            self._measured[key] = self._look(done)
        return self._measured[key]

    def _look(self, done: Completed) -> Left:
        box = self._world.box
        return Left(
            done.code,
            frozenset(query(box, _OPEN)),  # type: ignore[arg-type]
            frozenset(query(box, _SAME)),
            self._world.list_tree(),
            read_facts(box.catalog, self._world.start),
            self.liar.measure(),
            frozenset(notes(done, "copy_not_comparable")),
        )

    def play(self, command: Command, state: str, fault: Fault) -> list[str]:
        """Run a command with a fault and then without, and return what is wrong."""
        expected = self._expect(command, state)
        self._world.restore(state)
        self._world.restore(state)
        base = self._look(Completed(0, "", ""))
        self.liar.begin(fault, expected.asked)
        try:
            done = self._run(command, fault)
        except TimeoutError as error:
            self.liar.begin()
            return [f"did not end within {_DEADLINE_S:g} s: {error}"]
        told = self.liar.told
        wrong = self._judge(command, fault, done, base, expected)
        self.liar.begin()
        again = self._run(command, None)
        wrong += self._judge_again(again, expected, fault)
        return [f"{text} ({told}; exit {done.code}, {done.stderr[-300:]!r})" for text in wrong]

    def _judge(self, command: Command, fault: Fault, done: Completed, base: Left, honest: Left) -> list[str]:
        wrong, left = [], self._look(done)
        repairs = command.name == "repair"
        is_whole = repairs and left.tree == honest.tree
        if done.code not in _ENDS and not (done.code == honest.code and (is_whole or not repairs)):
            wrong.append(f"exit {done.code}: {done.stderr[-600:]}")
        if "Traceback" in done.stderr or "a bug" in done.stderr:
            wrong.append(f"not explained: {done.stderr[-1500:]}")
        for name in left.tree.keys() | base.tree.keys():
            states = [base.tree.get(name), honest.tree.get(name)] if repairs else [base.tree.get(name)]
            if left.tree.get(name) not in states:
                wrong.append(f"{name} is {left.tree.get(name)}, not one of {states}")
        for finding, path in left.findings - base.findings - honest.findings:
            if finding in _ABOUT_FILES or (fault.what in self.liar.silent and finding not in _NOT_KNOWN):
                wrong.append(f"{finding} is said of {path!r}")
        if mistaken := left.same - honest.same:
            wrong.append(f"called the same: {sorted(mistaken)}")
        return wrong + self._judge_facts(left.facts, base.facts, honest.facts)

    def _show(self, path: object) -> str:
        return f"{self._world.root}/{path.decode()}" if isinstance(path, bytes) else ""

    def _judge_facts(self, facts: Facts, base: Facts, honest: Facts) -> list[str]:
        wrong = []
        for table in ("file", "block_run", "version"):
            for key in facts[table].keys() | base[table].keys():
                value, *states = (_take(table, each[table].get(key)) for each in (facts, base, honest))
                if value not in states:
                    wrong.append(f"{table} {key} is {value}, not one of {states}"[:1500])
        return wrong

    def _judge_again(self, again: Completed, honest: Left, fault: Fault) -> list[str]:
        left, wrong = self._look(again), []
        if again.code != honest.code:
            wrong.append(f"{_AGAIN} it exits {again.code}, not {honest.code}: {again.stderr[-500:]}")
        # Nothing new can be known of these: what was said stays until something is.
        differing = [one for one in left.findings ^ honest.findings if self._show(one[1]) not in honest.unknown]
        if "flipped" in fault.what:  # what was read then is a witness like any other
            accused = {path for kind, path in left.findings if kind == "copy_differs"}
            differing = [one for one in differing if one[1] not in accused & {path for _, path in honest.findings}]
        if differing:
            wrong.append(f"{_AGAIN} findings differ: {sorted(differing, key=repr)}")
        if left.same != honest.same:
            wrong.append(f"{_AGAIN} the same are not: {sorted(left.same ^ honest.same)}")
        if left.tree != honest.tree:
            wrong.append(f"{_AGAIN} the tree differs: {sorted(left.tree.items() ^ honest.tree.items())}")
        return wrong


def _take(table: str, rows: object) -> object:
    """Take of a row what does not change when a file is read once more."""
    if table != "file" or not isinstance(rows, tuple):
        return rows
    return tuple(tuple(pair for pair in row if pair[0] in _BASELINE) for row in rows)


def _prepare(world: World, folder: Path) -> Path:
    """Make the world with a file that needs parts, and return a copy of it that differs in many ways."""
    world.root.mkdir()
    put(world.root / "parts.bin", random.Random(3).randbytes(PART_BYTES + (2 << 20) + 77))
    world.make()
    copy = folder / "copy"
    shutil.copytree(world.copy, copy)
    damaged = bytearray((copy / "large.bin").read_bytes())
    damaged[150_000] ^= 1  # another block of a file that is damaged in the root, too
    (copy / "large.bin").write_bytes(damaged)
    rot(world.root / "parts.bin", PART_BYTES + 100_000)
    # It hurries: between two readings that confirm damage lie seconds.
    done = run_forked([("scan", world.root), ("scrub", world.root)], world.box.environment).completed
    assert done[-1].code == 1, done
    world.save("new")
    return copy


class Tally(NamedTuple):
    """Rounds and failures by server and fault."""

    rounds: Counter[tuple[str, str]]
    failures: Counter[tuple[str, str]]

    def add(self, server: str, fault: str, wrong: Sequence[str], what: str) -> None:
        """Count a round, and show what is wrong with it."""
        self.rounds[server, fault] += 1
        for text in wrong:
            self.failures[server, fault] += 1
            print(f"{what}: {text}"[:3000], flush=True)

    def show(self) -> None:
        """Print a line for each server and fault."""
        for server, fault in sorted(self.rounds):
            print(f"{server:7} {fault:28} {self.rounds[server, fault]:5} rounds {self.failures[server, fault]:3} wrong")


def run(options: argparse.Namespace) -> Tally:
    """Play the rounds."""
    tally = Tally(Counter(), Counter())
    servers = options.only or _SERVERS
    bounds = [options.count * nth // len(servers) for nth in range(len(servers) + 1)]
    shares = {server: bounds[nth + 1] - bounds[nth] for nth, server in enumerate(servers)}
    with tempfile.TemporaryDirectory(prefix="campaign-") as name, ExitStack() as stack:
        folder = Path(name)
        warm = WarmStart("campaigns.impatient")
        stack.callback(warm.close)
        if set(servers) - {"smtp"}:
            _run_copies(options, shares, folder, warm, tally)
        if "smtp" in shares:
            rounds = [options.round] if options.round else range(1, shares["smtp"] + 1)
            mailserver.run(options.seed, rounds, options.fault, folder, warm, tally.add)
    return tally


def _run_copies(
    options: argparse.Namespace, shares: dict[str, int], folder: Path, warm: WarmStart, tally: Tally
) -> None:
    with World(folder) as world, ExitStack() as stack:
        copy = _prepare(world, folder)
        liars: list[Liar] = []
        if {"s3", "rclone"} & shares.keys():
            moto = stack.enter_context(open_s3("moto"))
            names = [name for name in ("s3", "rclone") if name in shares]
            liars += [S3Liar(copy, moto, folder, by_rclone=name == "rclone") for name in names]
        logins = [name for name in ("ssh", "sftp") if name in shares]
        liars += [SshLiar(copy, folder / name, has_shell=name == "ssh") for name in logins]
        for liar in liars:
            with liar:
                stage = Stage(world, liar, warm)
                for number in [options.round] if options.round else range(1, shares[liar.name] + 1):
                    _play(stage, options, number, tally)
            wrong = sum(count for (server, _), count in tally.failures.items() if server == liar.name)
            print(f"{liar.name}: {shares[liar.name]} rounds, {wrong} wrong", flush=True)


def _play(stage: Stage, options: argparse.Namespace, number: int, tally: Tally) -> None:
    liar = stage.liar
    source = random.Random(f"{options.seed} {liar.name} {number}")
    faults = [each for each in liar.faults if not options.fault or each in options.fault]
    fault = Fault(faults[number % len(faults)], source.random(), source.random() < 0.5, source.getrandbits(32))
    command = source.choice(stage.commands)
    state = source.choice(["new", f"compared {liar.name}"])
    began = time.monotonic()
    wrong = stage.play(command, state, fault)
    what = f"--seed {options.seed} --only {liar.name} --round {number}: {command.name}, {state}, {fault}"
    if options.verbose:
        print(f"{what}: {time.monotonic() - began:.1f} s", flush=True)
    tally.add(liar.name, fault.what, wrong, what)


def main() -> int:
    """Run the campaign, and say what it came to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--only", action="append", default=[], choices=_SERVERS)
    parser.add_argument("--fault", action="append", default=[])
    parser.add_argument("--round", type=int)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    run_in_memory()
    began = time.monotonic()
    tally = run(options)
    tally.show()
    rounds, failures = tally.rounds.total(), tally.failures.total()
    print(f"seed {options.seed}: {rounds} rounds in {time.monotonic() - began:.0f} s, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
