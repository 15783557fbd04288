"""
Random damages of protected files: within what their sets can bear all are healed, beyond it nothing is touched.

Each round damages some files (flipped bits, sectors of other data, zeros, lost ends, lost files), in some rounds more
than one set can bear. What a set can bear is counted by its own slices, before the program is asked. After a repair
every file has content, owner, mode and modification time as it was; what is refused is told with what is missing, and
is as it was damaged. At the end of a round beyond, the files are put back.

By hand: ``python -m campaigns.parity --seed 1 --count 1000`` in ``tests``.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from integrity.cli.exitcodes import ExitCode
from integrity.copies.parity.packets import SetContents, read_set
from support import AnyPath
from support.cli import Box, Completed
from support.parity import find_set_files, make_random, protect, rot

PERCENT = "10%"
_SECTOR = 4096
_BEYOND_EVERY = 5
KIB, MIB = 1 << 10, 1 << 20


class State(NamedTuple):
    """What must be as it was."""

    content: bytes
    mode: int
    owner: tuple[int, int]
    mtime_ns: int


def take_state(path: Path) -> State | None:
    """Return what a file is; None if it is gone."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return State(path.read_bytes(), stat.st_mode, (stat.st_uid, stat.st_gid), stat.st_mtime_ns)


@dataclass
class World:
    """A protected folder in which nothing may be lost."""

    box: Box
    root: Path
    parity: Path
    sets: list[SetContents] = field(default_factory=list)
    states: dict[str, State] = field(default_factory=dict)

    def make(self, rng: random.Random) -> None:
        """Make files of all sizes, with owners and modes, and protect them."""
        sizes = [rng.randrange(200, 4 * KIB) for _ in range(60)]
        sizes += [rng.randrange(20 * KIB, 90 * KIB) for _ in range(80)]
        sizes += [rng.randrange(300 * KIB, 2 * MIB) for _ in range(12)]
        sizes += [rng.randrange(3 * MIB, 7 * MIB) for _ in range(3)]
        contents = {
            f"d{number % 7}/{number}.bin": make_random(rng.randrange(1 << 30), size)
            for number, size in enumerate(sizes)
        }
        self.box.configure(f'[[root]]\npath = "{self.root}"\npolicy = "archive"\n')
        for name in contents:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).touch()
            (self.root / name).chmod(rng.choice((0o644, 0o600, 0o640, 0o755, 0o444)))
            if os.geteuid() == 0:
                os.chown(self.root / name, rng.choice((0, 1000, 1234)), rng.choice((0, 100)))
        protect(self.box, self.root, self.parity, contents, "--parity", PERCENT)
        for path in find_set_files(self.parity):
            with open(path, "rb") as file:
                self.sets.append(read_set(file))
        self.states = {name: state for name in contents if (state := take_state(self.root / name)) is not None}

    def run(self, *args: AnyPath) -> Completed:
        """Run the program; a scrub that somebody stopped has found nothing, and proves nothing."""
        done = self.box.run(*args)
        assert done.code != ExitCode.INTERRUPTED, f"somebody stopped {args}"
        return done

    def put_back(self, name: str) -> None:
        """Make a file what it was."""
        state, path = self.states[name], self.root / name
        path.unlink(missing_ok=True)
        path.write_bytes(state.content)
        path.chmod(state.mode & 0o7777)
        if os.geteuid() == 0:
            os.chown(path, *state.owner)
        os.utime(path, ns=(state.mtime_ns, state.mtime_ns))


class Damage(NamedTuple):
    """A damage of one file: what it is, how many slices of its set it takes, and what does it."""

    what: str
    slices: set[int]
    do: Callable[[Path], None]


