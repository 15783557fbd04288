"""The rows of which all tables are made, and what follows from their figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from integrity.config import spell_size
from integrity.jobs.bench.measure import Cost

GIB = 1 << 30


class Table(StrEnum):
    """What can be measured."""

    LARGE = "large"
    OBJECTS = "objects"
    TOOLS = "tools"
    ALGORITHMS = "algorithms"
    PYTHON = "python"
    LANES = "lanes"


TITLES = {
    Table.LARGE: "MD5 of one large file",
    Table.OBJECTS: "MD5 of one short message: make an object, hash, take the digest",
    Table.TOOLS: "A folder, and one large file, with each tool",
    Table.ALGORITHMS: "CPU time of each algorithm, for each GiB of a file",
    Table.PYTHON: "Every algorithm of this Python: create 1,000 objects, hash 1 MB",
    Table.LANES: "MD5 of many messages side by side, on each path of the C core, one thread",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    What one thing took.

    Args:
        table: that it belongs to.
        group: what was done; only rows of one group can be held against each other.
        what: did it.
        size_bytes: hashed by one execution.
        message_bytes: the length of each of the messages that this is made of (``lanes``).
        cost: of one execution; None if there is none, and ``note`` says why.
        create: what creating 1,000 objects took (table ``python``).
        allocated_bytes: that one execution leaves in use as long as its object and its digest live (``objects``).
        ratio: how many times as fast as ``reference``; None where either has no figures.
        reference: what the others of the group are held against.
        note: what must be known of it besides.
    """

    table: Table
    group: str
    what: str
    size_bytes: int
    message_bytes: int | None = None
    cost: Cost | None = None
    create: Cost | None = None
    allocated_bytes: float | None = None
    ratio: float | None = None
    reference: str = ""
    note: str = ""

    @property
    def cpu_percent(self) -> float | None:
        """How busy it kept the processors; 100 is one of them."""
        return 100 * self.cost.cpu_s / self.cost.wall_s if self.cost else None

    @property
    def bytes_per_s(self) -> float | None:
        """How fast it hashed."""
        return self.size_bytes / self.cost.wall_s if self.cost else None

    @property
    def operations_per_s(self) -> float | None:
        """How often it can be done in a second."""
        return 1 / self.cost.wall_s if self.cost else None

    @property
    def per_gib(self) -> Cost | None:
        """What it takes for one GiB."""
        return self.cost.per(self.size_bytes / GIB) if self.cost else None


def spell_length(size_bytes: int) -> str:
    """Write the length of a message: "64 bytes", "4KiB"."""
    return spell_size(size_bytes) if size_bytes >= 1024 else f"{size_bytes} bytes"


def by_wall(row: Row) -> float | None:
    """Hold rows against each other by what a user waits for."""
    return row.cost.wall_s if row.cost else None


def by_cpu(row: Row) -> float | None:
    """Hold rows against each other by what the machine works."""
    return row.cost.cpu_s if row.cost else None


def compare(rows: Iterable[Row], reference: str, seconds: Callable[[Row], float | None] = by_wall) -> list[Row]:
    """
    Write into each row how many times as fast it was as the reference of its group.

    Args:
        rows: of one table.
        reference: the ``what`` of one row of each group.
        seconds: what is compared.
    """
    rows = list(rows)
    references = {row.group: seconds(row) for row in rows if row.what == reference}
    return [replace(row, reference=reference, ratio=_divide(references.get(row.group), seconds(row))) for row in rows]


def _divide(reference_s: float | None, own_s: float | None) -> float | None:
    return reference_s / own_s if reference_s is not None and own_s else None
