"""
Situations written down as text: what happens to a folder, step by step, and what the program must say of it.

A file begins with a paragraph about its subject. Each further paragraph is a scenario: a title, and one indented line
for each step. Names are relative to the watched folder; a copy of it may stand in ``../copy``.

Directives
    on DISK; DISK       where it is tried (``truth.disks``, or ``here``: any folder). Else: on each disk that fits.
                        DISK cached: what is damaged there stays in memory as it was
    with NAME in A, B   once with each value, which replaces {NAME} in the steps; several make all combinations
                        (in the short run: so many that each value occurs)
                        with SIZE/BLOCK in 5M/4, 7M/6: values that belong together
Files
    write NAME[=LABEL][:SIZE]...    equal labels are equal contents (else each name has its own), and a longer one goes
                                    on where a shorter one ends; 5,000 bytes, or SIZE such as 3M
    edit NAME... [at OFFSET...] [quietly]   one byte becomes another, in place; quietly: the mtime is put back
    append NAME... SIZE [quietly]
    exchange A B        two names swap in one call
    backup COPY...      copies of the folder with their own bytes on the disk, and all times
    open NAME           a program has it open for writing from here on, until: close NAME
    spread NAME...      their times of modification become a day and some seconds apart, with fractions, in 2020
    shift +1h NAME...   their times of modification move by this; also -3d, +100ns
    round 2s NAME...    their times of modification lose what is less than that
    pause               until no time is too young to be trusted, and another second has begun
    anything else       a command of bash: mv, cp -p, ln, rm, touch -d ...; what damages a file damages its clones, too,
                        and cp makes clones where it can: not with --reflink=never
Damage, below the file system
    flip NAME... [at OFFSET...], a bit; zero NAME... [at OFFSET...], a sector; cross A B [at OFFSET], sectors of two
    fail NAME... [at OFFSET...], a sector can't be read
    misdirect A B [at OFFSET]               a sector of A is also written where one of B belongs
    misread TIMES NAME... [at OFFSET...]    a byte comes wrong from the disk so many times, each time another way
    spoil CALL NAME ERROR   from here on this call of FUSE fails so; "spoil readdir d/* hidden": names are not listed
    heal                    all sectors can be read again, and nothing is spoiled any more
Surroundings
    [root] KEY = VALUE      a line of this table of the configuration, as in TOML; [root ../other]: of another folder;
                            [copy NAME]: a copy in ../NAME; [copy NAME at PLACE]; [defaults], [pace] ...
                            a KEY has its last value
    [root NAME] is gone     the table is taken out
    clock +400d             how far the program's clock is off from here on; also -2h
    reboot                  the machine was started again
    remount                 the disk was taken out and put back
    unplug; plug            only one of the two; between them the empty folder below its mount point is seen
    plug NAME PLACE; unplug PLACE       the same with another disk: an ext4, new when it comes first, whose UUID follows
                            from its name
    set NAME=VALUE          a variable of the program's environment
    meanwhile NAME COMMAND  what bash does, once, when the next command has begun to read NAME
    row SQL                 what one statement makes of the catalog, behind the program's back
The program
    scan, scrub, compare ...    a command, with ``--json``; in the watched folder, and about it if no path is given;
                                with -- about all watched folders
    text [-q] COMMAND           as people see it, without ``--json``
    A word with * stands for the names that match, as for a shell.

In names ``{1..9}`` stands for each of these numbers. In a command ``#NAME`` stands for the number of the finding about
NAME that a command showed before, and behind ``->``, too: ``rot a id=#a`` is the same finding.

Behind ``->``, on the same line or on lines of their own below it, stands what must be said, separated by ``;``. What is
not listed must not have been found, and the exit code is 1 with and 0 without a finding, if nothing else is said.
    3 verified              all tallies that are not zero, as soon as one is given
    rot a b KEY=VALUE       findings of a kind, and fields that each of them has
    note moved b            all notes of a kind
    KEY=VALUE               a field of the summary, or of the object that ``explain`` prints; A.B: field B of field A
    repair_plan a KEY=VALUE     all objects of a type, and fields of each of them; JSON is written without quotes
    "words"                 they occur in a message, a next step or an error; line breaks don't matter; ... is anything
    not "words"; silent     they don't occur; nothing is printed at all
    1 line                  so many lines are printed
    exit 3                  the exit code
    anything                findings don't matter here, nor does an exit code that is not given

The field ``do`` of a finding is the first command that it proposes. A finding that is printed twice counts as it was
printed last. Paths are relative there, too: ``a`` stands for the path of ``a``, and ``../copy`` for that of the copy.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import glob
import hashlib
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from integrity.model import FindingKind
from support.bitrot import allow_damage
from support.cli import Box, Completed, JsonObject, complete_in, make_command
from support.comparing import check_sum, counts
from support.documents import TYPES, encrypt, make_documents
from support.loopfs import make_image, unmount
from support.machine import need_programs
from support.namespaces import with_binds
from support.planted import age
from support.preload import Shims
from support.programs import sh
from support.results import all_names, notes, tallies
from support.stored import rewrite
from support.waiting import wait_until
from truth.disks import DISKS, Can, Disk

HERE = "here"
_FITTING = ("ext4", "xfs", "btrfs")
_ROTTING = ("ext4", "xfs", "btrfs nodatasum")
_COMMANDS = frozenset(
    {"scan", "scrub", "compare", "repair", "accept", "ack", "mute", "findings", "explain", "status", "gate"}
    | {"forget", "root", "catalog", "sum", "config"}
)
_WITH_FOLDER = frozenset({"scan", "scrub", "compare", "gate"})
_DAMAGE = frozenset({"flip", "zero", "cross", "misdirect", "fail", "misread"})
_NEEDS = {"fail": Can.FAIL, "misread": Can.MISREAD, "spoil": Can.SPOIL}
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_UNITS_NS = {"ns": 1, "s": 10**9, "m": 60 * 10**9, "h": 3_600 * 10**9, "d": 86_400 * 10**9}
_KINDS = frozenset(kind.value for kind in FindingKind)
_UNINTERESTING = frozenset({"schema", "root", "opened_at", "updated_at", "started_at", "finished_at", "duration_s"})
_SIZE_BYTES = 5_000
_SPREAD_FROM_NS, _SPREAD_BY_NS = 1_577_872_800_123_456_789, 86_413 * 10**9
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_NOT_FOUND = 127  # bash


@dataclass(frozen=True)
class Step:
    """One line, where it stands, and what must be said then; None: nothing was written down."""

    line: int
    text: str
    expected: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scenario:
    """
    A title with the values of its parameters, the steps, and the disks on which it is tried.

    Attributes:
        is_usual: of the combinations of several parameters' values it is one of those that have each value once.
    """

    title: str
    steps: tuple[Step, ...]
    disks: tuple[str, ...]
    is_usual: bool


def read_scenarios(path: Path) -> list[Scenario]:
    """Read the scenarios of a file."""
    found: list[Scenario] = []
    numbered = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    paragraphs = [list(group) for filled, group in itertools.groupby(numbered, lambda one: bool(one[1])) if filled]
    for (line, title), *steps in paragraphs[1:]:
        assert steps, f"{path.name}:{line}: a scenario without steps"
        found += _make_scenarios(title, steps)
    return found


def _make_scenarios(title: str, lines: Sequence[tuple[int, str]]) -> Iterator[Scenario]:
    disks: tuple[str, ...] = ()
    values: dict[str, list[str]] = {}
    steps: list[Step] = []
    for number, line in lines:
        text, arrow, expected = line.strip().partition("-> ")
        items = tuple(item.strip() for item in re.findall(r'(?:"[^"]*"|[^;])+', expected)) if arrow else ()
        if not text:
            steps[-1] = Step(steps[-1].line, steps[-1].text, steps[-1].expected + items)
        elif text.startswith("on "):
            disks = tuple(name.strip() for name in text.removeprefix("on ").split(";"))
        elif match := re.fullmatch(r"with ([\w/]+) in (.+)", text):
            values[match[1]] = [value.strip() for value in match[2].split(",")]
        else:
            steps.append(Step(number, text.strip(), items))
    turns = range(max(map(len, values.values()), default=1))
    usual = {tuple(each[turn % len(each)] for each in values.values()) for turn in turns}
    for chosen in itertools.product(*values.values()):
        names = dict(itertools.chain.from_iterable(itertools.starmap(_split, zip(values, chosen, strict=True))))
        filled = tuple(
            Step(step.line, _fill(step.text, names), tuple(_fill(item, names) for item in step.expected))
            for step in steps
        )
        yield Scenario(" ".join([title, *chosen]), filled, disks or _find_fitting(filled), chosen in usual)


def _split(names: str, values: str) -> Iterator[tuple[str, str]]:
    if "/" not in names:
        return iter([(names, values)])
    return zip(names.split("/"), values.split("/"), strict=True)


def _fill(text: str, names: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: names.get(match[1], match[0]), text)


def _find_fitting(steps: Sequence[Step]) -> tuple[str, ...]:
    verbs = {step.text.split()[0] for step in steps}
    if needs := {_NEEDS[verb] for verb in verbs & set(_NEEDS)}:
        return tuple(name for name in DISKS if needs <= DISKS[name](False).can)
    return _ROTTING if verbs & _DAMAGE else _FITTING


def get_size(text: str) -> int:
    """Return the bytes of a size such as 3M or 4096."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    assert match, f"no size: {text}"
    return int(match[1]) * _UNITS[match[2]]


