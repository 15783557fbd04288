"""
Thousands of random histories of files and their copies, judged by an oracle that knows the truth of each.

By hand, as root, in ``tests``: ``python -m truth.histories --seed 1 --count 5000``. The same seed gives the same
worlds; ``--seed S --file N`` plays one file of world S again, beside those to which nothing happens. ``--habit`` and
``--question`` choose worlds.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path

from campaigns.world import run_in_memory
from support.preload import Shims
from truth.advice import Adviser
from truth.lives import PHASES
from truth.oracle import Judge, Result
from truth.worlds import World, describe

DECIDED_PERCENT = 95
_FILES = 60
# What is done in the phases before the last two: the first evening, and a later one without a scrub.
_LOOKS = ((False, False), (False, True), (True, True), (True, True))


def play(seed: int, folder: Path, shims: Shims, *, files: int = _FILES, only: int | None = None) -> Result:
    """Play one world to its end."""
    result = Result()
    with World(seed, folder, shims, files=files, only=only) as world:
        judge = Judge(world, result)
        result.histories = len(world.lives)
        for phase in range(PHASES):
            world.live(phase)
            scrubs, compares = _LOOKS[phase]
            said = world.look(scrubs=scrubs, compares=compares)
            judge.judge(said, scrubbed=scrubs, compared=compares, is_last=phase == PHASES - 1)
        Adviser(world, judge, result).follow(said)
        judge.judge_again(world.look(scrubs=True, compares=True))
    return result


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
        for seed in itertools.count(options.seed):
            if options.habit not in describe(seed):
                continue
            started = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="history-") as folder:
                result = play(seed, Path(folder), shims, files=options.files, only=options.file)
            took_s = time.monotonic() - started
            print(f"seed {seed}: {describe(seed)}: {len(result.errors)} errors, {took_s:.1f} s", flush=True)
            total.add(result)
            if total.histories >= options.count or options.file is not None:
                break
    print(total.describe())
    return int(bool(total.errors) or total.decided_percent < DECIDED_PERCENT)


if __name__ == "__main__":
    sys.exit(main())
