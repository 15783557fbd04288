"""
Findings: problems that are reported to the user, from opening to resolution; and incidents, which group them.

An unresolved finding with the same root, kind, path, and copy is updated, not repeated. A finding on a file's content
freezes its baseline until it is resolved (R6). A file with several names has one finding for each name, because names
can diverge. Findings that report the same problem of one inode share the id of the first as their incident; any other
finding is an incident by itself. Users are notified of incidents.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from integrity import program
from integrity.catalog.db import Connection, Value, numbers
from integrity.catalog.rows import (
    below,
    given,
    quoted,
    read_numbers,
    read_optional_word,
    read_word,
)
from integrity.errors import ConfigError
from integrity.kinds import CONTENT_FINDINGS, DAMAGE, INODE_FINDINGS
from integrity.model import (
    ByteRange,
    Certainty,
    FileId,
    Finding,
    FindingId,
    FindingKind,
    FindingState,
    RootId,
    RunId,
    SeenVersion,
)
from integrity.paths import absolute, shell_path

INCIDENT = "coalesce(finding.incident, finding.id)"  # id of the incident that a finding belongs to

IS_FIRST = """
(finding.incident IS NULL OR NOT EXISTS (
    SELECT 1 FROM finding AS earlier
    WHERE earlier.id = finding.incident AND earlier.id < finding.id AND earlier.state != 'resolved'
    UNION ALL SELECT 1 FROM finding AS earlier
    WHERE earlier.incident = finding.incident AND earlier.id < finding.id AND earlier.state != 'resolved'))"""
"""Whether an unresolved finding is the first of its incident."""

_PLACE = "\x1a"
"""Stands in a stored command for the path that its finding is about, which may be moved, alone or with its root. No
quoted word has it."""

_COLUMNS = """
    finding.id, finding.kind, finding.state, root.path, finding.path, finding.message, finding.opened_at,
    finding.updated_at, finding.certainty, finding.blocks, finding.block_size_bytes, finding.ranges,
    finding.confirmed_reads, finding.resolved_at, finding.resolution, finding.muted_until, finding.copy, finding.step,
    finding.command, finding.opened_by, finding.incident, finding.versions"""  # in the order of Finding's fields
_FROM = "FROM finding JOIN root ON root.id = finding.root_id"
_HOLDS = f"""
EXISTS (
    SELECT 1 FROM finding
    WHERE finding.file_id = file.id AND finding.kind IN ({quoted(CONTENT_FINDINGS)}) AND finding.state != 'resolved')"""
# With an OR in place of these UNIONs, SQLite would scan all findings: it does not use the partial index there.
_OF_INCIDENTS = """
id IN (
    SELECT value FROM json_each(?1) UNION
    SELECT finding.id FROM json_each(?1) JOIN finding ON finding.incident = value AND finding.state != 'resolved')"""


def as_incidents(c: Connection, found: Iterable[Finding]) -> list[Finding]:
    """Keep the first finding of each incident, and add the other names of the file that its open findings name."""
    first: dict[FindingId, Finding] = {}
    for one in found:
        first.setdefault(one.incident_id, one)
    names: dict[FindingId, list[bytes]] = {}
    for number, path in c.rows(
        f"SELECT {INCIDENT}, path FROM finding WHERE {_OF_INCIDENTS} AND state != 'resolved' ORDER BY id",
        numbers(first),
    ):
        if path != (first[number].path or b""):
            names.setdefault(number, []).append(path)
    return [one._replace(names=tuple(names.get(number, ()))) for number, one in first.items()]


class NewFinding(NamedTuple):
    """A finding to open."""

    kind: FindingKind
    root_id: RootId
    file_id: FileId | None
    path: bytes | None  # relative to the root; None: it is about the root
    message: str
    certainty: Certainty | None = None
    blocks: tuple[int, ...] = ()
    block_size_bytes: int | None = None
    ranges: tuple[ByteRange, ...] = ()
    confirmed_reads: int = 0
    copy: str | None = None  # name of the copy, if the finding is about one
    step: str | None = None  # what to do next; None: the default of its kind
    command: str | None = None  # command for the step


def open_finding(c: Connection, new: NewFinding, *, now: int, run_id: RunId | None) -> tuple[Finding, bool]:
    """Open a finding, or update the unresolved one with the same key; return it, and whether it is new."""
    key = new.root_id, new.kind, new.path or b"", new.copy or ""
    damage = new.certainty, json.dumps(new.blocks), json.dumps(new.ranges)
    step, command = new.step, new.command
    if command is not None:
        command = _store_command(command, c.value("SELECT path FROM root WHERE id = ?", new.root_id), new.path)
    shared: Sequence[Value] = None, FindingState.OPEN, None  # incident, state, muted_until
    query = """
        SELECT id, step, command, certainty, blocks, ranges, incident, state, muted_until FROM finding
        WHERE root_id = ? AND kind = ? AND path = ? AND copy = ? AND state != 'resolved'"""
    old = c.row(query, *key)
    if old is not None:
        if new.step is None:  # keep the step that another job stored
            step, command = old[1:3]
        if old[3:6] == damage:
            shared = old[6:]
    if new.kind in INODE_FINDINGS and new.file_id is not None and new.copy is None:
        of_inode = _find_of_inode(c, new.file_id, new.kind, damage)
        if of_inode is not None and (old is None or of_inode[0] != old[0]):
            shared = of_inode
    values = (
        *(*shared, *damage, new.file_id, new.block_size_bytes, new.confirmed_reads, new.message),
        *(step, command, now, run_id),
    )
    if old is None:
        query = """
            INSERT INTO finding (root_id, kind, path, copy, incident, state, muted_until, certainty, blocks, ranges,
                file_id, block_size_bytes, confirmed_reads, message, step, command, updated_at, run_id, opened_at,
                opened_by)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
        finding_id = c.insert(query, *key, *values, now, run_id)
    else:
        finding_id = old[0]
        if old[3:6] != damage:
            c.run("UPDATE finding SET incident = NULL WHERE incident = ? AND state != 'resolved'", finding_id)
        query = """
            UPDATE finding
            SET incident = ?, state = ?, muted_until = ?, certainty = ?, blocks = ?, ranges = ?, file_id = ?,
                block_size_bytes = ?, confirmed_reads = ?, message = ?, step = ?, command = ?, updated_at = ?,
                run_id = ?
            WHERE id = ?"""
        c.run(query, *values, finding_id)
    if new.file_id is not None and new.kind in CONTENT_FINDINGS:
        c.run("UPDATE file SET is_frozen = 1 WHERE id = ?", new.file_id)
    return get_finding(c, FindingId(finding_id)), old is None


