"""
The table of arbitration on real disks: states of a file, of its copy and of the catalog, with the advice carried out.

Six states here, six of the copy, five of the catalog: 180, with sizes and places of damage by seed. After each
comparison all that it proposes is done, until it proposes nothing that can be done without a person. Then damage has
won nowhere, all that could be healed is healed, and nothing else was touched.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from support.bitrot import rot
from support.cli import Box
from support.comparing import back_up, compare
from support.flakydisk import FlakyDisk
from support.planted import age
from support.shapes import put

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]

KIB = 1024
BLOCK = 64 * KIB
STATES = ("good", "rotten", "rewritten", "changed", "missing", "unreadable")
CATALOGS = ("recorded", "verified", "found", "archive", "read")
DAMAGED = ("rotten", "rewritten", "unreadable")
ROUNDS = 3

CONFIG = """
[defaults]
block_size = "64KiB"
policy = "{policy}"
"""


class Case(NamedTuple):
    """One file: its states, its content at first, and where each side is damaged."""

    here: str
    copy: str
    content: bytes
    damage_here: int
    damage_there: int

    @property
    def name(self) -> str:
        return f"{self.here}-{self.copy}"

    @property
    def are_apart(self) -> bool:
        """Say whether a good file can be made of the two damaged ones."""
        return len(self.content) > BLOCK and self.damage_here // BLOCK != self.damage_there // BLOCK


class Sides(NamedTuple):
    """The two disks, and the trees on them."""

    here: FlakyDisk
    there: FlakyDisk
    root: Path
    copy: Path


@pytest.fixture
def sides() -> Iterator[Sides]:
    """Make two disks."""
    with FlakyDisk("ext4") as here, FlakyDisk("ext4") as there:
        root = here.folder / "data"
        root.mkdir()
        yield Sides(here, there, root, there.folder / "copy")


def make_cases(chance: random.Random) -> list[Case]:
    """Make a file for each pair of states, half of them of several blocks."""
    cases = []
    for here, copy in product(STATES, STATES):
        size = chance.choice((chance.randrange(5 * KIB, 20 * KIB), chance.randrange(2 * BLOCK, 6 * BLOCK)))
        cases.append(Case(here, copy, chance.randbytes(size), chance.randrange(size), chance.randrange(size)))
    return cases


def spoil(disk: FlakyDisk, path: Path, state: str, offset: int, other: bytes) -> None:
    """Bring a file into a state."""
    if state == "rotten":
        rot(path, offset)
    elif state == "rewritten":
        data, times = bytearray(path.read_bytes()), path.stat()
        data[offset] ^= 4
        path.write_bytes(data)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    elif state == "changed":
        put(path, other)
    elif state == "missing":
        path.unlink()
    elif state == "unreadable":
        disk.bad_sector(path, offset)


def expect(case: Case, catalog: str) -> str:
    """Say what has to be proposed for a file: nothing, a repair, a backup, a look at the copy, or to ask a person."""
    # A copy that was rewritten under its old time, or changed later than the file, may be the one that is right.
    if case.here == "good":
        return {"good": "nothing", "unreadable": "look", "rewritten": "person", "changed": "person"}.get(
            case.copy, "backup"
        )
    if case.here == "missing" and catalog != "archive":
        return "nothing"
    if case.here == "changed" and catalog != "archive":
        return {"unreadable": "look", "rewritten": "person", "changed": "person"}.get(case.copy, "backup")
    # Rot and bad sectors leave no trace in the stat: a copy that is good says nothing about the file.
    is_known = case.here not in ("rotten", "unreadable") or case.copy != "good" or catalog in ("found", "read")
    if not is_known:
        return "nothing"
    if case.copy == "good":
        return "repair"
    if case.copy == "unreadable":
        return "look"
    is_two = case.here in DAMAGED and case.copy in ("rotten", "rewritten") and case.are_apart
    return "repair" if is_two else "person"


def read(path: Path) -> bytes | None:
    """Return the content of a file; None if it has none, or none that can be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def read_tree(folder: Path) -> dict[str, bytes | None]:
    """Return the content of each file of a tree, without those that a repair or a copy has put aside."""
    return {one.name: read(one) for one in folder.iterdir() if ".integrity-" not in one.name and one.name[-1] != "~"}


def collect(findings: list[dict[str, object]], root: Path) -> dict[str, list[tuple[str, str]]]:
    """Return the first proposal of each finding, words and command, by the file's name; as told last."""
    last = {one["id"]: one for one in findings if one["path"] != str(root)}
    found: dict[str, list[tuple[str, str]]] = {}
    for one in last.values():
        steps = one["next_steps"]
        assert isinstance(steps, list)
        assert steps, one
        found.setdefault(Path(str(one["path"])).name, []).append((steps[0]["words"], steps[0]["command"]))
    return found