def draw_damage(rng: random.Random, size: int, slice_bytes: int) -> Damage:
    """Return a random damage of a file."""
    kind = rng.choice(("bit", "sectors", "zeros", "cut", "lost"))
    count = -(-size // slice_bytes)
    if kind == "lost" and size <= 90 * KIB:
        return Damage(kind, set(range(count)), Path.unlink)
    if kind == "cut":
        left = size - rng.randrange(1, min(size, 20 * KIB) + 1)
        return Damage(kind, set(range(left // slice_bytes, count)), lambda path: rot(path, size=left))
    offset = rng.randrange(size)
    if kind in ("sectors", "zeros"):
        offset = offset // _SECTOR * _SECTOR
        length = min(size - offset, _SECTOR * rng.randrange(1, 4))
        data = bytes(length) if kind == "zeros" else rng.randbytes(length)
        hit = set(range(offset // slice_bytes, (offset + length - 1) // slice_bytes + 1))
        return Damage(kind, hit, lambda path: rot(path, (offset, data)))
    bit = 1 << rng.randrange(8)

    def flip(path: Path) -> None:
        rot(path, (offset, bytes([path.read_bytes()[offset] ^ bit])))

    return Damage("bit", {offset // slice_bytes}, flip)


def draw_round(rng: random.Random, one: SetContents, *, is_beyond: bool) -> dict[str, Damage]:
    """Return damages of different files of one set: together what it can bear, or more than that."""
    found: dict[str, Damage] = {}
    left = one.recovery_slices
    for file in rng.sample(one.files, len(one.files)):
        damage = draw_damage(rng, file.size_bytes, one.slice_bytes)
        if not is_beyond and len(damage.slices) > left:
            continue
        found[os.fsdecode(file.name)] = damage
        left -= len(damage.slices)
        if left < 0 or (not is_beyond and len(found) == 6):
            break
    return found if left < 0 or not is_beyond else {}


@dataclass
class Result:
    """What a campaign comes to."""

    healed: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Return the number of damages that had to be healed."""
        return sum(self.healed.values())

    def fail(self, text: str) -> None:
        """Record what must not be."""
        print(text[:1500], flush=True)
        self.failures.append(text)


def run_round(world: World, damages: dict[str, Damage], result: Result, *, is_beyond: bool) -> None:
    """Damage files, have them found and repaired, and hold everything against what it was."""
    for name, damage in damages.items():
        damage.do(world.root / name)
    damaged = {name: take_state(world.root / name) for name in damages}
    looked = [world.run(command, world.root) for command in ("scan", "scrub")]
    done = world.run("repair", world.root, "--apply", "--discard")
    said = f"{[(name, damage.what) for name, damage in damages.items()]}"
    said += "".join(f": {each.code} {each.stdout}{each.stderr}" for each in (*looked, done))
    if not is_beyond:
        wrong = [name for name, state in world.states.items() if take_state(world.root / name) != state]
        if done.code or wrong:
            result.fail(f"not healed: {wrong}: {said}")
        result.healed.update(damage.what for damage in damages.values())
        return
    touched = [name for name, state in damaged.items() if take_state(world.root / name) != state]
    if done.code != 1 or touched or "too much is damaged" not in done.stdout:
        result.fail(f"not refused: {touched}: {said}")
    result.refused += len(damages)
    for name in damages:
        world.put_back(name)
    world.run("scan", world.root)
    world.run("scrub", world.root)


def run_campaign(seed: int, count: int) -> Result:
    """Run rounds until so many damages had to be healed."""
    rng, result, number = random.Random(seed), Result(), 0
    with tempfile.TemporaryDirectory(prefix="integrity-parity-") as made:
        folder = Path(made)
        world = World(Box(folder / "home"), folder / "root", folder / "parity")
        world.make(rng)
        print(f"{len(world.states)} files in {len(world.sets)} sets", flush=True)
        while result.count < count and len(result.failures) < 5:
            number += 1
            is_beyond = number % _BEYOND_EVERY == 0
            damages = draw_round(rng, rng.choice(world.sets), is_beyond=is_beyond)
            if damages:
                run_round(world, damages, result, is_beyond=is_beyond)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign, and print what it came to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args(arguments)
    result = run_campaign(options.seed, options.count)
    print(f"healed {dict(result.healed)}, refused {result.refused}, wrong {len(result.failures)}")
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
