"""
The promise that each file is held against a copy within its ``verify_every``: told when it is broken or kept again.

It is the configuration's: copies that somebody compared by hand promise nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.catalog import copies, findings
from integrity.catalog.copywaits import CopyWaits, find_waits
from integrity.catalog.findings import NewFinding
from integrity.catalog.paging import write_in_pages
from integrity.catalog.roots import RootRecord, find_roots, has_root
from integrity.config import spell_duration
from integrity.config.copyurls import hide_secrets
from integrity.jobs.report import Note, NoteKind
from integrity.jobs.targets import is_inside
from integrity.model import Finding, FindingId, FindingKind, RootState
from integrity.paths import shell_path

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.copies import CopyRecord
    from integrity.config import Config
    from integrity.config.definition import ConfiguredCopy
    from integrity.jobs.context import Context

_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class CopyFacts:
    """
    What the catalog knows of a configured copy.

    Args:
        settings: of it.
        root: in which it has files.
        record: of it; None: it is new.
        waits: of its files; None: it is new.
    """

    settings: ConfiguredCopy
    root: RootRecord
    record: CopyRecord | None
    waits: CopyWaits | None

    @property
    def prefix(self) -> bytes:
        """Name the folder in the root that it is a copy of."""
        return self.settings.of[len(self.root.path.rstrip(b"/")) + 1 :]

    @property
    def is_overdue(self) -> bool:
        """Say whether the promise is broken; a paused root promises nothing, a suspended one can't be looked at."""
        return self.waits is not None and bool(self.waits.overdue) and self.root.state is RootState.ACTIVE

    @property
    def due_at(self) -> int | None:
        """Tell when the promise is broken if nothing is compared until then; None: never, or that is not known."""
        if self.waits is None or self.waits.waits_since is None:
            return None
        return self.waits.waits_since + self.settings.verify_every_s


def find_copy_facts(c: Connection, config: Config, *, now: int, name: str | None = None) -> list[CopyFacts]:
    """List what is known of the configured copies of recorded roots; ``name``: of this one only."""
    roots = find_roots(c)
    found = []
    for settings in config.copies:
        root = _find_root(roots, settings)
        if root is None or name not in (None, settings.name):
            continue
        facts = CopyFacts(settings, root, None, None)
        record = next(
            (one for one in copies.find_copies(c, root.id) if (one.name, one.prefix) == (settings.name, facts.prefix)),
            None,
        )
        if record is not None:
            waits = find_waits(c, record, now=now, verify_every_s=settings.verify_every_s)
            facts = CopyFacts(settings, root, record, waits)
        found.append(facts)
    return found


def check_copies(context: Context) -> list[Finding]:
    """
    Open the finding that a copy's promise is broken, or end it.

    To be called at start, daily and after comparisons. From the first call on the clock of a copy runs, also if it can
    never be reached; of a copy that is not configured any more all findings end. Short writes that need no lock (R9).

    Returns:
        The findings that are open now; each was told to the report.
    """
    _end_former(context)
    with context.catalog.read() as connection:
        found = find_copy_facts(connection, context.config, now=context.now())
    return [finding for facts in found if (finding := _check_copy(context, facts)) is not None]


def describe_overdue(facts: CopyFacts, waits: CopyWaits, now: int) -> str:
    """Say what is overdue."""
    promise = facts.settings.verify_every_s
    late_s = now - (waits.waits_since or now) - promise
    late = f"{late_s // _DAY_S} days" if late_s >= 2 * _DAY_S else f"{max(1, late_s // 3600)} h"
    files = f"{waits.overdue:,} of {waits.files:,} files" if waits.files != 1 else "its file"
    return (
        f"{files} not compared with the copy {facts.settings.name} within {spell_duration(promise)}, the oldest {late}"
        " late"
    )


def is_name(name: str) -> bool:
    """Tell names of the configuration from paths and URLs, which are the names of all others."""
    return "/" not in name and ":" not in name


def _find_root(roots: Sequence[RootRecord], settings: ConfiguredCopy) -> RootRecord | None:
    return next((root for root in roots if is_inside(settings.of, root.path.rstrip(b"/"))), None)


def _check_copy(context: Context, facts: CopyFacts) -> Finding | None:
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
    step = "attach its disk, or have it compared" if settings.url.startswith("/") else "have it compared"
    new = NewFinding(
        FindingKind.OVERDUE,
        root.id,
        None,
        None,
        describe_overdue(facts, facts.waits, now),
        copy=settings.name,
        step=step,
        command=f"integrity compare {shell_path(settings.of)} --with {settings.name}",
    )
    with context.catalog.transaction() as connection:
        if not has_root(connection, root.id):
            return None  # somebody forgot it meanwhile
        finding, _ = findings.open_finding(connection, new, now=now, run_id=None)
    context.report.finding(finding)
    return finding


def _end_overdue(context: Context, facts: CopyFacts) -> None:
    """End the finding, if there is one: nothing is written where nothing is open."""
    resolution = "the root is paused" if facts.root.state is RootState.PAUSED else "all was compared in time again"
    with context.catalog.read() as connection:
        open_ones = findings.find_findings(connection, root_id=facts.root.id, copy=facts.settings.name)
    if any(one.kind is FindingKind.OVERDUE for one in open_ones):
        _end(context, facts.root, facts.settings.name, {FindingKind.OVERDUE}, resolution)


def _end_former(context: Context) -> None:
    """End what is open about copies that had a name in the configuration and have none any more: nobody looks again."""
    names = {one.name for one in context.config.copies}
    with context.catalog.read() as connection:
        roots = {root.id: root for root in find_roots(connection)}
        former = [one for one in copies.find_copies(connection) if one.name not in names and is_name(one.name)]
        gone = [one for one in former if findings.find_findings(connection, root_id=one.root_id, copy=one.name)]
    for one in gone:
        _end(context, roots[one.root_id], one.name, None, "the copy is not in the configuration any more")


def _end(context: Context, root: RootRecord, name: str, kinds: set[FindingKind] | None, resolution: str) -> None:
    with context.catalog.read() as connection:
        ids = findings.find_unresolved(connection, root.id, kinds=kinds, copy=name)
    ended: list[Finding] = []

    def resolve(connection: Connection, some: Sequence[FindingId]) -> None:
        ended.extend(findings.resolve_ids(connection, some, resolution=resolution, now=context.now()))

    write_in_pages(context.catalog.transaction, ids, resolve)
    for one in ended:
        text = f"{one.kind.value} {one.id} is over: {resolution}"
        context.report.note(Note(NoteKind.RESOLVED, root.path, None, text))
