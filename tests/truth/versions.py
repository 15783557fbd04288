"""
Two versions of the program live the same histories, and must say the same: the net below a change of how it is built.

By hand, as root, in ``tests``: ``python -m truth.versions --seed 1 --count 300``. The reference is the commit that
``truth/reference.txt`` names; it is installed from the repository once. Each world is lived under the reference and
under this tree; worlds with an odd seed also begin under the reference and are upgraded after a phase. Exit codes,
summaries, findings, notes, and at the end what is known of each file, are compared field by field, without what
differs from run to run. What is meant to differ stands in ``truth/intended.txt``: a regular expression of a line that
is printed below, and behind `` # `` the reason.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from campaigns.world import run_in_memory
from support.cli import Completed, JsonObject
from support.preload import Shims
from truth.advice import Reader
from truth.habits import describe
from truth.histories import LOOKS
from truth.oracle import Judge, Result
from truth.worlds import PHASES, World

_FOLDER = Path(__file__).parent
_FILES, _SHOWN = 60, 12
_VOLATILE = re.compile(r"(^|_)(id|at|duration_s|inode|device|boot_id)$|_ns$")
_TIMES = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?( ?UTC|Z|\.\d+Z?)?|\d+ (ms|s|min|h) ago")
_PLACES = re.compile(r"'?/[^\s']*?/(loopfs-\w+-\w+|history-\w+)(/mnt)?")
_SOURCES = re.compile(r"--from copy\d\b")  # of copies that were found good in the same second, any is named
_DISKS = re.compile(r"\bdisk [0-9a-f]{8}\b|uuid:[0-9a-f-]{36}|\.integrity-[0-9a-f]{16}")


class ToldWorld(World):
    """A world that keeps all that the program says, in a form that is the same in each run."""

    told: list[tuple[str, list[str]]]

    def _run(self, *args: str | Path) -> Completed:
        done = super()._run(*args)
        command = _normalize(" ".join(map(str, args)))
        self.told.append((f"phase {self.phase}: {command}: exit {done.code}", sorted(map(_spell, done.objects))))
        return done

    def explain_all(self) -> None:
        """Ask what is known of each file."""
        for life in self.lives.values():
            if self.root.see(life.name) is not None:
                self._run("explain", self.root.folder / life.name)


def _normalize(text: str) -> str:
    for pattern, word in ((_PLACES, "PLACE"), (_TIMES, "TIME"), (_SOURCES, "--from COPY"), (_DISKS, "DISK")):
        text = pattern.sub(word, text)
    return text


def _spell(value: JsonObject) -> str:
    return _normalize(json.dumps(_drop_volatile(value), sort_keys=True))


def _drop_volatile(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _drop_volatile(each) for name, each in value.items() if not _VOLATILE.search(name)}
    return [_drop_volatile(each) for each in value] if isinstance(value, list) else value


def live(seed: int, shims: Shims, pythons: Sequence[Path | None]) -> list[tuple[str, list[str]]]:
    """Let a world live, with the installation that is named for each phase; return what was said."""
    with (
        tempfile.TemporaryDirectory(prefix="history-") as folder,
        ToldWorld(seed, Path(folder), shims, files=_FILES) as world,
    ):
        world.told = []
        reader = Reader(world, Judge(world, Result()), Result())
        for phase, (scrubs, compares) in enumerate(LOOKS):
            world.box.python = pythons[phase]
            world.live(phase)
            said = world.look(scrubs=scrubs, compares=compares)
            if phase < PHASES - 1:
                reader.decide(said)
        reader.follow(said)
        world.look(scrubs=True, compares=True)
        world.explain_all()
        return world.told


def compare(
    ours: Sequence[tuple[str, list[str]]], theirs: Sequence[tuple[str, list[str]]]
) -> Iterator[tuple[str, str]]:
    """Return the lines that only one of them has, up to the first command that differs: then the lives do."""
    for (our_command, our_lines), (their_command, their_lines) in zip(ours, theirs, strict=False):
        if our_command != their_command:
            yield "command", f"{their_command} -> {our_command}"
        counts = Counter(our_lines)
        counts.subtract(their_lines)
        for line, count in counts.items():
            if count:
                yield ("only this tree" if count > 0 else "only the reference"), f"{our_command}: {line}"
        if our_command != their_command or any(counts.values()):
            return


def install_reference(folder: Path) -> Path:
    """Install the commit that ``reference.txt`` names; return its Python."""
    commit = (_FOLDER / "reference.txt").read_text(encoding="utf-8").strip()
    python = folder / commit / "bin/python"
    if not python.exists():
        source = folder / f"{commit}.source"
        source.mkdir(parents=True)
        archive = subprocess.run(["git", "archive", commit], cwd=_FOLDER.parents[1], capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", source], input=archive.stdout, check=True)
        venv.create(folder / commit, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", source], check=True)
    return python


def read_intended() -> list[re.Pattern[str]]:
    """Return the expressions of ``intended.txt``; each line has its reason."""
    lines = (_FOLDER / "intended.txt").read_text(encoding="utf-8").splitlines()
    return [re.compile(line.rpartition(" # ")[0]) for line in lines if line]


def main() -> int:
    """Compare the versions over the worlds that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300, help="histories to live")
    parser.add_argument("--python", type=Path, help="of the reference, if it is installed")
    parser.add_argument("--installed", type=Path, default=Path("/var/tmp/integrity-reference"), help="folder for it")
    options = parser.parse_args()
    run_in_memory()
    reference, intended = options.python or install_reference(options.installed), read_intended()
    unexplained = explained = 0
    with tempfile.TemporaryDirectory() as tools:
        shims = Shims(Path(tools))
        for number, seed in zip(range(0, options.count, _FILES), itertools.count(options.seed)):
            started = time.monotonic()
            ours = live(seed, shims, [None] * PHASES)
            upgraded_after = number // _FILES % (PHASES - 1) + 1
            ways = {"reference": [reference] * PHASES}
            if seed % 2:
                ways["upgraded"] = [reference] * upgraded_after + [None] * (PHASES - upgraded_after)
            for way, pythons in ways.items():
                found = list(compare(ours, live(seed, shims, pythons)))
                new = [(side, line) for side, line in found if not any(one.search(line) for one in intended)]
                explained, unexplained = explained + len(found) - len(new), unexplained + len(new)
                for side, line in new[:_SHOWN]:
                    print(f"  {way}: {side}: {line}")
            print(
                f"seed {seed}: {describe(seed)}: {unexplained} so far, {time.monotonic() - started:.1f} s", flush=True
            )
    print(f"{options.count} histories: {unexplained} unexplained differences, {explained} intended")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