def _find_of_inode(
    c: Connection, file_id: FileId, kind: FindingKind, damage: tuple[Value, ...]
) -> tuple[Value, ...] | None:
    """Return what findings share that say the same of another name of the inode: incident, state, and muted_until."""
    # Without a condition on the root: with one, SQLite would scan all findings of the root.
    # In the order of the index on inodes: the search ends at the first match.
    query = f"""
        SELECT {INCIDENT}, finding.state, finding.muted_until FROM file AS mine
        JOIN file AS other ON other.inode = mine.inode AND other.size_bytes = mine.size_bytes
            AND other.mtime_ns = mine.mtime_ns AND other.ctime_ns = mine.ctime_ns
        JOIN finding ON finding.file_id = other.id
        WHERE mine.id = ? AND other.id != mine.id AND finding.state != 'resolved' AND finding.copy = ''
            AND finding.kind = ? AND finding.certainty IS ? AND finding.blocks = ? AND finding.ranges = ?
        ORDER BY other.id LIMIT 1"""
    return c.row(query, file_id, kind, *damage)


_LARGEST_ID = (1 << 63) - 1  # what SQLite can store; a person may type more


def get_finding(c: Connection, finding_id: FindingId) -> Finding:
    """Return one finding, or raise ConfigError if there is none with this id, which a person typed."""
    found = _find(c, "finding.id = ?", finding_id) if finding_id <= _LARGEST_ID else []
    if not found:
        raise ConfigError(f"finding {finding_id}: there is none; `{program.command('findings --all')}` lists them")
    return found[0]


def get_findings(c: Connection, ids: Iterable[FindingId]) -> list[Finding]:
    """Return findings by id, without those that do not exist."""
    return _find(c, "finding.id IN (SELECT value FROM json_each(?))", numbers(ids))


