"""How many findings of the hub are unresolved, and how many files, boxes and trees they are about."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from integrity.hub.findings import UNRESOLVED
from integrity.hub.kinds import HUB_GRAVITY, HUB_KINDS, HubFindingKind
from integrity.hub.schema import finding
from integrity.kinds import Weight


@dataclass(frozen=True, slots=True)
class OpenFindings:
    """
    Unresolved findings, by kind. False if there are none.

    Attributes:
        findings: how many there are: entries of a list.
        subjects: how many files, boxes or trees they are about, which is what sentences count: one finding may stand
            for all files of a box.
    """

    findings: Counter[HubFindingKind] = field(default_factory=Counter)
    subjects: Counter[HubFindingKind] = field(default_factory=Counter)

    def __bool__(self) -> bool:
        return bool(self.findings)

    @property
    def total(self) -> int:
        """How many findings there are of all kinds."""
        return self.findings.total()

    @property
    def has_problem(self) -> bool:
        """Whether something is damaged or differs; else something is not known."""
        return any(HUB_KINDS[kind].weight is Weight.PROBLEM for kind in self.findings)

    def add(self, kind: HubFindingKind, findings: int, subjects: int) -> None:
        self.findings[kind] += findings
        self.subjects[kind] += subjects

    def describe(self, weight: Weight | None = None, *, without: Counter[HubFindingKind] | None = None) -> str:
        """
        Return what they are about, the gravest kind first: "3 damaged files, 1 box does not report".

        Args:
            weight: only of this weight.
            without: numbers that are told elsewhere.
        """
        numbers = self.subjects - (without or Counter())
        wanted = [kind for kind in numbers if weight is None or HUB_KINDS[kind].weight is weight]
        wanted.sort(key=HUB_GRAVITY.__getitem__)
        return ", ".join(HUB_KINDS[kind].phrase.of(numbers[kind]) for kind in wanted)


NOTHING_OPEN = OpenFindings()
"""Of most boxes and sets. Nobody adds to it."""


def count_open(c: sa.Connection) -> OpenFindings:
    return _count(c, None)[None]


def count_open_by(
    c: sa.Connection, column: sa.Column[Any], *where: sa.ColumnElement[bool]
) -> defaultdict[int | None, OpenFindings]:
    """Count the unresolved findings for each value of a column of ``finding``; those without one are left out."""
    return _count(c, column, column.is_not(None), *where)


def _count(
    c: sa.Connection, column: sa.Column[Any] | None, *where: sa.ColumnElement[bool]
) -> defaultdict[int | None, OpenFindings]:
    key = sa.null() if column is None else column
    numbers = sa.func.count(), sa.func.sum(finding.c.subjects)
    groups = [finding.c.kind] if column is None else [column, finding.c.kind]
    query = sa.select(key, finding.c.kind, *numbers).where(UNRESOLVED, *where).group_by(*groups)
    found: defaultdict[int | None, OpenFindings] = defaultdict(OpenFindings)
    for value, kind, findings, subjects in c.execute(query):
        found[value].add(HubFindingKind(kind), findings, int(subjects))
    return found
