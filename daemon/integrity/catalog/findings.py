"""
Findings: problems that are reported to the user, from opening to resolution; and incidents, which group them.

An unresolved finding with the same root, kind, path, and copy is updated, not repeated. A finding on a file's content
freezes its baseline until it is resolved (R6). A file with several names has one finding for each name, because names
can diverge. Findings that report the same problem of one inode share the id of the first as their incident; any other
finding is an incident by itself. Users are notified of incidents.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity import program
from integrity.catalog.compiled_sql import CompiledStatement
from integrity.catalog.rows import below, chunked, read_numbers, read_optional_word, read_ranges, read_word
from integrity.catalog.schema import file, finding, root
from integrity.errors import ConfigError
from integrity.kinds import CONTENT_FINDINGS, INODE_FINDINGS
from integrity.model import ByteRange, Certainty, FileId, Finding, FindingId, FindingKind, FindingState, RootId, RunId
from integrity.paths import absolute, shell_path

RESOLVED: sa.ColumnElement[str] = sa.literal_column("'resolved'")  # must match the text of the partial index
UNRESOLVED = finding.c.state != RESOLVED
INCIDENT = sa.func.coalesce(finding.c.incident, finding.c.id)
"""Id of the incident that a finding belongs to."""

DAMAGE = ("certainty", "blocks", "ranges")
"""Columns that describe the damage and its certainty."""

_PLACE = "\x1a"
"""Stands in a stored command for the path that its finding is about, which may be moved, alone or with its root. No
quoted word has it."""

_SAME = ("kind", "copy", *DAMAGE)
_SHARED = ("incident", "state", "muted_until")
_MINE, _OTHER = file.alias("mine"), file.alias("other")
# Without a condition on the root: with one, SQLite would scan all findings of the root.
_SAME_OF_INODE = CompiledStatement(
    sa.select(INCIDENT, finding.c.state, finding.c.muted_until)
    .select_from(_MINE)
    .join(_OTHER, sa.and_(*(_MINE.c[one] == _OTHER.c[one] for one in ("inode", "size_bytes", "mtime_ns", "ctime_ns"))))
    .join(finding, finding.c.file_id == _OTHER.c.id)
    .where(_MINE.c.id == sa.bindparam("file_id"), _OTHER.c.id != _MINE.c.id, UNRESOLVED)
    .where(*(finding.c[one].is_not_distinct_from(sa.bindparam(one)) for one in _SAME))
    .order_by(_OTHER.c.id)  # the order of the index: the search ends at the first match
    .limit(sa.literal_column("1")),
    "file_id",
    *_SAME,
)


def find_incident(
    c: sa.Connection, file_id: FileId, values: Mapping[str, Any], finding_id: int | None
) -> dict[str, Any]:
    """
    Find an incident about the same inode that a finding belongs to.

    Args:
        c: a connection.
        file_id: the file that the finding is about.
        values: column values of the finding.
        finding_id: its id, if it is stored.

    Returns:
        The columns that findings of the incident share; empty if there is no such incident.
    """
    row = _SAME_OF_INODE.run(c, file_id, *(values[name] for name in _SAME)).fetchone()
    return {} if row is None or row[0] == finding_id else dict(zip(_SHARED, row, strict=True))


def as_incidents(c: sa.Connection, found: Iterable[Finding]) -> list[Finding]:
    """Keep the first finding of each incident, and add the other names of the file that its open findings name."""
    first: dict[FindingId, Finding] = {}
    for one in found:
        first.setdefault(one.incident_id, one)
    names: dict[FindingId, list[bytes]] = {}
    query = sa.select(INCIDENT, finding.c.path).where(UNRESOLVED).order_by(finding.c.id)
    for chunk in chunked(first):
        for number, path in c.execute(query.where(in_incidents(chunk))):
            if path != (first[number].path or b""):
                names.setdefault(number, []).append(path)
    return [replace(one, names=tuple(names.get(number, ()))) for number, one in first.items()]


def in_incidents(numbers: Collection[int]) -> sa.ColumnElement[bool]:
    """Match the findings of these incidents."""
    return sa.or_(finding.c.id.in_(numbers), finding.c.incident.in_(numbers))


def of_incident(number: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """Match the findings of the incident in a column; each part of the OR uses an index."""
    return sa.or_(finding.c.id == number, finding.c.incident == number)


def is_first_of_incident() -> sa.ColumnElement[bool]:
    """Match the first unresolved finding of each incident."""
    other = finding.alias()
    is_earlier = other.c.id < finding.c.id, other.c.state != RESOLVED
    of_same = sa.or_(other.c.id == finding.c.incident, other.c.incident == finding.c.incident)
    return sa.or_(finding.c.incident.is_(None), ~sa.exists().where(of_same, *is_earlier))


_CONTENT_KINDS = sorted(kind.value for kind in CONTENT_FINDINGS)
_ALL_KINDS = sorted(kind.value for kind in FindingKind)
_HOLDS = sa.exists().where(finding.c.file_id == file.c.id, finding.c.kind.in_(_CONTENT_KINDS), UNRESOLVED)
_KEY = ("root_id", "kind", "path", "copy")
_OPENED_BEFORE = sa.select(finding).where(*(finding.c[one] == sa.bindparam(f"new_{one}") for one in _KEY), UNRESOLVED)
_QUERY = sa.select(finding, root.c.path.label("root_path")).join(root, finding.c.root_id == root.c.id)
_ROOT_PATH = sa.select(root.c.path).where(root.c.id == sa.bindparam("root_id"))
_BY_ID = _QUERY.where(finding.c.id == sa.bindparam("finding_id"))


@dataclass(frozen=True, slots=True)
class NewFinding:
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


def open_finding(c: sa.Connection, new: NewFinding, *, now: int, run_id: RunId | None) -> tuple[Finding, bool]:
    """
    Open a finding, or update the unresolved one with the same key.

    If the damage or its certainty changed, an acknowledged or muted finding becomes open again.

    Returns:
        The stored finding, and whether it is new.
    """
    values = {**_values(new), "updated_at": now, "run_id": run_id}
    if new.command is not None:
        root_path = c.execute(_ROOT_PATH, {"root_id": new.root_id}).scalar_one()
        values["command"] = _store_command(new.command, root_path, new.path)
    old = c.execute(_OPENED_BEFORE, {f"new_{name}": values[name] for name in _KEY}).one_or_none()
    if new.kind in INODE_FINDINGS and new.file_id is not None and new.copy is None:
        values |= find_incident(c, new.file_id, values, None if old is None else old.id)
    if old is None:
        values = {"state": FindingState.OPEN.value, "opened_at": now, "opened_by": run_id} | values
        key = c.execute(sa.insert(finding).values(**values)).inserted_primary_key
        assert key is not None
        finding_id = key[0]
    else:
        finding_id = old.id
        if new.step is None:  # keep the step that another job stored
            del values["step"], values["command"]
        if any(getattr(old, name) != values[name] for name in DAMAGE):
            values = {"state": FindingState.OPEN.value, "muted_until": None, "incident": None} | values
            c.execute(sa.update(finding).where(finding.c.incident == old.id, UNRESOLVED).values(incident=None))
        c.execute(sa.update(finding).where(finding.c.id == finding_id).values(**values))
    if new.file_id is not None and new.kind in CONTENT_FINDINGS:
        c.execute(sa.update(file).where(file.c.id == new.file_id).values(is_frozen=1))
    return get_finding(c, FindingId(finding_id)), old is None


_LARGEST_ID = (1 << 63) - 1  # what SQLite can store; a person may type more


def get_finding(c: sa.Connection, finding_id: FindingId) -> Finding:
    """
    Return one finding.

    Raises:
        ConfigError: there is no finding with this id, which a person typed.
    """
    row = c.execute(_BY_ID, {"finding_id": finding_id}).one_or_none() if finding_id <= _LARGEST_ID else None
    if row is None:
        raise ConfigError(f"finding {finding_id}: there is none; `{program.command('findings --all')}` lists them")
    return _to_finding(row)


def get_findings(c: sa.Connection, ids: Iterable[FindingId]) -> list[Finding]:
    """Return findings by id, without those that do not exist."""
    rows = (c.execute(_QUERY.where(finding.c.id.in_(chunk)).order_by(finding.c.id)) for chunk in chunked(ids))
    return [_to_finding(row) for part in rows for row in part]


def find_findings(
    c: sa.Connection,
    *,
    root_id: RootId | None = None,
    prefix: bytes = b"",
    include_resolved: bool = False,
    since: int | None = None,
    copy: str | None = None,
) -> list[Finding]:
    """
    Return findings in the order of their ids.

    Args:
        c: a connection.
        root_id: only findings of this root.
        prefix: only findings at or below this path.
        include_resolved: also return resolved ones.
        since: only findings that a job opened, repeated, or resolved at or after this time.
        copy: only findings about the copy of this name; empty: only findings about no copy; None: both.
    """
    query = _QUERY.where(below(finding.c.path, prefix)).order_by(finding.c.id)
    if root_id is not None:
        query = query.where(finding.c.root_id == root_id)
    if not include_resolved:
        query = query.where(UNRESOLVED)
    if since is not None:
        query = query.where(finding.c.updated_at >= since)
    if copy is not None:
        query = query.where(finding.c.copy == copy)
    return [_to_finding(row) for row in c.execute(query)]


def page_incidents(
    c: sa.Connection,
    *,
    before: FindingId | None,
    limit: int,
    root_id: RootId | None = None,
    kind: FindingKind | None = None,
    copy: str | None = None,
    include_resolved: bool = False,
) -> list[Finding]:
    """
    Return the first finding of each incident, the newest first, with the other names of its file.

    Args:
        c: a connection.
        before: only findings with a smaller id: where the page before ended; None: from the newest on.
        limit: at most this many.
        root_id: only findings of this root.
        kind: only findings of this kind.
        copy: only findings about the copy of this name; empty: only findings about no copy; None: both.
        include_resolved: also return resolved ones.
    """
    is_first = finding.c.id == INCIDENT if include_resolved else sa.and_(UNRESOLVED, is_first_of_incident())
    query = _QUERY.where(is_first).order_by(finding.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(finding.c.id < before)
    if root_id is not None:
        query = query.where(finding.c.root_id == root_id)
    if kind is not None:
        query = query.where(finding.c.kind == kind.value)
    if copy is not None:
        query = query.where(finding.c.copy == copy)
    return as_incidents(c, (_to_finding(row) for row in c.execute(query)))


def count_incidents(c: sa.Connection, root_id: RootId | None = None) -> dict[tuple[RootId, FindingKind, str], int]:
    """Return the number of open incidents, of one root or of all, by root, kind, and copy (empty: about no copy)."""
    key = (finding.c.root_id, finding.c.kind, finding.c.copy)
    query = sa.select(*key, sa.func.count()).where(UNRESOLVED, is_first_of_incident()).group_by(*key).order_by(*key)
    if root_id is not None:
        query = query.where(finding.c.root_id == root_id)
    return {(row[0], read_word(FindingKind, row[1]), row[2]): int(row[3]) for row in c.execute(query)}


class IncidentSpan(NamedTuple):
    """Incidents of a kind that opened, and were resolved, at the same times: seconds UTC; None: they are open."""

    kind: FindingKind
    opened_at: int
    resolved_at: int | None
    number: int


def find_incident_spans(c: sa.Connection, since: int, root_id: RootId | None = None) -> list[IncidentSpan]:
    """Return the incidents that were open at any time since a time, by kind and times, in the order of opening."""
    key = (finding.c.kind, finding.c.opened_at, finding.c.resolved_at)
    was_open = sa.or_(UNRESOLVED, finding.c.resolved_at >= since)
    query = sa.select(*key, sa.func.count()).where(finding.c.id == INCIDENT, was_open).group_by(*key)
    if root_id is not None:
        query = query.where(finding.c.root_id == root_id)
    rows = c.execute(query.order_by(finding.c.opened_at, finding.c.kind))
    return [
        IncidentSpan(read_word(FindingKind, kind), opened, resolved, number) for kind, opened, resolved, number in rows
    ]


def find_findings_at(c: sa.Connection, root_id: RootId, path: bytes, *, copy: str | None = None) -> list[Finding]:
    """Return the unresolved findings of one path in the order of their ids; ``copy``: as in ``find_findings``."""
    # Lists all kinds, because the index of unresolved findings begins with root and kind: else SQLite scans the root.
    here = finding.c.root_id == root_id, finding.c.kind.in_(_ALL_KINDS), finding.c.path == path, UNRESOLVED
    query = _QUERY.where(*here).order_by(finding.c.id)
    if copy is not None:
        query = query.where(finding.c.copy == copy)
    return [_to_finding(row) for row in c.execute(query)]


def find_unconfirmed(
    c: sa.Connection, root_id: RootId, prefix: bytes, kind: FindingKind, run_id: RunId
) -> list[Finding]:
    """Return unresolved findings of a kind below a path that a run did not repeat; none about recorded files."""
    mine = finding.c.root_id == root_id, finding.c.kind == kind.value, below(finding.c.path, prefix)
    query = _QUERY.where(*mine, UNRESOLVED, finding.c.file_id.is_(None), finding.c.run_id.is_distinct_from(run_id))
    return [_to_finding(row) for row in c.execute(query.order_by(finding.c.id))]


def find_file_findings(c: sa.Connection, file_id: FileId) -> list[Finding]:
    """Return all findings of a file, resolved or not, in the order of their ids."""
    query = _QUERY.where(finding.c.file_id == file_id).order_by(finding.c.id)
    return [_to_finding(row) for row in c.execute(query)]


def find_open_of_files(c: sa.Connection, ids: Iterable[FileId]) -> dict[FileId, list[Finding]]:
    """Return the unresolved findings of each file and of its copies; files without one are left out."""
    found: dict[FileId, list[Finding]] = {}
    for chunk in chunked(ids):
        for row in c.execute(_QUERY.where(finding.c.file_id.in_(chunk), UNRESOLVED).order_by(finding.c.id)):
            found.setdefault(FileId(row.file_id), []).append(_to_finding(row))
    return found


def find_with_findings(c: sa.Connection, ids: Iterable[FileId]) -> list[FileId]:
    """Return those of the files that ever had a finding."""
    queries = (sa.select(finding.c.file_id).where(finding.c.file_id.in_(chunk)).distinct() for chunk in chunked(ids))
    return [FileId(file_id) for query in queries for file_id in c.execute(query).scalars()]


def find_files_with(c: sa.Connection, root_id: RootId, kind: FindingKind) -> set[FileId]:
    """Return the files of a root with an unresolved finding of a kind, not counting findings about copies."""
    mine = finding.c.root_id == root_id, finding.c.kind == kind.value, finding.c.copy == "", UNRESOLVED
    ids = c.execute(sa.select(finding.c.file_id).where(*mine, finding.c.file_id.is_not(None)))
    return {FileId(one) for one in ids.scalars()}


def count_open(c: sa.Connection, root_id: RootId | None = None) -> int:
    """Count unresolved incidents, including acknowledged and muted ones, whose problem still exists."""
    query = sa.select(sa.func.count(INCIDENT.distinct())).where(UNRESOLVED)
    if root_id is not None:
        query = query.where(finding.c.root_id == root_id)
    return int(c.execute(query).scalar_one())


def count_files(c: sa.Connection, file_ids: Collection[FileId], kinds: Collection[FindingKind]) -> int:
    """Count those of the files that have an unresolved finding of these kinds."""
    found = 0
    for ids in chunked(file_ids):
        mine = finding.c.file_id.in_(ids), finding.c.kind.in_([kind.value for kind in kinds]), UNRESOLVED
        found += int(c.execute(sa.select(sa.func.count(finding.c.file_id.distinct())).where(*mine)).scalar_one())
    return found


def has_open(c: sa.Connection, root_id: RootId, kind: FindingKind) -> bool:
    """Return whether a root has an unresolved finding of this kind, not counting findings about copies."""
    mine = finding.c.root_id == root_id, finding.c.kind == kind.value, finding.c.copy == "", UNRESOLVED
    return bool(c.execute(sa.select(sa.exists().where(*mine))).scalar())


def resolve_findings(
    c: sa.Connection,
    *,
    file_id: FileId | None = None,
    root_id: RootId | None = None,
    kinds: Collection[FindingKind] | None = None,
    copy: str | None = None,
    resolution: str,
    now: int,
) -> list[Finding]:
    """
    Resolve findings. A file's baseline is unfrozen with the last finding on its content (R6).

    Args:
        c: in a transaction.
        file_id: only findings of this file.
        root_id: only findings of this root.
        kinds: only these; None: all.
        copy: as in ``find_findings``.
        resolution: the reason, as text for people.
        now: seconds UTC.

    Returns:
        The findings that it resolved.
    """
    if file_id is None and root_id is None:
        raise ValueError("name a file or a root whose findings are to be resolved")
    return _resolve(c, _match_unresolved(file_id, root_id, kinds, copy), resolution, now)


def find_unresolved(
    c: sa.Connection, root_id: RootId, *, kinds: Collection[FindingKind] | None = None, copy: str | None = None
) -> list[FindingId]:
    """Return the ids that ``resolve_findings`` would resolve in a root, for callers that resolve in pages."""
    query = sa.select(finding.c.id).where(*_match_unresolved(None, root_id, kinds, copy))
    return [FindingId(one) for one in c.execute(query).scalars()]


def _match_unresolved(
    file_id: FileId | None, root_id: RootId | None, kinds: Collection[FindingKind] | None, copy: str | None
) -> list[sa.ColumnElement[bool]]:
    conditions = [UNRESOLVED]
    if file_id is not None:
        conditions.append(finding.c.file_id == file_id)
    if root_id is not None:
        conditions.append(finding.c.root_id == root_id)
    if kinds is not None:
        conditions.append(finding.c.kind.in_([kind.value for kind in kinds]))
    if copy is not None:
        conditions.append(finding.c.copy == copy)
    return conditions


def resolve_ids(c: sa.Connection, ids: Iterable[FindingId], *, resolution: str, now: int) -> list[Finding]:
    """Resolve findings by id; return those that were unresolved."""
    resolved = [_resolve(c, [UNRESOLVED, finding.c.id.in_(chunk)], resolution, now) for chunk in chunked(ids)]
    return [one for chunk in resolved for one in chunk]


def resolve_of_files(c: sa.Connection, ids: Sequence[FileId], resolution: str, now: int) -> None:
    """Resolve all findings of files that leave the catalog."""
    for chunk in chunked(ids):
        _resolve(c, [UNRESOLVED, finding.c.file_id.in_(chunk)], resolution, now)


def acknowledge(c: sa.Connection, ids: Iterable[FindingId]) -> None:
    """
    Stop reminders for findings until they change.

    ``updated_at`` stays: repair uses it as the time until which the file is known to have the judged content.
    """
    _set_state(c, ids, FindingState.ACKNOWLEDGED, None)


def mute(c: sa.Connection, ids: Iterable[FindingId], until: int) -> None:
    """Stop reminders for findings until a time. ``updated_at`` stays, as in ``acknowledge``."""
    _set_state(c, ids, FindingState.MUTED, until)


def move_findings(c: sa.Connection, file_id: FileId, to_root_id: RootId, to_path: bytes, now: int) -> None:
    """Move a file's findings to its new path; resolve unresolved findings about the file that was there before."""
    kinds = sa.select(finding.c.kind).where(finding.c.file_id == file_id, UNRESOLVED)
    in_the_way = [
        UNRESOLVED,
        finding.c.root_id == to_root_id,
        finding.c.path == to_path,
        finding.c.file_id.is_distinct_from(file_id),
        finding.c.kind.in_(kinds),
    ]
    _resolve(c, in_the_way, "another file was moved to this path", now)
    c.execute(sa.update(finding).where(finding.c.file_id == file_id).values(path=to_path))