def find_findings(
    c: Connection,
    *,
    root_id: RootId | None = None,
    prefix: bytes = b"",
    include_resolved: bool = False,
    file_id: FileId | None = None,
    since: int | None = None,
    copy: str | None = None,
) -> list[Finding]:
    """
    Return findings in the order of their ids.

    Args:
        prefix: only findings at or below this path.
        include_resolved: also return resolved ones.
        since: only findings that a job opened, repeated, or resolved at or after this time.
        copy: only findings about the copy of this name; empty: only findings about no copy; None: both.
    """
    state = "1" if include_resolved else "finding.state != 'resolved'"
    is_below, bounds = below("finding.path", prefix)
    rest, values = given(
        {
            "finding.root_id = ?": root_id,
            "finding.file_id = ?": file_id,
            "finding.updated_at >= ?": since,
            "finding.copy = ?": copy,
        }
    )
    return _find(c, f"{state} AND {is_below} AND {rest}", *bounds, *values)


def page_incidents(
    c: Connection,
    *,
    before: FindingId | None,
    limit: int,
    root_id: RootId | None = None,
    kind: FindingKind | None = None,
    copy: str | None = None,
    include_resolved: bool = False,
) -> list[Finding]:
    """Return a page of incidents, newest first, from ``before`` on, each by its first finding with all names."""
    is_first = "finding.incident IS NULL" if include_resolved else f"finding.state != 'resolved' AND {IS_FIRST}"
    rest, values = given(
        {"finding.id < ?": before, "finding.root_id = ?": root_id, "finding.kind = ?": kind, "finding.copy = ?": copy}
    )
    query = f"SELECT {_COLUMNS} {_FROM} WHERE {is_first} AND {rest} ORDER BY finding.id DESC LIMIT ?"
    return as_incidents(c, c.all(_to_finding, query, *values, limit))


def count_incidents(c: Connection, root_id: RootId | None = None) -> dict[tuple[RootId, FindingKind, str], int]:
    """Return the number of open incidents, of one root or of all, by root, kind, and copy (empty: about no copy)."""
    is_of_root, values = given({"root_id = ?": root_id})
    query = f"""
        SELECT root_id, kind, copy, count(*) FROM finding WHERE state != 'resolved' AND {IS_FIRST} AND {is_of_root}
        GROUP BY root_id, kind, copy ORDER BY root_id, kind, copy"""
    rows = c.rows(query, *values)
    return {(root_id, read_word(FindingKind, kind), copy): number for root_id, kind, copy, number in rows}


def find_unreachable_copies(c: Connection) -> dict[tuple[RootId, str], int]:
    """Return the copies that can't be reached as a whole, by root and name, and when that was first noticed."""
    query = """
        SELECT root_id, copy, min(opened_at) FROM finding
        WHERE kind = 'copy_unreadable' AND path = x'' AND state != 'resolved' GROUP BY root_id, copy"""
    return {(root_id, copy): opened_at for root_id, copy, opened_at in c.rows(query)}


def count_told_twice(c: Connection, root_id: RootId) -> int:
    """Count the open incidents of damage whose file has one of a graver kind of damage: it is one damaged file."""
    pairs = ", ".join(f"('{kind}', '{graver}')" for graver, kind in combinations(DAMAGE, 2))
    query = f"""
        SELECT count(*) FROM finding
        WHERE root_id = ? AND kind IN ({quoted(DAMAGE)}) AND copy = '' AND state != 'resolved' AND {IS_FIRST}
            AND EXISTS (
                SELECT 1 FROM finding AS graver
                WHERE graver.root_id = finding.root_id AND graver.kind IN ({quoted(DAMAGE)})
                    AND graver.path = finding.path AND graver.copy = '' AND graver.state != 'resolved'
                    AND (finding.kind, graver.kind) IN (VALUES {pairs}))"""
    return c.value(query, root_id)


class IncidentSpan(NamedTuple):
    """Incidents of a kind that opened, and were resolved, at the same times: seconds UTC; None: they are open."""

    kind: FindingKind
    opened_at: int
    resolved_at: int | None
    number: int


