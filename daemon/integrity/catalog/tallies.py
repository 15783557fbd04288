"""
Compare tables with what was last written to them: triggers keep the number of their rows, and a sum over these.

A page that a disk never wrote is an old page: its checksum is right, and only the sum knows.
"""

from __future__ import annotations

import re

from integrity.catalog.db import Connection


def find_stale(c: Connection) -> list[str]:
    """Return complaints about tables that are not what was last written to them: a disk has lost a write."""
    # An expression of a trigger, with the names of a row instead of NEW.
    told = c.rows("SELECT tbl_name, sql FROM sqlite_master WHERE type = 'trigger' AND name GLOB '*_tallied'")
    sums = {table: re.search(r"sum = sum \+ (.*) WHERE", sql) for table, sql in told}
    complaints: list[str] = []
    for table, found in sums.items():
        assert found is not None
        kept = c.row("SELECT rows, sum FROM tally WHERE name = ?", table)
        number = found[1].replace("NEW.", "")
        if kept != c.row(f"SELECT count(*), coalesce(sum({number}), 0) FROM {table}"):
            complaints.append(f"the table {table} is not as it was last written: the disk has lost a write")
    return complaints
