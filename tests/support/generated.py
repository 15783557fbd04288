"""
The parts of the documents that are written from the code: what they would say now.

Such a part stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``. ``tests/drift/test_generated.py`` compares
it with what is in the document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from integrity.catalog.copying import read_schema
from integrity.cli.exitcodes import TABLE as EXIT_CODES
from integrity.kinds import GATE_PROBLEMS, KINDS, KindEntry, Subject, Trait, Weight, headline
from integrity.kinds import TABLE as KIND_TABLE
from integrity.model import Capability, FindingKind, Policy
from integrity.verdict import (
    Circumstances,
    Content,
    Elsewhere,
    Judgement,
    Shift,
    Verdict,
    WitnessShift,
    finding_of,
    judge,
)

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")), *(ROOT / "docs").rglob("*.md")]
_BLOCK = re.compile(r"(<!-- generated: ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_CODES = {Weight.PROBLEM: 1, Weight.GAP: 3, Weight.NOTE: 0}
_SUBJECTS = {
    Subject.FILE: "Files",
    Subject.FOLDER: "Folders and the service",
    Subject.DEVICE: "Disks",
    Subject.COPY: "Backup copies",
}


def renew(text: str) -> str:
    """Return a document with each generated part as it should be now."""
    return _BLOCK.sub(lambda found: f"{found[1]}{_write(found[2])}{found[3]}", text)


def find_blocks(text: str) -> list[str]:
    """Return the names of the generated parts of a document."""
    return [found[2] for found in _BLOCK.finditer(text)]


def _write(name: str) -> str:
    word, _, rest = name.partition(" ")
    of_kind = {"kind": write_kind, "steps": write_steps}.get(word)
    lines = of_kind(KINDS[FindingKind(rest)]) if of_kind else WRITERS[name]()
    return "".join(f"{line}\n" for line in lines)


def write_kind(entry: KindEntry) -> Iterator[str]:
    """Yield what follows from a kind, as the table of kinds says."""
    yield f"- Exit code: {_CODES[entry.weight]}. In `--json`: `{entry.kind.value}`."
    if entry.weight is not Weight.NOTE:
        yield "- Mail: at once." if Trait.URGENT in entry.traits else "- Mail: with the next one about new findings."
        yield f"- Backups: {_say_gate(entry)}"
    if Trait.FREEZES_BASELINE in entry.traits:
        yield "- The record of the file is kept as it is until the finding ends."
    ends = list(_say_ends(entry))
    if ends:
        yield f"- It ends when {'; or when '.join(ends)}."


def write_steps(entry: KindEntry) -> Iterator[str]:
    """Yield what to do about a finding, best first."""
    for number, step in enumerate(entry.steps, 1):
        words = f"{step.words[:1].upper()}{step.words[1:]}"
        command = step.command.format(path="FILE", root="FOLDER", copy="COPY") if step.command else ""
        yield f"{number}. {words}" + (f": `{command}`" if command else ".")


def _say_gate(entry: KindEntry) -> str:
    closes = Trait.CLOSES_GATE in entry.traits or (entry.kind in GATE_PROBLEMS and entry.subject is not Subject.COPY)
    return "`integrity gate` blocks them." if closes else "`integrity gate` does not block them."


def _say_ends(entry: KindEntry) -> Iterator[str]:
    if Trait.ENDED_BY_GOOD_READING in entry.traits:
        yield "the recorded content is read from the disk"
    if Trait.ENDED_BY_REPAIR in entry.traits:
        yield "`repair --apply` has repaired the file"
    if Trait.ENDED_BY_COMPARE in entry.traits:
        yield (
            "a comparison finds the backup right" if entry.subject is Subject.COPY else "a comparison finds both right"
        )
    if entry.kind is FindingKind.ROOT_SUSPENDED:
        yield "the disk is back; or when you release the folder as it is"
    if Trait.ENDED_BY_REBIND in entry.traits:
        yield "`root rebind` has bound the folder to another disk"


def write_kinds() -> Iterator[str]:
    """Yield all kinds with links, by what they are about."""
    for subject, title in _SUBJECTS.items():
        yield from ("", f"## {title}", "", "| what you read | exit code | page |", "|---|---|---|")
        for entry in KIND_TABLE:
            if entry.subject is subject:
                name = entry.kind.value
                yield f"| {entry.headline} | {_CODES[entry.weight]} | [{name}]({name}.md) |"


def write_exit_codes() -> Iterator[str]:
    """Yield the table of exit codes."""
    yield from ("| code | meaning |", "|---|---|")
    for code, meaning in EXIT_CODES:
        yield f"| {code.value} | {meaning} |"


_EXT4 = Capability(
    "ext4", has_ctime=True, has_stable_inodes=True, granularity_ns=1, has_direct_io=True, is_remote=False
)
_FUSE = Capability(
    "fuse", has_ctime=False, has_stable_inodes=False, granularity_ns=1, has_direct_io=False, is_remote=True
)
_QUIET = WitnessShift(is_size_equal=True, mtime=Shift.EQUAL, is_ctime_equal=True, is_inode_equal=True)
_TOUCHED = WitnessShift(is_size_equal=True, mtime=Shift.EQUAL, is_ctime_equal=False, is_inode_equal=True)
_RESIZED = WitnessShift(is_size_equal=False, mtime=Shift.EQUAL, is_ctime_equal=True, is_inode_equal=True)
_OLDER = WitnessShift(is_size_equal=False, mtime=Shift.OLDER, is_ctime_equal=False, is_inode_equal=True)
_NEWER = WitnessShift(is_size_equal=False, mtime=Shift.NEWER, is_ctime_equal=False, is_inode_equal=True)
_OTHER = WitnessShift(is_size_equal=True, mtime=Shift.EQUAL, is_ctime_equal=True, is_inode_equal=False)
_SITUATIONS: tuple[tuple[str, Capability, Content, WitnessShift, dict[str, object]], ...] = (
    ("the recorded content, whatever else changed", _EXT4, Content.SAME, _NEWER, {}),
    ("other content; size, times and inode as recorded", _EXT4, Content.DIFFERS, _QUIET, {}),
    ("the same, after what may have been a crash or power cut", _EXT4, Content.DIFFERS, _QUIET, {"was_unclean": True}),
    ("the same, where the file system hides writes (network shares, FUSE, FAT)", _FUSE, Content.DIFFERS, _QUIET, {}),
    ("other content and size; all times as recorded", _EXT4, Content.DIFFERS, _RESIZED, {}),
    ("other content; modification time as recorded, inode touched", _EXT4, Content.DIFFERS, _TOUCHED, {}),
    ("the same, and its name is in `rewrites_in_place`", _EXT4, Content.DIFFERS, _TOUCHED, {"rewrites_in_place": True}),
    ("other content; newer modification time", _EXT4, Content.DIFFERS, _NEWER, {"keeps_prefix": True}),
    ("the same, and the recorded beginning of the file changed", _EXT4, Content.DIFFERS, _NEWER, {}),
    ("other content; older modification time", _EXT4, Content.DIFFERS, _OLDER, {}),
    ("another file of the folder was moved over it", _EXT4, Content.DIFFERS, _OTHER, {"elsewhere": Elsewhere.RECORDED}),
    ("the file was being written when it was recorded", _EXT4, Content.DIFFERS, _QUIET, {"is_baseline_racy": True}),
    ("the file can't be read", _EXT4, Content.UNREADABLE, _QUIET, {}),
    ("the file is gone", _EXT4, Content.GONE, _QUIET, {}),
)  # fmt: skip


def write_verdicts() -> Iterator[str]:
    """Yield the first decision table, asked of the code."""
    yield from ("| what `integrity` sees | result |", "|---|---|")
    for words, capability, content, shift, circumstances in _SITUATIONS:
        results: dict[str, list[Policy]] = {}
        for policy in Policy:
            given = Circumstances(policy, **circumstances)  # type: ignore[arg-type]  # keywords of its own fields
            results.setdefault(_say_verdict(judge(capability, content, shift, given), policy), []).append(policy)
        first, *others = results
        parts = [first, *(f"`{'`, `'.join(results[other])}`: {other}" for other in others)]
        yield f"| {words} | {'; '.join(parts)} |"


def _say_verdict(judgement: Judgement, policy: Policy) -> str:
    kind = finding_of(judgement.verdict, policy)
    if kind is not None:
        return f"[{headline(kind, judgement.certainty)}](findings/{kind.value}.md)"
    words = {Verdict.INTACT: "intact", Verdict.DELETED: "the deletion is recorded"}
    return words.get(judgement.verdict, "the change is recorded")


class Column(NamedTuple):
    """A column of a table, by its line in the definition; the meaning is the comment behind it."""

    name: str
    type: str
    constraints: str
    meaning: str


def read_tables() -> dict[str, list[Column]]:
    """Return the columns of each table of the catalog that is made of several lines."""
    tables = re.findall(r"^CREATE TABLE (\w+) \(\n(.*?)^\)", read_schema(), re.DOTALL | re.MULTILINE)
    line = re.compile(r"^    ([a-z]\w*) ([A-Z]+)(.*?),? *(?:--(.*))?$", re.MULTILINE)
    return {name: [Column(*map(str.strip, found)) for found in line.findall(body)] for name, body in tables}


def write_tables() -> Iterator[str]:
    """Yield each table of the catalog with its columns, from the definition."""
    for name, columns in read_tables().items():
        yield from (f"### `{name}`", "", "| column | type | meaning |", "|---|---|---|")
        for column in columns:
            or_null = "" if re.search("NOT NULL|PRIMARY KEY", column.constraints) else " or null"
            yield f"| `{column.name}` | {column.type}{or_null} | {column.meaning.replace('|', '/')} |"
        yield ""


WRITERS: dict[str, Callable[[], Iterator[str]]] = {
    "kinds": write_kinds,
    "exit codes": write_exit_codes,
    "verdicts": write_verdicts,
    "tables": write_tables,
}