def rename_copy(c: sa.Connection, ids: Iterable[FindingId], to_name: str, now: int) -> None:
    """Move unresolved findings about a copy to its new name; resolve those that are already open under that name."""
    other = finding.alias()
    same = [other.c[column] == finding.c[column] for column in ("root_id", "kind", "path")]
    is_open = other.c.state != FindingState.RESOLVED.value
    exists_already = sa.exists().where(*same, other.c.copy == to_name, is_open)
    for chunk in chunked(ids):
        these = [finding.c.id.in_(chunk), finding.c.copy != to_name, UNRESOLVED]
        c.execute(sa.update(finding).where(*these, ~exists_already).values(copy=to_name))
        _resolve(c, these, f"continued as the finding about its name {to_name}", now)


def put_findings_aside(c: sa.Connection, file_id: FileId, path: bytes) -> None:
    """Change the path of a file's findings, so that they do not collide with those of the file that takes its place."""
    c.execute(sa.update(finding).where(finding.c.file_id == file_id).values(path=path))


def set_step(c: sa.Connection, ids: Iterable[FindingId], step: str | None, command: str | None) -> None:
    """Store the recommended step of findings when it differs from the default of their kind; None: the default."""
    for chunk in chunked(ids):
        c.execute(sa.update(finding).where(finding.c.id.in_(chunk), UNRESOLVED).values(step=step, command=None))
        if command is None:
            continue
        for one in get_findings(c, chunk):
            stored = _store_command(command, one.root, one.path)
            c.execute(sa.update(finding).where(finding.c.id == one.id, UNRESOLVED).values(command=stored))


