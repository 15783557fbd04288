"""
Every command that writes, while all that it writes fails from one of its calls on: full disk, quota, EIO, read-only.

The n-th call that changes something, and all later ones, fail with an errno (``support.killpoints``), so that each
place where a disk can become full or die is met. Then no command fails in a way that it does not explain, or exits as
if all were done that isn't; and when the disk is well again everything is as ``campaigns.kills`` wants it after a kill.

By hand: ``python -m campaigns.badwrites --seed 1 --count 1000`` in ``tests``; ``--only NAME`` for one command,
``--only NAME --at N`` for one place.
"""

from __future__ import annotations

import argparse
import errno
import random
import sys
import tempfile
import time
from pathlib import Path

from campaigns.kills import SCENARIOS, Stage
from campaigns.world import World, run_in_memory

ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS)
_COMMANDS = [each for each in SCENARIOS if each.is_done is None]


def run(seed: int, count: int, only: list[str], at: int | None) -> tuple[int, int]:
    """Let writing fail ``count`` times, spread evenly over commands and errors; count runs and failures."""
    chance, runs, failures = random.Random(seed), 0, 0
    scenarios = [each for each in _COMMANDS if not only or each.name in only]
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder, World(Path(folder)) as world:
        world.make()
        world.save("base")
        for nth, scenario in enumerate(scenarios):
            stage = Stage(world, scenario)
            share = count * (nth + 1) // len(scenarios) - count * nth // len(scenarios)
            for number in range(share):
                place = at or chance.randrange(1, len(stage.calls) + 1)
                runs += 1
                for text in stage.fail(place, ERRORS[number % len(ERRORS)]):
                    failures += 1
                    print(text[:1500], flush=True)
            print(f"{scenario.name}: {runs} runs, {failures} wrong so far", flush=True)
    return runs, failures


def main() -> int:
    """Run the campaign, and say what it came to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--only", action="append", default=[], choices=[each.name for each in _COMMANDS])
    parser.add_argument("--at", type=int)
    options = parser.parse_args()
    run_in_memory()
    began = time.monotonic()
    runs, failures = run(options.seed, options.count, options.only, options.at)
    print(f"seed {options.seed}: {runs} runs in {time.monotonic() - began:.0f} s, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