def get_ns(text: str) -> int:
    """Return the nanoseconds of a time such as 2s, +400d or -1h."""
    match = re.fullmatch(r"([+-]?\d+)(\w+)", text)
    assert match, f"no time: {text}"
    assert match[2] in _UNITS_NS, f"no unit: {text}"
    return int(match[1]) * _UNITS_NS[match[2]]


@dataclass
class Stage:
    """
    The folder of a scenario on its disk, and the program that watches it.

    Attributes:
        root: the watched folder.
        box: the program's home.
        disk: what the folder lies on; None: wherever tests keep their files.
        shims: builds what moves the program's clock.
    """

    root: Path
    box: Box
    disk: Disk | None
    shims: Shims
    _config: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    _places: dict[str, str] = field(default_factory=dict)
    _environment: dict[str, str] = field(default_factory=dict)
    _meddling: dict[str, str] = field(default_factory=dict)
    _open: dict[str, int] = field(default_factory=dict)
    _numbers: dict[str, str] = field(default_factory=dict)
    _boot_id: Path | None = None
    _is_unplugged: bool = False

    def play(self, scenario: Scenario) -> None:
        """
        Do what a scenario says, and look at what is said.

        Raises:
            AssertionError: something else was said; with the line.
        """
        try:
            for step in scenario.steps:
                try:
                    self._take(step)
                except (AssertionError, OSError, ValueError, subprocess.CalledProcessError) as error:
                    raise AssertionError(f"line {step.line}: {step.text}\n{error}") from None
        finally:
            for file in self._open.values():
                os.close(file)
            if self._is_unplugged:
                self._do_plug()

    def _take(self, step: Step) -> None:
        verb, _, rest = step.text.partition(" ")
        if verb in _COMMANDS:
            self._run_and_check(verb, shlex.split(rest), step)
        elif verb == "text":
            words = shlex.split(rest)
            at = next(number for number, word in enumerate(words) if not word.startswith("-"))
            _Told(self.root, self._run(words[:at], words[at], words[at + 1 :]), step).check()
        elif verb == "row":
            assert rewrite(self.box, rest)
        elif match := re.fullmatch(r"\[(\w+) ?(.*?)\] (.+)", step.text):
            self._configure(match[1], match[2], match[3])
        elif (method := getattr(self, f"_do_{verb}", None)) is not None:
            method(*_expand(shlex.split(rest)))
        else:
            environment = {"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]}
            done = subprocess.run(
                ["bash", "-ec", step.text], cwd=self._get_cwd(), env=environment, capture_output=True, check=False
            )
            if done.returncode == _NOT_FOUND:
                need_programs(verb)
            assert done.returncode == 0, done.stderr.decode(errors="replace")

    def _run_and_check(self, verb: str, args: Sequence[str], step: Step) -> None:
        done = self._run(["--json"], verb, self._find_numbers(args))
        _Told(self.root, done, Step(step.line, step.text, self._find_numbers(step.expected))).check()
        for one in done.findings:
            names = (os.path.relpath(str(path), self.root) for path in all_names(one))
            self._numbers |= dict.fromkeys(names, str(one["id"]))

    def _find_numbers(self, words: Iterable[str]) -> tuple[str, ...]:
        """Put the number of a finding in the place of #NAME."""
        known = self._numbers
        return tuple(re.sub(r"#([\w./-]+)", lambda match: known.get(match[1], match[0]), word) for word in words)

    def _run(self, options: list[str], verb: str, args: Sequence[str]) -> Completed:
        cwd = self._get_cwd()
        if verb in _WITH_FOLDER and "--" not in args and (not args or args[0].startswith("-")):
            args = [os.path.relpath(self.root, cwd), *args]
        command = [*options, verb, *itertools.chain.from_iterable(map(self._match, args))]
        meddling, self._meddling = self._meddling, {}
        if self._boot_id is not None:
            program = with_binds({"/proc/sys/kernel/random/boot_id": self._boot_id}, *make_command(*command))
            environment = self.box.environment | self._environment | meddling
            done = subprocess.run(program, env=environment, cwd=cwd, capture_output=True, check=False)
            return complete_in(environment, done.returncode, done.stdout, done.stderr, is_json="--json" in options)
        return self.box.run(*command, env=self._environment | meddling, cwd=cwd)

    def _match(self, word: str) -> list[str]:
        return ("*" in word and sorted(glob.glob(word, root_dir=self.root))) or [word]

    def _get_cwd(self) -> Path:
        """Return the watched folder, or the one above it while it is away."""
        return self.root if self.root.exists() else self.root.parent

    def _configure(self, table: str, name: str, line: str) -> None:
        name, _, place = name.partition(" at ")
        if place:
            self._places[name] = place
        lines = self._config.setdefault((table, name), {})
        if line == "is gone":
            del self._config[table, name]
        else:
            lines[line.partition("=")[0].strip()] = line
        self.box.configure("\n".join(itertools.starmap(self._write_table, self._config.items())))

    def _write_table(self, head: tuple[str, str], values: dict[str, str]) -> str:
        (table, name), lines = head, values.values()
        root, there = (json.dumps(os.path.normpath(self.root / word)) for word in (".", name))
        if table == "root":
            return "\n".join(["[[root]]", f"path = {there}", *lines])
        if table == "copy":
            url = json.dumps(os.path.normpath(self.root / self._places.get(name, f"../{name}")))
            return "\n".join(["[[copy]]", f"of = {root}", f'name = "{name}"', f"url = {url}", *lines])
        return "\n".join([f"[{table}]", *lines])

    # Steps

    def _do_write(self, *words: str) -> None:
        for word in words:
            match = re.fullmatch(r"(.+?)(?:=(\w*))?(?::(\d+[KMG]?))?", word)
            assert match, word
            path = self.root / match[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            size = get_size(match[3]) if match[3] else _SIZE_BYTES
            label = match[1] if match[2] is None else match[2]
            path.write_bytes(hashlib.shake_128(label.encode()).digest(size))
            if self.disk is not None:
                self.disk.made(path)

    def _do_edit(self, *words: str) -> None:
        for path, offset in self._find_places(words):
            with _kept_times(path, words), open(path, "r+b") as stream:
                (old,) = os.pread(stream.fileno(), 1, offset)
                os.pwrite(stream.fileno(), bytes([old ^ 1]), offset)

    def _do_append(self, *words: str) -> None:
        *names, size = (word for word in words if word != "quietly")
        for name in names:
            with _kept_times(self.root / name, words), open(self.root / name, "ab") as stream:
                stream.write(hashlib.shake_128(b"appended").digest(get_size(size)))

    def _do_documents(self, folder: str, count: str, *types: str) -> None:
        seed = zlib.crc32(os.fsencode(folder))
        make_documents(self.root / folder, int(count), types=types or TYPES, seed=seed)

    def _do_encrypt(self, *words: str) -> None:
        names = [word for word in words if not word.startswith(".") and word != "quietly"]
        paths = sorted(path for name in names for path in self.root.glob(name))
        assert paths, f"no such files: {names}"
        encrypt(paths, suffix="".join(set(words) - {*names, "quietly"}), keeps_times="quietly" in words)

    def _do_exchange(self, one: str, other: str) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        paths = os.fsencode(self.root / one), os.fsencode(self.root / other)
        if libc.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE):
            raise OSError(ctypes.get_errno(), "renameat2")

    def _do_backup(self, *copies: str) -> None:
        for copy in copies:
            sh("cp", "-aT", "--reflink=never", self.root, self.root / copy)

    def _do_open(self, *names: str) -> None:
        self._open |= {name: os.open(self.root / name, os.O_RDWR) for name in names}

    def _do_close(self, *names: str) -> None:
        for name in names:
            os.close(self._open.pop(name))

    def _do_spread(self, *names: str) -> None:
        for number, name in enumerate(names):
            self._set_time(name, _SPREAD_FROM_NS + number * _SPREAD_BY_NS)

    def _do_shift(self, by: str, *names: str) -> None:
        for name in names:
            self._set_time(name, os.stat(self.root / name).st_mtime_ns + get_ns(by))

    def _do_round(self, grain: str, *names: str) -> None:
        for name in names:
            self._set_time(name, os.stat(self.root / name).st_mtime_ns // get_ns(grain) * get_ns(grain))

    def _set_time(self, name: str, time_ns: int) -> None:
        os.utime(self.root / name, ns=(time_ns, time_ns))

    def _do_pause(self) -> None:
        now = int(time.time())
        age(*(path for path in self.root.rglob("*") if path.is_file()))
        wait_until(lambda: int(time.time()) > now, "the next second")

    def _do_flip(self, *words: str) -> None:
        for path, offset in self._find_places(words):
            self._get_disk().xor(path, offset)

    def _do_zero(self, *words: str) -> None:
        for path, offset in self._find_places(words):
            self._get_disk().zero(path, offset)

    def _do_cross(self, one: str, other: str, *at: str) -> None:
        self._get_disk().exchange(self._at(one), self._at(other), _find_offsets(at)[0])

    def _do_misdirect(self, one: str, other: str, *at: str) -> None:
        self._get_disk().misdirect(self._at(one), self._at(other), _find_offsets(at)[0])

    def _do_fail(self, *words: str) -> None:
        for path, offset in self._find_places(words):
            self._get_disk().fail(path, offset)

    def _do_misread(self, times: str, *words: str) -> None:
        for path, offset in self._find_places(words):
            self._get_disk().misread(path, offset, int(times))

    def _do_spoil(self, call: str, name: str, what: str) -> None:
        self._get_disk().spoil(call, self.root / name, what)

    def _do_heal(self) -> None:
        self._get_disk().heal()

    def _find_places(self, words: Sequence[str]) -> Iterator[tuple[Path, int]]:
        names = list(itertools.takewhile(lambda word: word not in ("at", "quietly"), words))
        return itertools.product(map(self._at, names), _find_offsets(words))

    def _do_remount(self) -> None:
        self._get_disk().take_out()
        self._get_disk().put_back()

    def _do_unplug(self, place: str = "") -> None:
        if place:
            unmount(os.path.normpath(self.root / place))
            return
        self._get_disk().take_out()
        self._is_unplugged = True
        self.root.mkdir(parents=True)

    def _do_plug(self, name: str = "", place: str = "") -> None:
        if name:
            self._mount(self.box.home / f"{name}.img", Path(os.path.normpath(self.root / place)))
            return
        shutil.rmtree(self.root.parent)
        self._get_disk().put_back()
        self._is_unplugged = False

    def _mount(self, image: Path, point: Path) -> None:
        if not image.exists():
            self.box.home.mkdir(exist_ok=True)
            make_image(image, "ext4", mkfs=("-U", str(uuid.uuid5(uuid.NAMESPACE_URL, image.stem))))
        point.mkdir(exist_ok=True)
        sh("mount", "-o", "loop", image, point)
        allow_damage(os.fsencode(image))

    def _do_clock(self, offset: str) -> None:
        self.box.home.mkdir(exist_ok=True)
        self._environment |= self.shims.clock(self.box.home / "clock", get_ns(offset) // 10**9)

    def _do_set(self, *words: str) -> None:
        self._environment |= dict(word.split("=", 1) for word in words)

    def _do_reboot(self) -> None:
        self.box.home.mkdir(exist_ok=True)
        self._boot_id = self.box.home / "boot_id"
        self._boot_id.write_text("5a1b0000-0000-4000-8000-00000000beef\n", encoding="ascii")

    def _do_meanwhile(self, name: str, *words: str) -> None:
        self._meddling = self.shims.meddling(name, f"cd {shlex.quote(os.fspath(self.root))} && {' '.join(words)}")

    def _at(self, name: str) -> Path:
        """Return a path without "..", as a disk wants it."""
        return Path(os.path.normpath(self.root / name))

    def _get_disk(self) -> Disk:
        assert self.disk is not None, "this needs a disk that can be damaged"
        return self.disk


def _expand(words: Iterable[str]) -> list[str]:
    """Put each number of a range such as {1..9} in its place."""
    found: list[str] = []
    for word in words:
        match = re.search(r"\{(\d+)\.\.(\d+)\}", word)
        numbers = range(int(match[1]), int(match[2]) + 1) if match else ()
        found += _expand(word.replace(match[0], str(number), 1) for number in numbers) if match else [word]
    return found


def _find_offsets(words: Sequence[str]) -> list[int]:
    """Return the offsets behind "at"; without them the beginning."""
    behind = words[words.index("at") + 1 :] if "at" in words else ["0"]
    return [get_size(word) for word in behind if word != "quietly"]


@contextlib.contextmanager
def _kept_times(path: Path, words: Sequence[str]) -> Iterator[None]:
    """Put the mtime back if this is done quietly."""
    before = os.stat(path)
    yield
    if "quietly" in words:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


class _Told:
    """What a command said, held against what was expected."""

    def __init__(self, root: Path, done: Completed, step: Step) -> None:
        self._root, self._done, self._step = root, done, step
        self._findings = tuple({one["id"]: one for one in done.findings}.values())

    def check(self) -> None:
        """
        Compare.

        Raises:
            AssertionError: with both, and what was said.
        """
        tally: dict[str, int] = {}
        named: dict[str, set[tuple[str, str]]] = {"finding": set()}
        code, matters = None, True
        for item in self._step.expected:
            first, *rest = shlex.split(item)
            if item.startswith('"'):
                self._check(self._says(first), item)
            elif first == "not":
                self._check(not self._says(rest[0]), item)
            elif first == "silent":
                self._check(not self._done.stdout + self._done.stderr, item)
            elif first.isdigit() and rest[0] in ("line", "lines"):
                self._compare(int(first), len(self._done.stdout.splitlines()), "lines")
            elif first.isdigit():
                tally[rest[0]] = int(first)
            elif first == "exit":
                code = int(rest[0])
            elif first == "note":
                noted = sorted(self._shorten(path) for path in notes(self._done, rest[0]))
                self._compare(sorted(_expand(rest[1:])), noted, f"notes {rest[0]}")
            elif first == "anything":
                matters = False
            elif "=" in first:
                self._check_fields([one for one in self._done.objects if one["type"] in ("summary", "file")], [first])
            else:
                kind = "finding" if first in _KINDS else first
                names = _expand(word for word in rest if "=" not in word) or (["."] if first in _KINDS else [])
                named.setdefault(kind, set()).update((first, name) for name in names)
                self._check_fields(self._find(first, names), [word for word in rest if "=" in word])
        is_comparison = any(one["job"] == "compare" for one in self._done.of_type("summary"))
        if is_comparison:
            check_sum(self._done)
        if tally:
            self._compare(tally, counts(self._done) if is_comparison else tallies(self._done), "tallies")
        findings = named.pop("finding")
        for kind, those in named.items():
            if those:
                found = sorted(self._shorten(one["path"]) for one in self._done.of_type(kind))
                self._compare(sorted(name for _, name in those), found, kind)
        if matters:
            met_here = sorted(
                (str(one["kind"]), self._shorten(path)) for one in self._findings for path in all_names(one)
            )
            self._compare(sorted(findings), met_here, "findings")
            code = int(bool(findings)) if code is None else code
        if code is not None:
            self._compare(code, self._done.code, "exit code")

    def _says(self, words: str) -> bool:
        return re.search(".*".join(map(re.escape, words.split(" ... "))), self._said) is not None

    @functools.cached_property
    def _said(self) -> str:
        """All texts, on one line."""
        texts = [*_find_strings(list(self._done.objects)), self._done.stderr]
        if not self._done.objects:
            texts.append(self._done.stdout)
        return self._relate(" ".join(" ".join(texts).split()))

    def _find(self, kind: str, names: Sequence[str]) -> list[JsonObject]:
        """Return the findings of a kind, or the objects of a type, that are about these names; without names: all."""
        is_finding = kind in _KINDS
        objects = [one for one in self._findings if one["kind"] == kind] if is_finding else self._done.of_type(kind)
        return [one for one in objects if not names or self._shorten(one["path"]) in names]

    def _relate(self, text: str) -> str:
        """Write paths as the scenario does."""
        text = re.sub(rf"{re.escape(str(self._root))}(/|\b(?!-))", lambda match: "" if match[1] else ".", text)
        return text.replace(str(self._root.parent), "..")

    def _shorten(self, path: object) -> str:
        return os.path.relpath(str(path), self._root)

    def _check_fields(self, objects: Sequence[JsonObject], fields: Sequence[str]) -> None:
        for name, _, value in (one.partition("=") for one in fields):
            self._check(bool(objects), f"nothing has a field {name}")
            for one in objects:
                if name == "do":
                    self._compare(value, self._relate(_get_first_command(one)), name)
                    continue
                *outer, inner = name.split(".")
                holder = functools.reduce(lambda fields, part: fields.get(part) or {}, outer, cast(dict[str, Any], one))
                self._check(inner in holder, f"no field {name}")
                self._compare(value, self._relate(_spell(holder[inner])), name)

    def _compare(self, expected: object, found: object, what: str) -> None:
        self._check(expected == found, f"{what}:\n  expected {expected}\n  found    {found}")

    def _check(self, holds: bool, what: str) -> None:
        if not holds:
            said = "\n".join(map(self._describe, self._done.objects)) or self._relate(self._done.stdout)
            raise AssertionError(f"{what}\nexit {self._done.code}\n{said}\n{self._done.stderr}")

    def _describe(self, one: JsonObject) -> str:
        """Write an object for people: without what is empty, and what is of no interest here."""
        shown = {name: value for name, value in one.items() if value and name not in _UNINTERESTING}
        return self._relate(json.dumps(shown, ensure_ascii=False))


def _get_first_command(finding: JsonObject) -> str:
    steps = finding["next_steps"]
    return str(steps[0]["command"]) if isinstance(steps, list) and steps else ""


def _spell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":")).replace('"', "")


def _find_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from itertools.chain.from_iterable(map(_find_strings, value.values()))
    elif isinstance(value, list):
        yield from itertools.chain.from_iterable(map(_find_strings, value))
