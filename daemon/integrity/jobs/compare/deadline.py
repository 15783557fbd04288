"""
Decide whether each configured copy is compared within its ``verify_every``, and open or resolve the finding if not.

Also collects the status of all copies of a root, configured or compared by hand, for reports. Copies that are not in
the configuration have no deadline.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from integrity import program
from integrity.catalog import copies, findings
from integrity.catalog.connection import write_in_pages
from integrity.catalog.copies import CopyWaits, find_waits
from integrity.catalog.findings import NewFinding
from integrity.catalog.roots import RootRecord, find_roots, has_root
from integrity.config.copy_urls import find_local_path, hide_secrets
from integrity.errors import ConfigError
from integrity.files.excludes import make_left_out
from integrity.jobs.targets import is_inside
from integrity.model import Finding, FindingId, FindingKind, RootState
from integrity.paths import shell_word
from integrity.units import format_duration

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.copies import CopyRecord
    from integrity.config import Config
    from integrity.config.definition import ConfiguredCopy
    from integrity.files.excludes import Excludes
    from integrity.jobs.context import Context


_DAY_S = 86_400


class CopyFacts(NamedTuple):
    """
    The catalog's facts about a configured copy.

    Args:
        root: root that contains the files of the copy.
        record: None if the copy is new.
        waits: waiting times of its files; None if the copy is new.
    """

    settings: "ConfiguredCopy"
    root: RootRecord
    record: "CopyRecord | None"
    waits: CopyWaits | None

    @property
    def prefix(self) -> bytes:
        """Return the folder in the root that is copied; empty for the root itself."""
        return self.settings.of[len(self.root.path.rstrip(b"/")) + 1 :]

    @property
    def is_overdue(self) -> bool:
        """Return whether the copy is overdue. Paused roots have no deadline, and suspended ones can't be compared."""
        return self.waits is not None and bool(self.waits.overdue) and self.root.state is RootState.ACTIVE

    @property
    def due_at(self) -> int | None:
        """Return when the copy becomes overdue if nothing is compared until then; None if never or unknown."""
        if self.waits is None or self.waits.waits_since is None:
            return None
        return self.waits.waits_since + self.settings.verify_every_s


def find_copy_facts(c: "Connection", config: "Config", *, now: int, name: str | None = None) -> list[CopyFacts]:
    """Return the facts about the configured copies of recorded roots; with ``name`` only of that copy."""
    roots = find_roots(c)
    found = []
    for settings in config.copies:
        root = _find_root(roots, settings)
        if root is None or name not in (None, settings.name):
            continue
        facts = CopyFacts(settings, root, None, None)
        disks = [one for one in copies.find_copies(c, root.id) if one.prefix == facts.prefix]
        disks = [one for one in disks if one.base_name == settings.name]
        record = max(disks, key=lambda one: one.listed_at or 0, default=None)  # any of them keeps the promise
        if record is not None:
            waits = find_waits(
                c, record, now=now, verify_every_s=settings.verify_every_s, left_out=_find_left_out(settings)
            )
            facts = CopyFacts(settings, root, record, waits)
        found.append(facts)
    return found


def _find_left_out(settings: "ConfiguredCopy") -> "Excludes | None":
    try:
        return make_left_out(settings.exclude)
    except ConfigError:
        return None  # the comparison refuses the pattern, and says why


def check_copies(context: "Context") -> list[Finding]:
    """
    Open the finding that a configured copy is overdue, or resolve it.

    Call at start, daily and after comparisons. The deadline of a copy runs from the first call, even if the copy can
    never be reached. All findings of copies that are no longer configured are resolved. Short writes that need no lock
    (R9).

    Returns:
        The findings that are open now; each was reported.
    """
    _end_former(context)
    with context.catalog.read() as connection:
        found = find_copy_facts(connection, context.config, now=context.now())
    return [finding for facts in found if (finding := _check_copy(context, facts)) is not None]


def describe_overdue(facts: CopyFacts, waits: CopyWaits, now: int) -> str:
    """Describe how many files are overdue, and since when."""
    promise = facts.settings.verify_every_s
    late_s = now - (waits.waits_since or now) - promise
    late = f"{late_s // _DAY_S} days" if late_s >= 2 * _DAY_S else f"{max(1, late_s // 3600)} h"
    files = f"{waits.overdue:,} of {waits.files:,} files" if waits.files != 1 else "its file"
    return (
        f"{files} not compared with the copy {facts.settings.name} within {format_duration(promise)}, the oldest {late}"
        " late"
    )


def is_name(name: str) -> bool:
    """Return whether a copy's name is from the configuration; the names of other copies are paths or URLs."""
    return "/" not in name and ":" not in name


def _find_root(roots: Sequence[RootRecord], settings: "ConfiguredCopy") -> RootRecord | None:
    return next((root for root in roots if is_inside(settings.of, root.path.rstrip(b"/"))), None)