def find_incident_spans(c: Connection, since: int, root_id: RootId | None = None) -> list[IncidentSpan]:
    """Return the incidents that were open at any time since a time, by kind and times, in the order of opening."""
    is_of_root, values = given({"root_id = ?": root_id})
    query = f"""
        SELECT kind, opened_at, resolved_at, count(*) FROM finding
        WHERE incident IS NULL AND (state != 'resolved' OR resolved_at >= ?) AND {is_of_root}
        GROUP BY kind, opened_at, resolved_at ORDER BY opened_at, kind"""
    rows = c.rows(query, since, *values)
    return [IncidentSpan(read_word(FindingKind, kind), *rest) for kind, *rest in rows]


def find_findings_at(c: Connection, root_id: RootId, path: bytes, *, copy: str | None = None) -> list[Finding]:
    """Return the unresolved findings of one path in the order of their ids; ``copy``: as in ``find_findings``."""
    # Lists all kinds, because the index of unresolved findings begins with root and kind: else SQLite scans the root.
    here = "finding.state != 'resolved' AND finding.root_id = ? AND finding.path = ?"
    of_copy, values = given({"finding.copy = ?": copy})
    return _find(c, f"{here} AND finding.kind IN ({quoted(FindingKind)}) AND {of_copy}", root_id, path, *values)


def find_unconfirmed(c: Connection, root_id: RootId, prefix: bytes, kind: FindingKind, run_id: RunId) -> list[Finding]:
    """Return unresolved findings of a kind below a path that a run did not repeat; none about recorded files."""
    is_below, bounds = below("finding.path", prefix)
    mine = "finding.root_id = ? AND finding.kind = ? AND finding.state != 'resolved' AND finding.file_id IS NULL"
    return _find(c, f"{mine} AND finding.run_id IS NOT ? AND {is_below}", root_id, kind, run_id, *bounds)


def find_open_of_files(c: Connection, ids: Iterable[FileId]) -> dict[FileId, list[Finding]]:
    """Return the unresolved findings of each file and of its copies; files without one are left out."""
    found: dict[FileId, list[Finding]] = {}
    query = f"""
        SELECT finding.file_id, {_COLUMNS} {_FROM}
        WHERE finding.file_id IN (SELECT value FROM json_each(?)) AND finding.state != 'resolved' ORDER BY finding.id"""
    for file_id, *columns in c.rows(query, numbers(ids)):
        found.setdefault(FileId(file_id), []).append(_to_finding(*columns))
    return found


def find_with_findings(c: Connection, ids: Iterable[FileId]) -> list[FileId]:
    """Return those of the files that ever had a finding."""
    return c.column(
        "SELECT DISTINCT file_id FROM finding WHERE file_id IN (SELECT value FROM json_each(?))", numbers(ids)
    )


def find_files_with(c: Connection, root_id: RootId, kind: FindingKind) -> set[FileId]:
    """Return the files of a root with an unresolved finding of a kind, not counting findings about copies."""
    query = """
        SELECT file_id FROM finding
        WHERE root_id = ? AND kind = ? AND copy = '' AND state != 'resolved' AND file_id IS NOT NULL"""
    return set(c.column(query, root_id, kind))


def count_open(c: Connection, root_id: RootId | None = None) -> int:
    """Count unresolved incidents, including acknowledged and muted ones, whose problem still exists."""
    is_of_root, values = given({"root_id = ?": root_id})
    query = f"SELECT count(DISTINCT {INCIDENT}) FROM finding WHERE state != 'resolved' AND {is_of_root}"
    return c.value(query, *values)


def count_files(c: Connection, file_ids: Collection[FileId], kinds: Collection[FindingKind]) -> int:
    """Count those of the files that have an unresolved finding of these kinds."""
    query = f"""
        SELECT count(DISTINCT file_id) FROM finding
        WHERE file_id IN (SELECT value FROM json_each(?)) AND kind IN ({quoted(kinds)}) AND state != 'resolved'"""
    return c.value(query, numbers(file_ids))


def has_open(c: Connection, root_id: RootId, kind: FindingKind) -> bool:
    """Return whether a root has an unresolved finding of this kind, not counting findings about copies."""
    query = "SELECT 1 FROM finding WHERE root_id = ? AND kind = ? AND copy = '' AND state != 'resolved' LIMIT 1"
    return c.row(query, root_id, kind) is not None


