"""Plots of the tables; matplotlib is an extra, so these are skipped where it is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integrity.jobs.bench.measure import TITLES, Cost, Row, Table
from integrity.jobs.bench.plot import check_plot, draw_plot

pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install '.[plot]'")

COST = Cost(0.4, 0.25, 0.1)


def make_rows(table: Table) -> list[Row]:
    """Make a few rows of one table, one of them without figures."""
    return [
        Row(
            table=table, group=group, what=what, size_bytes=1 << 20, cost=cost, message_bytes=length,
            create=cost if table is Table.PYTHON else None, allocated_bytes=300 if table is Table.OBJECTS else None,
            note="" if cost else "not installed (Debian package some)",
        )
        for group, length in (("plain", 64), ("HMAC", 4096))
        for what, cost in (("md5sum", COST), ("ours", COST.per(3)), ("missing", None))
    ]  # fmt: skip


@pytest.mark.parametrize("table", list(Table))
def test_each_table_is_drawn_with_title_names_and_units(table: Table, tmp_path: Path) -> None:
    """The text of an SVG is text: the panel's title, the names, and the unit of its axis."""
    plot = tmp_path / "plot.svg"

    draw_plot(os.fsencode(plot), [make_rows(table)])

    text = plot.read_text(encoding="utf-8")
    assert TITLES[table] in text
    assert all(name in text for name in ("md5sum", "ours"))
    assert any(unit in text for unit in ("seconds", "GB a second", "operations a second"))


def test_all_tables_stand_in_one_figure(tmp_path: Path) -> None:
    """One PNG with a panel for each table; an older one is replaced."""
    small, plot = tmp_path / "small.png", tmp_path / "PLOT.PNG"
    plot.write_bytes(b"old")

    draw_plot(os.fsencode(small), [make_rows(Table.LARGE)])
    draw_plot(os.fsencode(plot), [make_rows(table) for table in Table])

    one, all_ = (path.read_bytes() for path in (small, plot))
    assert b"\x89PNG\r\n\x1a\n" == one[:8] == all_[:8]
    height_of_one, height_of_all = (int.from_bytes(data[20:24], "big") for data in (one, all_))
    assert height_of_all > 4 * height_of_one


def test_table_without_any_figures_is_drawn(tmp_path: Path) -> None:
    """Where nothing could be measured a panel is empty, and no error."""
    tables = [[row for row in make_rows(table) if row.cost is None] for table in Table]

    draw_plot(os.fsencode(tmp_path / "plot.svg"), tables)

    assert "not installed" in (tmp_path / "plot.svg").read_text(encoding="utf-8")


def test_names_that_can_be_drawn(tmp_path: Path) -> None:
    """Both suffixes in either case, in a folder that is there."""
    for name in ("a.svg", "a.PNG", "\udcff.svg"):
        check_plot(os.fsencode(tmp_path / name))