def _resolve(c: sa.Connection, conditions: list[sa.ColumnElement[bool]], resolution: str, now: int) -> list[Finding]:
    rows = c.execute(sa.select(finding.c.id, finding.c.file_id, finding.c.kind).where(*conditions)).all()
    values = {"state": FindingState.RESOLVED.value, "resolution": resolution, "resolved_at": now, "updated_at": now}
    for chunk in chunked(row.id for row in rows):
        c.execute(sa.update(finding).where(finding.c.id.in_(chunk)).values(muted_until=None, **values))
    _unfreeze(c, {row.file_id for row in rows if row.file_id is not None and row.kind in _CONTENT_KINDS})
    query = _QUERY.order_by(finding.c.id)
    found = (c.execute(query.where(finding.c.id.in_(chunk))) for chunk in chunked(row.id for row in rows))
    return [_to_finding(row) for part in found for row in part]


def find_misfrozen(c: sa.Connection) -> Iterator[FileId]:
    """Yield the files whose ``is_frozen`` does not match their findings (R6)."""
    return (FileId(row[0]) for row in c.execute(sa.select(file.c.id).where(file.c.is_frozen != _HOLDS)))


def realign_frozen(c: sa.Connection, ids: Iterable[FileId]) -> None:
    """Set ``is_frozen`` of files to match their findings."""
    for chunk in chunked(ids):
        c.execute(sa.update(file).where(file.c.id.in_(chunk), file.c.is_frozen != _HOLDS).values(is_frozen=_HOLDS))