def resolve_findings(
    c: Connection,
    *,
    file_id: FileId | None = None,
    root_id: RootId | None = None,
    kinds: Collection[FindingKind] | None = None,
    copy: str | None = None,
    resolution: str,
    now: int,
) -> list[Finding]:
    """Resolve findings (``kinds``, ``copy``: only these), unfreeze baselines without any left (R6); return them."""
    if file_id is None and root_id is None:
        raise ValueError("name a file or a root whose findings are to be resolved")
    matching, values = given({"file_id = ?": file_id, "root_id = ?": root_id, "copy = ?": copy})
    return _resolve(c, resolution, now, f"{matching} AND {_of_kinds(kinds)}", *values)


def find_unresolved(
    c: Connection, root_id: RootId, *, kinds: Collection[FindingKind] | None = None, copy: str | None = None
) -> list[FindingId]:
    """Return the ids that ``resolve_findings`` would resolve in a root, for callers that resolve in pages."""
    matching, values = given({"root_id = ?": root_id, "copy = ?": copy})
    return c.column(f"SELECT id FROM finding WHERE state != 'resolved' AND {matching} AND {_of_kinds(kinds)}", *values)


def _of_kinds(kinds: Collection[FindingKind] | None) -> str:
    return "1" if kinds is None else f"kind IN ({quoted(kinds)})"


def resolve_ids(c: Connection, ids: Iterable[FindingId], *, resolution: str, now: int) -> list[Finding]:
    """Resolve findings by id; return those that were unresolved."""
    return _resolve(c, resolution, now, "id IN (SELECT value FROM json_each(?))", numbers(ids))


def resolve_of_files(c: Connection, ids: Sequence[FileId], resolution: str, now: int) -> None:
    """Resolve all findings of files that leave the catalog."""
    _resolve(c, resolution, now, "file_id IN (SELECT value FROM json_each(?))", numbers(ids))


def silence(c: Connection, ids: Iterable[FindingId], until: int | None = None) -> None:
    """
    Stop reminders for unresolved findings, and all others of their incidents, until a time; None: until they change.

    ``updated_at`` stays: repair uses it as the time until which the file is known to have the judged content.
    """
    some = f"SELECT DISTINCT {INCIDENT} FROM finding WHERE id IN (SELECT value FROM json_each(?))"
    state = FindingState.ACKNOWLEDGED if until is None else FindingState.MUTED
    query = f"UPDATE finding SET state = ?2, muted_until = ?3 WHERE {_OF_INCIDENTS} AND state != 'resolved'"
    c.run(query, numbers(c.column(some, numbers(ids))), state, until)


def move_findings(c: Connection, file_id: FileId, to_root_id: RootId, to_path: bytes, now: int) -> None:
    """Move a file's findings to its new path; resolve unresolved findings about the file that was there before."""
    in_the_way = """
        root_id = ? AND path = ? AND file_id IS NOT ?
            AND kind IN (SELECT kind FROM finding WHERE file_id = ? AND state != 'resolved')"""
    _resolve(c, "another file was moved to this path", now, in_the_way, to_root_id, to_path, file_id, file_id)
    put_findings_aside(c, file_id, to_path)


def rename_copy(c: Connection, ids: Iterable[FindingId], to_name: str, now: int) -> None:
    """Move unresolved findings about a copy to its new name; resolve those that are already open under that name."""
    ids = list(ids)
    query = """
        UPDATE finding SET copy = ?1
        WHERE id IN (SELECT value FROM json_each(?2)) AND copy != ?1 AND state != 'resolved' AND NOT EXISTS (
            SELECT 1 FROM finding AS other
            WHERE other.root_id = finding.root_id AND other.kind = finding.kind AND other.path = finding.path
                AND other.copy = ?1 AND other.state != 'resolved')"""
    c.run(query, to_name, numbers(ids))
    left = "id IN (SELECT value FROM json_each(?)) AND copy != ?"
    _resolve(c, f"continued as the finding about its name {to_name}", now, left, numbers(ids), to_name)


def put_findings_aside(c: Connection, file_id: FileId, path: bytes) -> None:
    """Change the path of a file's findings, so that they do not collide with those of the file that takes its place."""
    c.run("UPDATE finding SET path = ? WHERE file_id = ?", path, file_id)


