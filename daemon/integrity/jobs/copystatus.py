"""How well the files of a root are covered by its copies: those of the configuration, and those compared by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.catalog import copies, findings
from integrity.catalog.copywaits import CopyWaits, find_waits
from integrity.catalog.roots import RootRecord
from integrity.config.copyurls import hide_secrets
from integrity.jobs.compare.promise import CopyFacts, find_copy_facts, is_name
from integrity.model import FindingKind

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.copies import CopyRecord
    from integrity.config import Config

_NEVER_S = 1 << 40


@dataclass(frozen=True, slots=True)
class CopyStatus:
    """
    One copy.

    Args:
        name: in the configuration, or its URL.
        url: where it is, without secrets.
        root: of which it has files.
        prefix: the folder in the root that it is a copy of; empty for all of it.
        waits: how long its files have waited; None: it was never known to the service, nor compared.
        open_kinds: how many findings of each kind are open about it.
        verify_every_s: the promise; None: nobody promised anything.
        is_overdue: the promise is broken.
        due_at: when it is broken if nothing is compared until then; None: never, or that is not known.
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
        """Name all that is wrong with it, a broken promise among it, whether or not that has been told."""
        return {*self.open_kinds, *({FindingKind.OVERDUE} if self.is_overdue else ())}


def find_copy_status(c: Connection, config: Config, roots: Sequence[RootRecord], *, now: int) -> list[CopyStatus]:
    """Gather what is known of the copies of some roots, those of the configuration first."""
    ids = {root.id for root in roots}
    found = [_describe(c, facts) for facts in find_copy_facts(c, config, now=now) if facts.root.id in ids]
    for root in roots:
        found += [_describe_other(c, root, one, now) for one in copies.find_copies(c, root.id) if not is_name(one.name)]
    return found


def _describe(c: Connection, facts: CopyFacts) -> CopyStatus:
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


def _describe_other(c: Connection, root: RootRecord, record: CopyRecord, now: int) -> CopyStatus:
    waits = find_waits(c, record, now=now, verify_every_s=_NEVER_S)
    return CopyStatus(record.name, record.url, root, record.prefix, waits, _count_open(c, root, record.name))


def _count_open(c: Connection, root: RootRecord, name: str) -> Counter[FindingKind]:
    return Counter(one.kind for one in findings.find_findings(c, root_id=root.id, copy=name))