def _unfreeze(c: sa.Connection, ids: Collection[FileId]) -> None:
    for chunk in chunked(ids):
        c.execute(sa.update(file).where(file.c.id.in_(chunk), ~_HOLDS).values(is_frozen=0))


def _set_state(c: sa.Connection, ids: Iterable[FindingId], state: FindingState, muted_until: int | None) -> None:
    """Set the state of unresolved findings and of all others of their incidents."""
    for chunk in chunked(ids):
        incidents = c.execute(sa.select(INCIDENT).where(finding.c.id.in_(chunk)).distinct()).scalars().all()
        values = {"state": state.value, "muted_until": muted_until}
        c.execute(sa.update(finding).where(in_incidents(incidents), UNRESOLVED).values(**values))


def _values(new: NewFinding) -> dict[str, Any]:
    return {
        "root_id": new.root_id,
        "file_id": new.file_id,
        "path": new.path or b"",
        "kind": new.kind.value,
        "certainty": None if new.certainty is None else new.certainty.value,
        "blocks": json.dumps(new.blocks),
        "block_size_bytes": new.block_size_bytes,
        "ranges": json.dumps(new.ranges),
        "confirmed_reads": new.confirmed_reads,
        "message": new.message,
        "copy": new.copy or "",
        "step": new.step,
        "command": new.command,
    }


def _store_command(command: str, root_path: bytes, path: bytes | None) -> str:
    word = re.escape(shell_path(absolute(root_path, path)))
    return re.sub(rf"(?<!\S){word}(?!\S)", _PLACE, command)


def _to_finding(row: sa.Row[Any]) -> Finding:
    return Finding(
        id=row.id,
        kind=read_word(FindingKind, row.kind),
        state=read_word(FindingState, row.state),
        root=row.root_path,
        path=row.path or None,
        message=row.message,
        opened_at=row.opened_at,
        updated_at=row.updated_at,
        certainty=read_optional_word(Certainty, row.certainty),
        blocks=read_numbers(row.blocks),
        block_size_bytes=row.block_size_bytes,
        ranges=read_ranges(row.ranges),
        confirmed_reads=row.confirmed_reads,
        resolved_at=row.resolved_at,
        resolution=row.resolution,
        muted_until=row.muted_until,
        copy=row.copy or None,
        step=row.step,
        command=row.command and row.command.replace(_PLACE, shell_path(absolute(row.root_path, row.path))),
        opened_by=None if row.opened_by is None else RunId(row.opened_by),
        incident=None if row.incident is None else FindingId(row.incident),
    )
