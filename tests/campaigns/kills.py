"""
Every command that writes, killed with SIGKILL right before one of its calls that change something (R7, R9).

A kill loses nothing that was written; so right before each such call is every moment there is, and the way is exact:
``support.killpoints``. After a kill,

- ``catalog check`` says that all is well, and each thing that the catalog states is as it was before the command, or as
  the command leaves it: no finding, decision or time of verification is lost, and nothing is verified falsely;
- the command run again, ``status``, ``findings`` and a scrub end as they do without the kill;
- no file lies about beside the catalog or in the tree that does not lie there without the kill.

By hand: ``python -m campaigns.kills --seed 1 --count 10000`` in ``tests``; ``--only NAME`` for one command,
``--only NAME --at N`` for one kill.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from campaigns.facts import Facts, read_facts, show_difference, tame_run
from campaigns.world import World, run_in_memory
from support import AnyPath
from support.bitrot import rot
from support.cli import Completed
from support.flips import damage_table
from support.killpoints import Killed, run_forked
from support.older import REVISIONS, put_older
from support.programs import sh

Args = tuple[AnyPath, ...]


class Scenario(NamedTuple):
    """
    A command that is killed.

    Attributes:
        name: of the scenario.
        args: of the command.
        prepare: what comes before it.
        changes_tree: the command writes to the watched files.
        is_first: there is no catalog before it.
        is_old: the catalog before it is of another version.
        is_damaged: a page of the catalog before it is damaged.
        scrubs: how many scrubs it takes after it until its own scrub makes no difference.
        moves_root: the root has another path after it.
        is_done: of the service, which does not end by itself: whether the catalog has all that it shall record.
    """

    name: str
    args: Callable[[World], Args]
    prepare: Callable[[World], object] = lambda world: None
    changes_tree: bool = False
    is_first: bool = False
    is_old: bool = False
    is_damaged: bool = False
    scrubs: int = 1
    moves_root: bool = False
    is_done: Callable[[Facts], bool] | None = None


def _remove_catalog(world: World) -> None:
    for path in world.box.home.glob("catalog*"):
        path.unlink()


def _suspend(world: World) -> None:
    away = world.root.with_name("away")
    world.root.rename(away)
    sh("cp", "-a", away, world.root)
    shutil.rmtree(away)
    world.run("scan", world.root, expect=3)


def _repair(world: World) -> None:
    world.run("scrub", world.root, expect=1)
    world.run("repair", world.root, "--from", world.copy, "--apply")


def _back_up(world: World) -> None:
    world.run("catalog", "backup", world.box.home / "backups", expect=0)
    world.run("ack", "2", expect=0)


def _find_backup(world: World) -> Args:
    return ("catalog", "restore", world.box.home / "backups", "--yes")


def _copy_tree(world: World) -> None:
    sh("cp", "-a", world.root, world.root.with_name("moved"))
    rot(world.root.with_name("moved") / "a/keep5.bin", 30)


def _put_older(world: World, revision: str) -> None:
    _remove_catalog(world)
    put_older(world.box.catalog, revision)


def _configure_service(world: World) -> None:
    world.box.configure(f'[[root]]\npath = "{world.root}"\nblock_size = "64KiB"\nsettle = "1s"\n')


def _is_scanned(facts: Facts) -> bool:
    versions = {
        dict(row[0])["name"]: dict(row[0])["version"] for row in facts["file"].values() if isinstance(row, tuple)
    }
    return b"new.bin" in versions and versions.get(b"keep2.bin") == 2 and b"keep3.bin" not in versions


SCENARIOS = (
    Scenario("first scan", lambda w: ("scan", w.root), _remove_catalog, is_first=True),
    Scenario("scan", lambda w: ("scan", w.root)),
    Scenario("scan --full", lambda w: ("scan", "--full", w.root)),
    Scenario("scrub", lambda w: ("scrub", w.root)),
    Scenario("scrub --no-scan", lambda w: ("scrub", "--no-scan", w.root)),
    Scenario("compare", lambda w: ("compare", w.root, "--with", w.copy)),
    Scenario(
        "repair",
        lambda w: ("repair", w.root, "--from", w.copy, "--apply"),
        lambda w: w.run("scrub", w.root, expect=1),
        changes_tree=True,
    ),
    Scenario("repair --remove-kept", lambda w: ("repair", "--remove-kept", "--yes"), _repair, changes_tree=True),
    Scenario(
        "accept",
        lambda w: ("accept", w.root / "a/planted.bin", w.root / "b/newer.bin", "--reason", "mine"),
        lambda w: w.run("scrub", w.root, expect=1),
    ),
    Scenario("ack", lambda w: ("ack", "2", "3")),
    Scenario("mute", lambda w: ("mute", "2", "--until", "2040-01-01")),
    Scenario("forget files", lambda w: ("forget", w.root / "b", "--yes")),
    Scenario("forget copy", lambda w: ("forget", "--copy", w.copy, "--yes")),
    Scenario("forget root", lambda w: ("forget", w.root, "--yes")),
    Scenario("gate", lambda w: ("gate", w.root)),
    Scenario("gate --release", lambda w: ("gate", w.root, "--release", "--reason", "meant")),
    Scenario("root pause", lambda w: ("root", "pause", w.root)),
    Scenario("root release", lambda w: ("root", "release", w.root), _suspend),
    Scenario(
        "root rebind",
        lambda w: ("root", "rebind", w.root, w.root.with_name("moved")),
        _copy_tree,
        scrubs=2,
        moves_root=True,
    ),
    Scenario("import", lambda w: ("catalog", "import", w.imported / "MD5SUMS", "--root", w.imported)),
    Scenario("catalog backup", lambda w: ("catalog", "backup", w.box.home / "backups")),
    Scenario("catalog restore", _find_backup, _back_up),
    Scenario("daemon", lambda w: ("daemon",), _configure_service, is_done=_is_scanned),
    Scenario(
        "catalog salvage",
        lambda w: ("catalog", "salvage", "--yes"),
        lambda w: damage_table(w.box.catalog, "file"),
        is_damaged=True,
    ),
    *(
        Scenario(
            f"{'scan' if revision == '0005' else 'catalog upgrade'} from {revision}",
            lambda w, revision=revision: ("scan", w.root) if revision == "0005" else ("catalog", "upgrade"),  # type: ignore[misc]
            lambda w, revision=revision: _put_older(w, revision),  # type: ignore[misc]
            is_old=True,
        )
        for revision in REVISIONS
    ),
)


class End(NamedTuple):
    """How it all ended: of the command, of what was asked afterwards, in the catalog, in the folders."""

    code: int
    said: tuple[tuple[int, str], ...]
    facts: Facts
    tree: dict[str, object]
    beside: frozenset[str]


@dataclass
class Result:
    """What a campaign comes to: kills by scenario, and what was wrong."""

    kills: Counter[str] = field(default_factory=Counter)
    points: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


class Stage:
    """One scenario, prepared: the state before, and the ends that are right."""

    def __init__(self, world: World, scenario: Scenario) -> None:
        self._world, self._scenario = world, scenario
        self._state = re.sub(r"\W", "-", scenario.name)
        world.restore("base")
        scenario.prepare(world)
        world.save(self._state)
        self._args = ("--json", *scenario.args(world))
        self._before = read_facts(world.box.catalog, world.start)
        self.reset(tree=True)
        self.calls = self._run_it().calls
        self._after = [read_facts(world.box.catalog, world.start)]
        self.reset(tree=True)
        self._ends = [self._finish(asks_all=True)]
        self.reset(tree=True)
        self._run_it()
        self._ends.append(self._finish(asks_all=True))
        self._after.append(self._ends[-1].facts)

    def kill(
        self, at: int, *, checks_first: bool, asks_all: bool, then: Callable[[], object] = lambda: None
    ) -> list[str]:
        """
        Kill the command before one of its calls.

        Args:
            at: number of the call, from 1.
            checks_first: have the catalog looked through before the command is run again.
            asks_all: hold all answers against those without a kill; else only those that rest on the most.
            then: what else happens after the kill.

        Returns:
            What is wrong then.
        """
        self.reset(tree=self._scenario.changes_tree)
        killed = self._run_it(kill_at=at)
        then()
        wrong = [] if self._scenario.changes_tree else self._compare_tree()
        if not self._scenario.is_old and not self._scenario.is_first:
            if checks_first or not self._world.box.catalog.exists():  # what opens it ends a restore
                for done in self._run(("catalog", "check"), ("--json", "findings")).completed:
                    wrong += self._judge_done(done, (0, 1, 4) if self._scenario.is_damaged else (0, 1))
            wrong += self._judge_facts(read_facts(self._world.box.catalog, self._world.start))
        wrong += self._judge_end(self._finish(asks_all=asks_all))
        call = killed.calls[-1] if killed.calls else "none"
        return [f"{self._scenario.name}: killed at {at} ({call}): {text}" for text in wrong]

    def reset(self, *, tree: bool) -> None:
        """Put back the state before; without the tree if that can't have changed."""
        self._world.restore(self._state, tree=tree)
        if tree:
            self._tree = self._world.list_tree()

    def _run(self, *commands: Args) -> Killed:
        return run_forked(commands, self._world.box.environment)

    def fail(self, at: int, errno: int) -> list[str]:
        """
        Let a call of the command, and all after it, fail as on a full or a dying disk.

        Args:
            at: number of the call, from 1.
            errno: with which it fails.

        Returns:
            What is wrong then.
        """
        self.reset(tree=self._scenario.changes_tree)
        world = self._world
        ran = run_forked([self._args], world.box.environment, kill_at=at, errno=errno)
        [done] = ran.completed
        wrong = [] if self._scenario.changes_tree else self._compare_tree()
        if "Traceback" in done.stderr or "a bug" in done.stderr:
            wrong.append(f"exit {done.code}: {done.stderr}")
        if not self._scenario.is_old and not self._scenario.is_first and world.box.catalog.exists():
            facts = read_facts(world.box.catalog, world.start)
            wrong += self._judge_facts(facts)
            tables = ("finding", "former", "gate", "file")
            is_done = any(all(facts[table] == state[table] for table in tables) for state in self._after)
            if done.code in {one.code for one in self._ends} - {4} and not is_done:
                wrong.append(f"exit {done.code}, as if it were done: {done.stderr}")
        if done.code not in {3, 4, *(one.code for one in self._ends)}:
            wrong.append(f"exit {done.code}: {done.stderr}")
        wrong += self._judge_end(self._finish(asks_all=False))
        call = ran.calls[at - 1] if len(ran.calls) >= at else "none"
        name = os.strerror(errno)
        return [f"{self._scenario.name}: {name} from {at} ({call}) on: {text}" for text in wrong]

    def _run_it(self, *then: Args, kill_at: int = 0) -> Killed:
        """Run the command that is killed; what comes then in the same fork, unless it is the service."""
        is_done, world = self._scenario.is_done, self._world
        if is_done is None:
            return run_forked([self._args, *then], world.box.environment, kill_at=kill_at)
        is_over = lambda: is_done(read_facts(world.box.catalog, world.start))  # noqa: E731
        ran = run_forked([self._args[1:]], world.box.environment, kill_at=kill_at, is_done=is_over)
        # It ends its process itself, with exit code 0, or run_forked would complain.
        return ran._replace(completed=[Completed(0, "", ""), *self._run(*then).completed]) if then else ran

    def _finish(self, *, asks_all: bool) -> End:
        """Run the command (again), scrub everything, and ask what there is to ask."""
        asked: list[Args] = [
            *[("--json", "scrub")] * self._scenario.scrubs,
            ("--json", "findings", "--all"),
            ("catalog", "check"),
        ]
        if asks_all:
            asked += [("--json", "status"), ("--json", "explain", self._world.planted[0])]
        done = self._run_it(*asked).completed
        facts = read_facts(self._world.box.catalog, self._world.start)
        assert len(done) == len(asked) + 1, done
        failed = [each for each in done if "Traceback" in each.stderr or "a bug" in each.stderr]
        assert not failed, failed
        beside = {
            _tame_name(os.path.relpath(os.path.join(folder, name), self._world.box.home))
            for folder, _, names in os.walk(self._world.box.home)
            for name in names
        }
        return End(
            done[0].code,
            tuple(map(tame_run, done[self._scenario.scrubs :])),
            facts,
            self._world.list_tree(),
            frozenset(beside),
        )

    def _compare_tree(self) -> list[str]:
        tree = self._world.list_tree()
        return [
            f"{path} was written to"
            for path in tree.keys() | self._tree.keys()
            if tree.get(path) != self._tree.get(path)
        ]

    def _judge_done(self, done: Completed, codes: Sequence[int]) -> list[str]:
        return [] if done.code in codes else [f"exit {done.code}: {done.stdout}{done.stderr}"]

    def _as_moved(self, key: Any) -> Any:
        """Return the key that a fact has when its root has moved."""
        if isinstance(key, tuple):
            return tuple(map(self._as_moved, key))
        root = os.fsencode(self._world.root)
        return os.path.join(os.path.dirname(root), b"moved") if key == root else key

    def _judge_facts(self, facts: Facts) -> list[str]:
        """Right after the kill: each fact is as before, or as after."""
        wrong = []
        for table in ("finding", "former", "gate", "file"):
            for key in facts[table].keys() | self._before[table].keys():
                value, states = facts[table].get(key), [each[table].get(key) for each in (self._before, *self._after)]
                if self._scenario.moves_root:  # what is missing there is written down before the root moves
                    states += [each[table].get(self._as_moved(key)) for each in self._after]
                if value not in states and not (table == "file" and self._is_under_way(value, states)):
                    wrong.append(f"{table} {key} is {value}, not one of {states}"[:1500])
        return wrong

    def _is_under_way(self, value: object, states: Sequence[object]) -> bool:
        """Say whether a file is as it shall be, but for being verified, or for what its inode says of it."""
        if value is None:
            return False
        mine, former = _get_row(value), map(_get_row, self._before["file"].values())
        verified = {row["verified_at"] for row in former if _is_same(mine, row, ("inode", "md5"))} | {None}
        baseline = ("size_bytes", "mtime_ns", "md5", "xxh3_128", "crc64nvme", "version", "reason")
        wanted = [_get_row(state) for state in states if state is not None]
        return any(
            _is_same(mine, row, baseline) and mine["verified_at"] in {row["verified_at"], *verified} for row in wanted
        )

    def _judge_end(self, end: End) -> list[str]:
        """At the end, each thing is as without a kill."""
        wrong = []
        if end.code not in {one.code for one in self._ends}:
            wrong.append(f"run again it exits {end.code}")
        for nth, said in enumerate(end.said):
            if said not in {one.said[nth] for one in self._ends}:
                wrong.append(f"answer {nth}: {_show_lines(self._ends[0].said[nth], said)}")
        if different := show_difference([one.facts for one in self._ends], end.facts):
            wrong.append(different)
        if all(end.tree != one.tree for one in self._ends):
            wrong.append(f"tree: {sorted(end.tree.items() ^ self._ends[0].tree.items())}"[:1500])
        if stray := end.beside - self._ends[0].beside - self._ends[1].beside:
            wrong.append(f"stray files: {sorted(stray)}")
        return wrong


