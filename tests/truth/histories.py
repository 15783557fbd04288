"""
Thousands of random histories of files and their copies, judged by an oracle that knows the truth of each.

By hand, as root, in ``tests``: ``python -m truth.histories --seed 1 --count 5000``. A seed makes the same world each
time; ``--seed S --file N`` plays one file of world S again, beside those to which nothing happens, and shows it.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from campaigns.world import run_in_memory
from support.cli import JsonObject
from support.preload import Shims
from truth.advice import Reader
from truth.habits import describe
from truth.oracle import Judge, Result
from truth.worlds import PHASES, World

_FILES = 60
# By phase: whether the root is scrubbed or only scanned, and whether all copies are compared or some.
LOOKS = ((False, False), (False, True), (True, True), (True, True))


def play(seed: int, folder: Path, shims: Shims, *, files: int = _FILES, only: int | None = None) -> Result:
    """Play one world to its end."""
    with World(seed, folder, shims, files=files, only=only) as world:
        return play_world(world, only)


def play_world(world: World, only: int | None = None) -> Result:
    """Let a world live to its end, with somebody who does what is advised; judge what is said of it."""
    result = Result(histories=len(world.lives) if only is None else 1)
    judge = Judge(world, result)
    reader = Reader(world, judge, result)
    for phase, (scrubs, compares) in enumerate(LOOKS):
        world.live(phase)
        said = world.look(scrubs=scrubs, compares=compares)
        _show(world, only, said)
        judge.judge(said, scrubbed=scrubs, compared=compares, is_last=phase == PHASES - 1)
        if phase < PHASES - 1:
            reader.decide(said)
    reader.follow(said)
    said = world.look(scrubs=True, compares=True)
    _show(world, only, said)
    judge.judge_again(said)
    return result


def _show(world: World, number: int | None, said: Sequence[JsonObject]) -> None:
    """Print what stands where of one file, and what is said about it."""
    for life in world.lives.values():
        if life.number != number:
            continue
        print(f"phase {world.phase}: {life.name}: {'; '.join(life.log)}")
        for title, place in {"root": world.root, **world.copies}.items():
            if (seen := place.see(life.name)) is not None:
                version = life.honest.get(seen.content)
                what = (
                    f"version {version.number}"
                    if version
                    else "damaged"
                    if life.is_damaged(seen.content)
                    else "incomplete"
                )
                witness = ", with a witness" if world.has_witness(place, life) else ""
                print(f"  {title}: {what}, {len(seen.content)} bytes, of {seen.mtime_ns / 1e9:.9f}{witness}")
        for each in said:
            if world.find_life(str(each["path"])) is life:
                print(f"  {each['type']} {each['kind']} {each.get('copy')}: {each['message']}")
                print(f"    {each.get('next_steps', '')}")


def main() -> int:
    """Play the worlds that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300, help="histories to play")
    parser.add_argument("--files", type=int, default=_FILES, help="files of a world")
    parser.add_argument("--file", type=int, help="play this file of the world SEED only")
    parser.add_argument("--habit", default="", help="play worlds with this word in their title only")
    options = parser.parse_args()
    run_in_memory()
    total = Result()
    with tempfile.TemporaryDirectory() as tools:
        shims = Shims(Path(tools))
        for seed in (each for each in itertools.count(options.seed) if options.habit in describe(each)):
            started = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="history-") as folder:
                result = play(seed, Path(folder), shims, files=options.files, only=options.file)
            took_s = time.monotonic() - started
            print(f"seed {seed}: {describe(seed)}: {len(result.errors)} errors, {took_s:.1f} s", flush=True)
            total.add(result)
            if total.histories >= options.count or options.file is not None:
                break
    print(total.describe())
    return 0 if total.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
