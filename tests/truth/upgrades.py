"""
Histories that begin under an older version of the program and go on under this tree: what was recorded is not lost.

By hand, as root, in ``tests``: ``python -m truth.upgrades --count 2000``. What the versions say differs on purpose, so
the truth decides (``truth.oracle``): when this tree has looked, nothing good is accused, and no damage passes of which
there is a witness. What is open before the upgrade is open after it, and what was rightly called damaged stays so.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import NamedTuple

from campaigns.world import run_in_memory
from support import AnyPath
from support.cli import Completed, JsonObject
from support.preload import Shims
from support.resident import Resident, install_commit
from truth.advice import Reader
from truth.habits import describe
from truth.histories import LOOKS
from truth.lives import Life
from truth.oracle import UNDECIDED, Judge, Result, accuses
from truth.places import Place
from truth.versions import INSTALLED, StoryBox, StoryWorld
from truth.worlds import PHASES

OLDER = {
    "schema 0001": "655e5e43ad7b67e7a21366197e686930bdde11a3",
    "schema 0002": "03e49cf71bf0dc9ffa00a38172f02d15a241ddce",
    "schema 0003": "0c1c6ba92b8ea2b15273df76f0b3212f625fca1d",
    "schema 0004": "0c04aa7e5b1b0e5d053723a3d94c1a6b41f85552",
    "schema 0005": "4e0c6ec2307f1db6afc6d4c7a1179b993139a581",
    "schema 0006": "3d6e1ac3b4ec003a0e4dc802cc0ed067cad84657",
    "schema 0007": "9ad628314becc1e1f64c5795ddf7f818d9a69df2",
    "schema 0008": "e3af21cb0332d3a33fba9773d203f1ed54eddcb4",
    "schema 0009": "389b43b7c3bd74ed51490a37b65e9624469d2914",
    "1.0.0": "03cc93032d54bf26f2e4fd9a126c3ae8d8a33438",
    "schema 0011": "8214003fbc428d1865aad43c0d8fd40b2ea1f7ac",
}
"""The release, whose schema is 0010, and of each other schema of catalogs before this one the last commit."""
_WITHOUT_COMPARE = frozenset({"schema 0001", "schema 0002"})
_BEHIND = re.compile(r"^behind = .*\n", re.MULTILINE)  # a setting that copies had not
_FILES, _LAST_STEP = 25, 16


class Recorded(NamedTuple):
    """A damaged side that was accused before the upgrade, and its content then."""

    life: Life
    place: Place
    copy: object
    content: bytes
    finding: JsonObject

    def is_said(self, findings: Sequence[JsonObject]) -> bool:
        """Say whether the side is still accused, or at least known to differ."""
        about = (each for each in findings if each["path"] == self.finding["path"])
        return any(
            (each["copy"] == self.copy and (accuses(each) or each["kind"] in UNDECIDED))
            or (not each["copy"] and accuses(each))  # a copy of damaged bytes is named with the file
            for each in about
        )


class OlderBox(StoryBox):
    """
    A box of an older version, which lists what is open right before and right after it is upgraded.

    Attributes:
        is_upgraded: this tree has taken over.
        note: told what was open before, and what is open after.
    """

    is_upgraded = False
    _config = ""
    note: Callable[[Sequence[JsonObject], Sequence[JsonObject]], None]

    def configure(self, toml: str) -> Path:
        self._config = toml
        return super().configure(toml if self.is_upgraded else _BEHIND.sub("", toml))

    def upgrade(self) -> None:
        before = self.findings("findings")
        super().upgrade()
        self.is_upgraded = True
        self.configure(self._config)
        self.note(before, self.findings("findings"))

    def run(
        self,
        *args: AnyPath,
        expect: int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: AnyPath | None = None,
        timeout: float = 60.0,
    ) -> Completed:
        done = super().run(*args, expect=expect, env=env, cwd=cwd, timeout=timeout)
        for finding in done.findings:  # of a version that did not know these
            for name, value in (("copy", None), ("names", []), ("next_steps", [])):
                finding.setdefault(name, value)
        return done


class Upgrade:
    """
    One world that is upgraded.

    Args:
        seed: of the world.
        older: the version that it begins with.
        this: the version that follows.
        shims: for clocks.
        files: how many live in it.
    """

    def __init__(self, seed: int, older: Resident, this: Resident, shims: Shims, *, files: int = _FILES) -> None:
        self._seed, self._older, self._this, self._shims, self._files = seed, older, this, shims, files
        self.result, self._recorded = Result(), list[Recorded]()

    def play(self, folder: Path) -> Result:
        """Play it to its end."""
        at = Random(f"upgrade {self._seed}").randrange(1, _LAST_STEP)
        box = OlderBox(folder / "home", [self._older, self._this], at)
        box.note = self._note
        with StoryWorld(self._seed, folder, self._shims, box, files=self._files) as self._world:
            self._judge = Judge(self._world, self.result)
            self.result.histories = len(self._world.lives)
            reader = Reader(self._world, self._judge, Result())
            for phase, (scrubs, compares) in enumerate(LOOKS):
                if phase == PHASES - 1 and not box.is_upgraded:
                    box.upgrade()
                self._world.live(phase)
                was_upgraded = box.is_upgraded
                self._world.can_compare = was_upgraded or self._older.title not in _WITHOUT_COMPARE
                said = self._world.look(scrubs=scrubs, compares=compares)
                self._judge.judge(said, scrubbed=scrubs, compared=compares, is_last=phase == PHASES - 1)
                if not was_upgraded:
                    self.result.errors.clear()  # of the older version
                elif scrubs and compares:
                    self._find_lost(said)
                if phase < PHASES - 1:
                    reader.decide(said)
        return self.result

    def _note(self, before: Sequence[JsonObject], after: Sequence[JsonObject]) -> None:
        """Note what is recorded; what is open must not change by the upgrade alone."""
        kinds = [Counter((each["kind"], each["path"], each["copy"]) for each in some) for some in (before, after)]
        for kind, path, copy in (kinds[0] - kinds[1]) | (kinds[1] - kinds[0]):
            some = self._world.find_life(str(path)) or next(iter(self._world.lives.values()))
            self._judge.add_error("upgrade", some, f"{kind} of {copy or 'the file'} is open either before or after")
        for finding in before:
            life, copy = self._world.find_life(str(finding["path"])), finding["copy"]
            place = self._world.copies.get(str(copy)) if copy else self._world.root
            seen = place.see(life.name) if life and place else None
            if not life or not place or not seen or not accuses(finding) or not life.is_damaged(seen.content):
                continue
            # Without a witness older versions accused the copy whatever it was: that is right by chance only.
            has_read = any(each.content == seen.content for each in place.readings.get(life.name, ()))
            if has_read and self._world.has_witness(place, life):
                self._recorded.append(Recorded(life, place, copy, seen.content, finding))

    def _find_lost(self, said: Sequence[JsonObject]) -> None:
        findings = [each for each in said if each["type"] == "finding"]
        for one in self._recorded:
            now = one.place.see(one.life.name)
            is_there = now is not None and now.content == one.content and self._world.root.see(one.life.name)
            if is_there and not one.is_said(findings):
                self._judge.add_error("upgrade", one.life, f"damage that was recorded is lost: {one.finding}")


def main() -> int:
    """Play the worlds that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300, help="histories to play")
    parser.add_argument("--files", type=int, default=_FILES, help="files of a world")
    parser.add_argument("--older", choices=OLDER, help="only this version")
    parser.add_argument("--installed", type=Path, default=INSTALLED, help="folder for older versions")
    options = parser.parse_args()
    names = [options.older] if options.older else list(OLDER)
    installed = {name: install_commit(OLDER[name], options.installed, is_native=False) for name in names}
    run_in_memory()
    total = Result()
    with ExitStack() as stack:
        shims = Shims(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        this = stack.enter_context(Resident("this tree", shims))
        olders = [stack.enter_context(Resident(name, shims, folder)) for name, folder in installed.items()]
        for seed, older in zip(itertools.count(options.seed), itertools.cycle(olders)):
            if total.histories >= options.count:
                break
            started = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="history-") as folder:
                result = Upgrade(seed, older, this, shims, files=options.files).play(Path(folder))
            took_s = time.monotonic() - started
            print(
                f"seed {seed}: {older.title}: {describe(seed)}: {len(result.errors)} errors, {took_s:.1f} s", flush=True
            )
            total.add(result)
    print(total.describe())
    return 1 if total.errors else 0


if __name__ == "__main__":
    sys.exit(main())
