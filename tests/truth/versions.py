"""
Two versions of the program live the same histories, and must say the same: the net below a change of how it is built.

By hand, as root, in ``tests``: ``python -m truth.versions --count 10000``. The reference is the commit that
``truth/reference.txt`` names. Each world is lived twice, with the same files, damage and times, under the reference and
under this tree; every second one begins under the reference and goes on under this tree after any of its commands. Exit
codes, output and each field of each object are compared, and at the end what is known of each file. Times are the same
if the same command, as far as seconds tell, brought them about. What is meant to differ stands in
``truth/intended.txt``: how often it may, a regular expression of a line that is printed here, `` # ``, and the reason.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from campaigns.world import run_in_memory
from support import AnyPath
from support.cli import Completed, JsonObject
from support.preload import Shims
from support.resident import Resident, ResidentBox, install_commit
from truth.habits import CIRCUMSTANCES, DAY_NS, SECOND_NS, describe
from truth.histories import play_world
from truth.oracle import Result
from truth.places import Place
from truth.renames import TOP, RenamedFiles
from truth.worlds import PHASES, World, choose_start_ns

INSTALLED = Path("/var/tmp/integrity-versions")
_FOLDER = Path(__file__).parent
_FILES, _SHOWN, _MOST_INTENDED, _ATTEMPTS = 25, 12, 60, 4
_LEFT_OUT = frozenset({"id", "inode", "device", "boot_id", "duration_s"})
_WORDS = (
    # Of copies that were found good in the same second, any is named.
    (re.compile(r"\b(from|intact in) '?copy\d( \(disk [0-9a-f]{8}\))?'?(?![\w-])"), r"\1 COPY"),
    (re.compile(r"\bdisk [0-9a-f]{8}\b|uuid:[0-9a-f-]{36}|\.integrity-[0-9a-f]{16}"), "DISK"),
    (re.compile(r"\d+(\.\d+)? (ms|s|min|h) ago"), "SOME TIME ago"),
    (re.compile(r"\bfinding \d+"), "finding N"),  # what threads open at the same time has its numbers in any order
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?( UTC|Z)?")
_COARSE_NS = SECOND_NS // 100  # by which the kernel's times of files may lag


@dataclass(frozen=True)
class Said:
    """
    What one command said.

    Attributes:
        title: the command and its phase, in words that are the same in each life.
        code: its exit code.
        objects: of ``--json``; else all that it printed.
        began_ns: by the clock of the machine.
        clock_s: from when to when, by the clock of the program, in whole seconds.
    """

    title: str
    code: int
    objects: Sequence[JsonObject]
    began_ns: int
    clock_s: tuple[int, int]


@dataclass
class Story:
    """All that was said in a life of a world, which began at ``began_ns``, and whether it was right."""

    began_ns: int = field(default_factory=time.time_ns)
    said: list[Said] = field(default_factory=list)
    result: Result = field(default_factory=Result)

    def find_commands(self, second: int, length_s: int) -> frozenset[int]:
        """Return the commands that may have noted a time as the present one; it is so long."""
        spans = enumerate(said.clock_s for said in self.said)
        return frozenset(number for number, (first, last) in spans if first < second + length_s and second <= last)

    def find_step(self, time_ns: int) -> int | None:
        """Return how many commands had begun when something was written, if it was in this life."""
        if time_ns < self.began_ns - _COARSE_NS:
            return None
        return sum(said.began_ns <= time_ns for said in self.said)


class Difference(NamedTuple):
    """Where two lives differ."""

    seed: int
    way: str
    command: str
    what: str
    field: str
    reference: object
    this: object

    def __str__(self) -> str:
        return (
            f"--seed {self.seed} ({self.way}): {self.command}: {self.what}: {self.field}:"
            f" reference {_show(self.reference)}, this tree {_show(self.this)}"
        )


def _show(value: object) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)


class StoryBox(ResidentBox):
    """
    A box that keeps what its commands say.

    Args:
        home: see ``Box``.
        versions: the one it begins with, and the one it is upgraded to.
        upgrade_at: after so many commands.

    Attributes:
        phase: of the world.
        places: words for folders, by their paths.
        story: what was said.
    """

    def __init__(self, home: Path, versions: Sequence[Resident], upgrade_at: int | None = None) -> None:
        super().__init__(home, versions[0])
        self._newer, self._upgrade_at = versions[-1], upgrade_at
        self.phase, self.places, self.story = 0, dict[str, str](), Story()

    def run(
        self,
        *args: AnyPath,
        expect: int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: AnyPath | None = None,
        timeout: float = 60.0,
    ) -> Completed:
        if len(self.story.said) == self._upgrade_at:
            self._upgrade_at = None
            self.upgrade()
        began_ns = time.time_ns()
        done = super().run(*args, expect=expect, env=env, cwd=cwd, timeout=timeout)
        title = f"phase {self.phase}: {' '.join(map(str, args)).removeprefix('--json ')}"
        printed = {"output": "" if done.objects else done.stdout, "errors": done.stderr}
        texts: list[JsonObject] = [{"type": name, "lines": text.splitlines()} for name, text in printed.items() if text]
        clock_s = int(Path(env["RIG_CLOCK"]).read_text(encoding="ascii")) if env and "RIG_CLOCK" in env else 0
        span_s = began_ns // SECOND_NS + clock_s, time.time_ns() // SECOND_NS + clock_s
        told = json.loads(self._name_places(json.dumps([*done.objects, *texts])))
        self.story.said.append(Said(self._name_places(title), done.code, told, began_ns, span_s))
        return done

    def upgrade(self) -> None:
        """Go on with the newer version."""
        self.version = self._newer
        super().run("catalog", "upgrade", expect=0)

    def _name_places(self, text: str) -> str:
        for folder in sorted(self.places, key=len, reverse=True):
            text = text.replace(folder, self.places[folder])
        for pattern, word in _WORDS:
            text = pattern.sub(word, text)
        return text


class StoryWorld(World):
    """A world in a ``StoryBox``."""

    box: StoryBox

    def __init__(self, seed: int, folder: Path, shims: Shims, box: StoryBox, *, files: int, start_ns: int = 0) -> None:
        super().__init__(seed, folder, shims, files=files, start_ns=start_ns)
        self.box, self._renamed = box, RenamedFiles(seed)

    def live(self, phase: int) -> None:
        self.box.phase = phase
        super().live(phase)
        if phase:
            self._renamed.happen(self._start_ns + phase * DAY_NS)
        else:
            self._renamed.begin(self.root, self._start_ns)

    def look(self, *, scrubs: bool, compares: bool) -> list[JsonObject]:
        said = super().look(scrubs=scrubs, compares=compares)
        return [each for each in said if f"/{TOP}/" not in str(each["path"])]

    def _configure(self) -> None:
        places = {"ROOT": self.root, **{name.upper(): place for name, place in self.copies.items()}}
        for name, place in places.items():
            self.box.places.setdefault(str(place.folder), self._name_folder(name, place))
        super()._configure()

    def _name_folder(self, name: str, place: Place) -> str:
        """Name the folder of a place, which is another one after it has moved."""
        others = sum(each.split("-")[0] == f"/{name}" for each in self.box.places.values())
        return f"/{name}-{others + 1}" if str(place.folder) not in self.box.places and others else f"/{name}"

    def ask_all(self) -> None:
        """Ask what is known of everything."""
        for life in self.lives.values():
            if self.root.see(life.name) is not None:
                self._run("explain", self.root.folder / life.name)
        for path in self._renamed.find():
            self._run("explain", self.root.folder / path.relative_to(self.root.path(".")))


def live(seed: int, shims: Shims, versions: Sequence[Resident], *, files: int, start_ns: int, at: int = -1) -> Story:
    """Let a world live under a version; with two, the second takes over after ``at`` commands."""
    with tempfile.TemporaryDirectory(prefix="history-") as folder:
        box = StoryBox(Path(folder) / "home", versions, at)
        with StoryWorld(seed, Path(folder), shims, box, files=files, start_ns=start_ns) as world:
            box.story.result = play_world(world)
            world.ask_all()
            return box.story


class Comparison:
    """
    What two lives of a world said differently.

    Args:
        seed: of the world.
        way: how the second one was lived.
        reference: the first.
        this: the second.
    """

    def __init__(self, seed: int, way: str, reference: Story, this: Story) -> None:
        self._seed, self._way, self._stories = seed, way, (reference, this)

    def find(self, is_intended: Callable[[Difference], bool]) -> Iterator[Difference]:
        """Find differences, up to the first command with one that is not intended: from then on the lives differ."""
        for theirs, ours in itertools.zip_longest(*(story.said for story in self._stories)):
            if theirs is None or ours is None or theirs.title != ours.title:
                titles = (each.title if each else None for each in (theirs, ours))
                yield self._make((ours or theirs).title, "the commands", "title", *titles)
                return
            found = list(self._compare_commands(theirs, ours))
            yield from found
            if not all(map(is_intended, found)):
                return

    def _make(self, command: str, what: str, name: str, theirs: object, ours: object) -> Difference:
        return Difference(self._seed, self._way, command, what, name, theirs, ours)

    def _compare_commands(self, theirs: Said, ours: Said) -> Iterator[Difference]:
        if theirs.code != ours.code:
            yield self._make(ours.title, "the command", "exit code", theirs.code, ours.code)
        mine, other = _group(theirs.objects), _group(ours.objects)
        for what in sorted(mine.keys() | other.keys()):
            for one, another in itertools.zip_longest(mine.get(what, ()), other.get(what, ())):
                if one is None or another is None:
                    yield self._make(ours.title, what, "all of it", one, another)
                    continue
                for name, old, new in self._compare_values("", one, another):
                    yield self._make(ours.title, what, name, old, new)

    def _compare_values(self, name: str, theirs: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
        if isinstance(theirs, dict) and isinstance(ours, dict):
            for key in [*theirs, *(key for key in ours if key not in theirs)]:
                if key not in _LEFT_OUT:
                    missing = f"no {key}"
                    pair = theirs.get(key, missing), ours.get(key, missing)
                    yield from self._compare_values(f"{name}.{key}".lstrip("."), *pair)
        elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
            for number, pair in enumerate(zip(theirs, ours, strict=True)):
                yield from self._compare_values(f"{name}[{number}]", *pair)
        elif not self._is_same(name, theirs, ours):
            yield name, theirs, ours

    def _is_same(self, name: str, theirs: Any, ours: Any) -> bool:
        if theirs == ours:
            return True
        if name.endswith("_ns") and isinstance(theirs, int) and isinstance(ours, int):
            one, other = (story.find_step(each) for story, each in zip(self._stories, (theirs, ours), strict=True))
            return one is not None and one == other
        if not isinstance(theirs, str) or not isinstance(ours, str) or _TIME.sub("", theirs) != _TIME.sub("", ours):
            return False
        pairs = zip(_TIME.finditer(theirs), _TIME.finditer(ours), strict=True)
        return all(self._is_same_time(one.group(), other.group()) for one, other in pairs)

    def _is_same_time(self, theirs: str, ours: str) -> bool:
        if theirs == ours:
            return True
        one, other = (
            story.find_commands(*_parse(each)) for story, each in zip(self._stories, (theirs, ours), strict=True)
        )
        return bool(one & other)


def _group(objects: Sequence[JsonObject]) -> dict[str, list[JsonObject]]:
    """Return objects by what they are about."""
    groups: dict[str, list[JsonObject]] = {}
    for each in objects:
        names = (str(each[name]) for name in ("type", "kind", "job", "path", "copy") if each.get(name))
        groups.setdefault(" ".join(names), []).append(each)
    for group in groups.values():
        group.sort(key=lambda each: (str(each.get("state")), str(each.get("opened_at"))))
    return groups


def _parse(text: str) -> tuple[int, int]:
    """Return the first second of a time, and how many seconds it may mean."""
    digits = text.removesuffix(" UTC").removesuffix("Z").replace("T", " ").partition(".")[0]
    has_seconds = digits.count(":") == 2
    read = datetime.strptime(digits, f"%Y-%m-%d %H:%M{':%S' * has_seconds}").replace(tzinfo=UTC)
    return int(read.timestamp()), 1 if has_seconds else 60


class Intended:
    """
    What is meant to differ, and how often it did.

    Args:
        text: a line for each: the highest number, a regular expression, `` # ``, the reason.

    Raises:
        ValueError: a line has another form, or there are too many.
    """

    def __init__(self, text: str) -> None:
        self._lines: list[tuple[int, re.Pattern[str]]] = []
        self.counts: list[int] = []
        lines = [line for line in text.splitlines() if line]
        if len(lines) > _MOST_INTENDED:
            raise ValueError(f"{len(lines)} differences are intended: no more than a page, {_MOST_INTENDED} lines")
        for line in lines:
            match = re.fullmatch(r"(\d+) (\S.*) # \S.*", line)
            if match is None:
                raise ValueError(f"not a number, an expression, ' # ' and a reason: {line}")
            self._lines.append((int(match[1]), re.compile(match[2])))
            self.counts.append(0)

    def __contains__(self, difference: Difference) -> bool:
        return self._find(difference) is not None

    def _find(self, difference: Difference) -> int | None:
        text = str(difference)
        return next((number for number, (_, one) in enumerate(self._lines) if one.search(text)), None)

    def count(self, difference: Difference) -> bool:
        """Count a difference; say whether it is intended."""
        number = self._find(difference)
        if number is not None:
            self.counts[number] += 1
        return number is not None

    def find_exceeded(self) -> list[str]:
        """Return what differed more often than it may."""
        pairs = zip(self._lines, self.counts, strict=True)
        return [f"{count} times, not at most {most}: {one.pattern}" for (most, one), count in pairs if count > most]


def read_intended() -> Intended:
    """Read ``intended.txt``."""
    return Intended((_FOLDER / "intended.txt").read_text(encoding="utf-8"))


def read_reference() -> str:
    """Return the commit that ``reference.txt`` names."""
    return (_FOLDER / "reference.txt").read_text(encoding="utf-8").strip()


def compare_world(
    seed: int,
    shims: Shims,
    reference: Resident,
    this: Resident,
    *,
    files: int,
    intended: Intended,
    result: Result,
    attempts: int = _ATTEMPTS,
) -> list[Difference]:
    """
    Let a world live under both versions; return the differences that are not intended.

    What is said under this tree is judged, too, into ``result``.

    Some of what is said hangs on which second it is, or on which thread was first: the same version then differs from
    itself. So both live again until one of the lives of each says the same, and only what always differs is returned.
    """
    start_ns, is_upgraded = choose_start_ns(), is_upgraded_on_its_way(seed)
    versions, at = [reference, this] if is_upgraded else [this], -1
    theirs, ours, ways = list[Story](), list[Story](), list[list[Difference]]()
    for _ in range(attempts):
        theirs.append(live(seed, shims, [reference], files=files, start_ns=start_ns))
        if is_upgraded and at < 0:
            last = sum(not said.title.startswith(f"phase {PHASES - 1}: explain") for said in theirs[0].said)
            at = Random(f"upgrade {seed}").randrange(1, last)
        ours.append(live(seed, shims, versions, files=files, start_ns=start_ns, at=at))
        way = f"upgraded after {at} commands" if is_upgraded else "this tree"
        newest = [(theirs[-1], our) for our in ours] + [(their, ours[-1]) for their in theirs[:-1]]
        for their, our in newest:
            ways.append(list(Comparison(seed, way, their, our).find(intended.__contains__)))
            if all(each in intended for each in ways[-1]):
                result.add(our.result)
                return [each for each in ways[-1] if not intended.count(each)]
    result.add(ours[0].result)
    return [each for each in ways[0] if not intended.count(each)]


def is_upgraded_on_its_way(seed: int) -> bool:
    """Say whether a world begins under the reference; all that happens to worlds has its turn either way."""
    return (seed + seed // len(CIRCUMSTANCES)) % 2 == 1


def main() -> int:
    """Compare the versions over the worlds that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300, help="histories to live")
    parser.add_argument("--files", type=int, default=_FILES, help="files of a world")
    parser.add_argument("--reference", default=read_reference(), help="another commit")
    parser.add_argument("--tree", type=Path, help="folder from which a package is imported in place of this tree's")
    parser.add_argument("--installed", type=Path, default=INSTALLED, help="folder for the reference")
    options = parser.parse_args()
    installed = install_commit(options.reference, options.installed, is_native=True)
    run_in_memory()
    intended, result, unexplained = read_intended(), Result(), 0
    with tempfile.TemporaryDirectory() as tools:
        shims = Shims(Path(tools))
        with Resident("the reference", shims, installed) as reference, Resident("this", shims, options.tree) as this:
            for number, seed in zip(range(0, options.count, options.files), itertools.count(options.seed)):
                files, started = min(options.files, options.count - number), time.monotonic()
                new = compare_world(seed, shims, reference, this, files=files, intended=intended, result=result)
                unexplained += len(new)
                for each in new[:_SHOWN]:
                    print(f"  {each}")
                if len(new) > _SHOWN:
                    print(f"  and {len(new) - _SHOWN} more")
                took_s = time.monotonic() - started
                print(f"seed {seed}: {describe(seed)}: {unexplained} so far, {took_s:.1f} s", flush=True)
    exceeded = intended.find_exceeded()
    print(*exceeded, sep="\n")
    print(*result.errors, sep="\n")
    print(f"{options.count} histories: {unexplained} unexplained differences, {sum(intended.counts)} intended")
    return 1 if unexplained or exceeded or result.errors else 0


if __name__ == "__main__":
    sys.exit(main())