def classify(proposals: list[tuple[str, str]], root: Path, copy: Path, name: str) -> str:
    """Say what the proposals about one file come to."""
    kinds = set()
    for words, command in proposals:
        if command == f"integrity repair {root / name} --from {copy}":
            kinds.add("repair")
        elif "run the backup again" in words or "over the damaged backup" in words:
            kinds.add("backup")
        elif "check the copy's disk" in words:
            kinds.add("look")
        else:
            kinds.add("person")
    # About a copy that is damaged, too, there is a proposal beside that about the file.
    return next((kind for kind in ("repair", "look", "backup", "person") if kind in kinds), "nothing")


def carry_out(integrity: Box, sides: Sides, todo: dict[str, str]) -> None:
    """Repair what is to be repaired, and back up what is to be backed up."""
    repairs = [sides.root / name for name, kind in todo.items() if kind == "repair"]
    if repairs:
        integrity.run("repair", *repairs, "--from", sides.copy, "--apply", expect=0)
    for name, kind in todo.items():
        if kind == "backup":
            subprocess.run(["cp", "--backup=numbered", "-p", sides.root / name, sides.copy / name], check=True)
    os.sync()


@pytest.mark.parametrize("catalog", CATALOGS)
def test_advice_is_right_and_heals(catalog: str, sides: Sides, integrity: Box) -> None:
    """All states of file and copy beside each other: what is proposed is right, and doing it leaves what it should."""
    chance = random.Random(f"16 {catalog}")
    cases = {case.name: case for case in make_cases(chance)}
    root, copy = sides.root, sides.copy
    integrity.configure(CONFIG.format(policy="archive" if catalog == "archive" else "mutable"))
    for name, case in cases.items():
        put(root / name, case.content)
    age(*root.iterdir())
    integrity.run("scan", root, expect=0)
    if catalog == "verified":
        integrity.run("scrub", root, expect=0)
    back_up(root, copy)
    os.sync()
    compare(integrity, root, "--with", copy, expect=0)  # the witness of what the copy had
    changed = {side: {name: chance.randbytes(9000) for name in cases} for side in ("here", "there")}
    for name, case in cases.items():
        spoil(sides.here, root / name, case.here, case.damage_here, changed["here"][name])
        spoil(sides.there, copy / name, case.copy, case.damage_there, changed["there"][name])
    age(*(one for one in root.iterdir()))
    if catalog == "found":
        integrity.run("scrub", root)
    options = ["--read"] if catalog == "read" else []
    truth = {name: changed["here"][name] if case.here == "changed" else case.content for name, case in cases.items()}

    repaired: set[str] = set()
    backed_up: set[str] = set()
    for number in range(ROUNDS):
        before = {side: read_tree(side) for side in (root, copy)}
        done = compare(integrity, root, "--with", copy, *options)
        proposals = collect(list(done.findings), root)
        todo = {name: classify(proposals.get(name, []), root, copy, name) for name in cases}
        if number == 0:
            assert {name: expect(case, catalog) for name, case in cases.items()} == todo
        assert before == {side: read_tree(side) for side in (root, copy)}, "a comparison has written"
        todo = {name: kind for name, kind in todo.items() if not is_about_a_choice(cases[name], catalog, kind)}
        for name in (name for name, kind in todo.items() if kind == "backup"):
            assert truth[name] == before[root][name], f"{name}: damage would be backed up"
        carry_out(integrity, sides, todo)
        repaired |= {name for name, kind in todo.items() if kind == "repair"}
        backed_up |= {name for name, kind in todo.items() if kind == "backup"}
        after = {side: read_tree(side) for side in (root, copy)}
        assert before[root] | {name: cases[name].content for name in repaired} == after[root]
        assert before[copy] | {name: after[root][name] for name in todo if todo[name] == "backup"} == after[copy]

    done = compare(integrity, root, "--with", copy, *options)
    left = {name: classify(some, root, copy, name) for name, some in collect(list(done.findings), root).items()}
    assert not [
        name
        for name, kind in left.items()
        if kind in ("repair", "backup") and not is_about_a_choice(cases[name], catalog, kind)
    ]
    for name in backed_up:
        assert truth[name] == read(copy / name), name
    for name in repaired:
        assert cases[name].content == read(root / name), name


def is_about_a_choice(case: Case, catalog: str, kind: str) -> bool:
    """Say whether only a person can know: an archive's file was changed, and may be put back if that was not meant."""
    return catalog == "archive" and case.here == "changed" and kind == "repair"