def set_step(c: Connection, ids: Iterable[FindingId], step: str | None, command: str | None) -> None:
    """Store the recommended step of findings when it differs from the default of their kind; None: the default."""
    for one in get_findings(c, ids):
        stored = None if command is None else _store_command(command, one.root, one.path)
        c.run("UPDATE finding SET step = ?, command = ? WHERE id = ? AND state != 'resolved'", step, stored, one.id)


def set_versions(c: Connection, finding_id: FindingId, versions: Iterable[SeenVersion]) -> None:
    """Store what versions of backups have of the file that a finding is about."""
    c.run("UPDATE finding SET versions = ? WHERE id = ?", json.dumps(list(versions)), finding_id)


def find_unlooked(
    c: Connection, kinds: Iterable[FindingKind], root_id: RootId | None, *, unless: str, but: str, most: int
) -> list[Finding]:
    """
    Return open findings about files with which no versions of backups are stored.

    Args:
        root_id: only findings of this root; None: of all.
        unless: how the command of a finding begins that needs none.
        but: how it ends if it needs them nevertheless.
        most: return so many at most.
    """
    is_of_root, values = given({"finding.root_id = ?": root_id})
    of_files = f"finding.state != 'resolved' AND finding.kind IN ({quoted(kinds)}) AND finding.copy = ''"
    has_none = "coalesce(finding.command, '') NOT GLOB ? OR finding.command GLOB ?"
    needs = f"finding.versions IS NULL AND ({has_none})"
    return _find(c, f"{of_files} AND {needs} AND {is_of_root}", f"{unless} *", f"* {but}", *values, limit=most)


def find_misfrozen(c: Connection) -> Iterator[FileId]:
    """Yield the files whose ``is_frozen`` does not match their findings (R6)."""
    return (FileId(file_id) for (file_id,) in c.rows(f"SELECT id FROM file WHERE is_frozen != {_HOLDS}"))


def refreeze(c: Connection) -> None:
    """Let ``is_frozen`` of all files match their findings, some of which were lost."""
    c.run(f"UPDATE file SET is_frozen = NOT is_frozen WHERE is_frozen != {_HOLDS}")


def _resolve(c: Connection, resolution: str, now: int, condition: str, *values: Value) -> list[Finding]:
    """Resolve the unresolved findings that match a condition, and return them."""
    query = f"""
        UPDATE finding SET state = 'resolved', resolution = ?, resolved_at = ?, updated_at = ?, muted_until = NULL
        WHERE state != 'resolved' AND {condition} RETURNING id, file_id, kind"""
    rows = list(c.rows(query, resolution, now, now, *values))
    held = {file_id for _, file_id, kind in rows if file_id is not None and kind in CONTENT_FINDINGS}
    c.run(f"UPDATE file SET is_frozen = 0 WHERE id IN (SELECT value FROM json_each(?)) AND NOT {_HOLDS}", numbers(held))
    return get_findings(c, [finding_id for finding_id, _, _ in rows])


def _store_command(command: str, root_path: bytes, path: bytes | None) -> str:
    word = re.escape(shell_path(absolute(root_path, path)))
    return re.sub(rf"(?<!\S){word}(?!\S)", _PLACE, command)


def _find(c: Connection, condition: str, *values: Value, limit: int = -1) -> list[Finding]:
    query = f"SELECT {_COLUMNS} {_FROM} WHERE {condition} ORDER BY finding.id LIMIT ?"
    return c.all(_to_finding, query, *values, limit)


def _to_finding(*columns: Any) -> Finding:
    stored: Any = Finding(*columns)
    found: Finding = stored._replace(
        kind=read_word(FindingKind, stored.kind),
        state=read_word(FindingState, stored.state),
        path=stored.path or None,
        certainty=read_optional_word(Certainty, stored.certainty),
        blocks=read_numbers(stored.blocks),
        ranges=tuple((offset, length) for offset, length in json.loads(stored.ranges)),
        copy=stored.copy or None,
        versions=stored.versions and tuple(SeenVersion(*values) for values in json.loads(stored.versions)),
        command=stored.command and stored.command.replace(_PLACE, shell_path(absolute(stored.root, stored.path))),
    )
    return found