def _check_copy(context: "Context", facts: CopyFacts) -> Finding | None:
    now, settings, root = context.now(), facts.settings, facts.root
    if facts.record is None:
        url = hide_secrets(settings.url)
        with context.catalog.transaction() as connection:
            if has_root(connection, root.id):
                copies.ensure_copy(connection, root.id, facts.prefix, settings.name, url, None, now=now)
        return None
    if root.state is RootState.SUSPENDED:
        return None
    if not facts.is_overdue or facts.waits is None:
        _end_overdue(context, facts)
        return None
    step = "have it compared" if find_local_path(settings.url) is None else "attach its disk, or have it compared"
    new = NewFinding(
        FindingKind.OVERDUE,
        root.id,
        None,
        None,
        describe_overdue(facts, facts.waits, now),
        copy=settings.name,
        step=step,
        command=program.stored_command("compare", settings.of, "--with", shell_word(settings.name)),
    )
    with context.catalog.transaction() as connection:
        if not has_root(connection, root.id):
            return None  # the root was forgotten meanwhile
        finding, _ = findings.open_finding(connection, new, now=now, run_id=None)
    context.report.finding(finding)
    return finding


def _end_overdue(context: "Context", facts: CopyFacts) -> None:
    """Resolve the finding, if it is open. Write nothing otherwise."""
    resolution = (
        "the root is paused" if facts.root.state is RootState.PAUSED else "everything is compared in time again"
    )
    with context.catalog.read() as connection:
        open_ones = findings.find_findings(connection, root_id=facts.root.id, copy=facts.settings.name)
    if any(one.kind is FindingKind.OVERDUE for one in open_ones):
        _end(context, facts.root, facts.settings.name, {FindingKind.OVERDUE}, resolution)


def _end_former(context: "Context") -> None:
    """Resolve the findings of copies that are no longer in the configuration: they are never compared again."""
    names = {one.name for one in context.config.copies}
    with context.catalog.read() as connection:
        roots = {root.id: root for root in find_roots(connection)}
        former = [one for one in copies.find_copies(connection) if one.base_name not in names and is_name(one.name)]
        gone = [one for one in former if findings.find_findings(connection, root_id=one.root_id, copy=one.name)]
    for one in gone:
        _end(context, roots[one.root_id], one.name, None, "the copy is not in the configuration any more")


def _end(context: "Context", root: RootRecord, name: str, kinds: set[FindingKind] | None, resolution: str) -> None:
    from integrity.jobs import messages  # here, for `status` only reads
    from integrity.jobs.report import Note, NoteKind

    with context.catalog.read() as connection:
        ids = findings.find_unresolved(connection, root.id, kinds=kinds, copy=name)
    ended: list[Finding] = []

    def resolve(connection: "Connection", some: Sequence[FindingId]) -> None:
        ended.extend(findings.resolve_ids(connection, some, resolution=resolution, now=context.now()))

    write_in_pages(context.catalog.transaction, ids, resolve)
    for one in ended:
        text = messages.resolved(one, resolution)
        context.report.note(Note(NoteKind.RESOLVED, root.path, None, text))


_NEVER_S = 1 << 40


class CopyStatus(NamedTuple):
    """
    Status of one copy.

    Args:
        name: in the configuration, or its URL.
        url: without secrets.
        prefix: the folder in the root that is copied; empty for all of it.
        waits: waiting times of its files; None if it was never recorded.
        open_kinds: number of open findings by kind.
        verify_every_s: required interval; None for copies that are not configured.
        due_at: when it becomes overdue if nothing is compared until then; None if never or unknown.
    """

    name: str
    url: str
    root: RootRecord
    prefix: bytes
    waits: CopyWaits | None
    open_kinds: Counter[FindingKind]
    verify_every_s: int | None = None
    is_overdue: bool = False
    due_at: int | None = None

    @property
    def kinds(self) -> set[FindingKind]:
        """Return all problems of the copy, including an overdue comparison that was not reported yet."""
        return {*self.open_kinds, *({FindingKind.OVERDUE} if self.is_overdue else ())}


def find_copy_status(c: "Connection", config: "Config", roots: Sequence[RootRecord], *, now: int) -> list[CopyStatus]:
    """Return the status of the copies of some roots, configured ones first."""
    ids = {root.id for root in roots}
    found = [_describe(c, facts) for facts in find_copy_facts(c, config, now=now) if facts.root.id in ids]
    for root in roots:
        found += [_describe_other(c, root, one, now) for one in copies.find_copies(c, root.id) if not is_name(one.name)]
    return found


def _describe(c: "Connection", facts: CopyFacts) -> CopyStatus:
    settings = facts.settings
    return CopyStatus(
        name=settings.name,
        url=hide_secrets(settings.url),
        root=facts.root,
        prefix=facts.prefix,
        waits=facts.waits,
        open_kinds=_count_open(c, facts.root, settings.name),
        verify_every_s=settings.verify_every_s,
        is_overdue=facts.is_overdue,
        due_at=facts.due_at,
    )


def _describe_other(c: "Connection", root: RootRecord, record: "CopyRecord", now: int) -> CopyStatus:
    waits = find_waits(c, record, now=now, verify_every_s=_NEVER_S)
    return CopyStatus(record.name, record.url, root, record.prefix, waits, _count_open(c, root, record.name))


def _count_open(c: "Connection", root: RootRecord, name: str) -> Counter[FindingKind]:
    """Count the open findings about a copy, whichever of its disks they are about."""
    names = {name, *(one.name for one in copies.find_copies(c, root.id) if one.base_name == name)}
    found: Counter[FindingKind] = Counter()
    for (_, kind, copy), number in findings.count_incidents(c, root.id).items():
        if copy in names:
            found[kind] += number
    return found