def _tame_name(name: str) -> str:
    """Return a name without its times; what a restore put aside may come with its log, and more than once."""
    name = re.sub(r"\d{8}T\d{6}Z|(?<=new-)[0-9a-f]{8}", "N", name)
    return re.sub(r"(?<=replaced-N)(-again|-wal)+", "", name)


def _get_row(values: object) -> dict[str, object]:
    assert isinstance(values, tuple)
    return dict(values[0])


def _is_same(mine: dict[str, object], its: dict[str, object], names: Sequence[str]) -> bool:
    return all(mine[name] == its[name] for name in names)


def _show_lines(expected: tuple[int, str], actual: tuple[int, str]) -> str:
    one, other = set(expected[1].splitlines()), set(actual[1].splitlines())
    return f"exit {actual[0]}, not {expected[0]}; missing {sorted(one - other)[:2]}; instead {sorted(other - one)[:2]}"[
        :3000
    ]


def run(seed: int, count: int, only: Sequence[str] = (), at: int | None = None) -> Result:
    """Kill ``count`` times, spread evenly over the scenarios; one after the other."""
    result, source = Result(), random.Random(seed)
    scenarios = [each for each in SCENARIOS if not only or each.name in only]
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder, World(Path(folder)) as world:
        world.make()
        world.save("base")
        for nth, scenario in enumerate(scenarios):
            stage = Stage(world, scenario)
            total = len(stage.calls)
            share = count * (nth + 1) // len(scenarios) - count * nth // len(scenarios)
            result.points[scenario.name] = total
            for moment in [at] if at else _choose(source, total, share):
                result.kills[scenario.name] += 1
                for text in stage.kill(moment, checks_first=source.random() < 0.5, asks_all=source.random() < 0.25):
                    result.failures.append(text)
                    print(text, flush=True)
            kills = result.kills[scenario.name]
            print(f"{scenario.name}: {total} calls, {kills} kills, {len(result.failures)} wrong so far", flush=True)
    return result


def _choose(source: random.Random, total: int, share: int) -> list[int]:
    """Choose calls: each of them once, as often as that goes, and the rest at random."""
    return [*range(1, total + 1)] * (share // total) + sorted(source.sample(range(1, total + 1), share % total))


def main() -> int:
    """Run the campaign, and say what it came to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--only", action="append", default=[], choices=[each.name for each in SCENARIOS])
    parser.add_argument("--at", type=int)
    options = parser.parse_args()
    run_in_memory()
    began = time.monotonic()
    result = run(options.seed, options.count, options.only, options.at)
    kills = sum(result.kills.values())
    print(f"seed {options.seed}: {kills} kills in {time.monotonic() - began:.0f} s, {len(result.failures)} failures")
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
