"""
Draw tables: one figure with a panel for each, as SVG or PNG.

matplotlib is an optional dependency, imported only here and only for drawing. Its figures are used without pyplot: no
window, no global state, no display needed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from hashing.measure import TITLES, Row, Table, spell_length
from integrity.errors import ConfigError, show_path
from integrity.extras import how_to_install

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SUFFIXES = (".svg", ".png")
_WIDTH_INCHES = 9.0
_BAR_INCHES = 0.24
_PANEL_INCHES = 1.3  # title, axis and the space between panels
_GAP_INCHES = 0.12
_LINES_PANEL_BARS = 12  # a panel of lines is as high as one with this many bars
_PIXELS_PER_INCH = 130
# From the palette of Okabe and Ito, which is safe for color-blind readers.
_BLUE, _ORANGE = "#0072b2", "#e69f00"


def check_plot(path: bytes) -> None:
    """
    Check before the measurement that a plot can be drawn.

    Raises:
        ConfigError: the suffix is unknown, the folder is missing, or matplotlib is.
    """
    if _suffix(path) not in _SUFFIXES:
        raise ConfigError(f"{show_path(path)}: a plot can be a .svg or a .png file")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.access(folder, os.W_OK | os.X_OK) or os.path.isdir(path):
        raise ConfigError(f"{show_path(path)}: no file can be made there; name another one")
    if find_spec("matplotlib") is None:
        raise ConfigError(f"plots need packages that are not installed; {how_to_install('plot')}")


def draw_plot(path: bytes, tables: Sequence[Sequence[Row]]) -> None:
    """
    Draw tables below each other.

    Args:
        path: file to write or replace; its suffix gives the format.
        tables: the rows of each; at least one row in each.

    Raises:
        OSError: the file can't be written.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    heights = [_PANEL_INCHES + _BAR_INCHES * _count_lines(rows) for rows in tables]
    # Keep text as text in an SVG: it can be searched, and every viewer has fonts.
    with rc_context({"svg.fonttype": "none", "font.size": 9, "axes.titlesize": 10, "axes.titleweight": "bold"}):
        figure = Figure(figsize=(_WIDTH_INCHES, sum(heights)), layout=ConstrainedLayoutEngine(h_pad=_GAP_INCHES))
        panels = figure.subplots(len(tables), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
        for axes, rows in zip(panels[:, 0], tables, strict=True):
            _draw_panel(axes, rows)
        with open(path, "wb") as file:
            figure.savefig(file, format=_suffix(path)[1:], dpi=_PIXELS_PER_INCH)


def _suffix(path: bytes) -> str:
    return os.fsdecode(os.path.splitext(path)[1]).lower()


def _count_lines(rows: Sequence[Row]) -> int:
    match rows[0].table:
        case Table.LANES:
            return _LINES_PANEL_BARS
        case Table.PYTHON:
            return len({row.what for row in rows})
        case _:
            return len(rows)


def _draw_panel(axes: Axes, rows: Sequence[Row]) -> None:
    table = rows[0].table
    axes.set_title(TITLES[table], loc="left")
    match table:
        case Table.LANES:
            _draw_lanes(axes, rows)
        case Table.PYTHON:
            _draw_python(axes, rows)
        case Table.OBJECTS:
            _draw_objects(axes, rows)
        case _:
            _draw_costs(axes, rows, is_per_gib=table is Table.ALGORITHMS)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="both" if table is Table.LANES else "x", alpha=0.3)
    axes.set_axisbelow(True)


def _label(axes: Axes, labels: Sequence[str]) -> None:
    """Write the names of bars beside them, the first one at the top."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)


def _draw_costs(axes: Axes, rows: Sequence[Row], *, is_per_gib: bool) -> None:
    """Draw CPU seconds as bars, and elapsed time as a mark."""
    has_groups = len({row.group for row in rows}) > 1
    for at, row in enumerate(rows):
        cost = row.per_gib if is_per_gib else row.cost
        if cost is None:
            axes.text(0, at, f" {row.note.partition(':')[0]}", va="center", color="gray", style="italic")
            continue
        axes.barh(at, cost.user_s, color=_BLUE, label="user")
        axes.barh(at, cost.system_s, left=cost.user_s, color=_ORANGE, label="system")
        axes.plot(cost.wall_s, at, marker="|", markersize=11, markeredgewidth=2, color="black", label="elapsed", ls="")
    _label(axes, [f"{row.what}, {row.group.partition(' of ')[0]}" if has_groups else row.what for row in rows])
    groups = ", ".join(dict.fromkeys(row.group for row in rows))
    axes.set_xlabel("seconds for each GiB" if is_per_gib else f"seconds ({groups})")
    axes.set_xlim(left=0)
    _add_legend(axes)


def _draw_objects(axes: Axes, rows: Sequence[Row]) -> None:
    for at, row in enumerate(rows):
        if row.operations_per_s is None:
            continue
        axes.barh(at, row.operations_per_s / 1e6, color=_BLUE if at % 2 == 0 else _ORANGE)
        if row.allocated_bytes is not None:
            axes.text(row.operations_per_s / 1e6, at, f" {row.allocated_bytes:.0f} bytes allocated", va="center")
    _label(axes, [f"{row.what}, {row.group}" for row in rows])
    axes.set_xlabel("million operations a second")
    axes.margins(x=0.3)


def _draw_python(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw both figures of each algorithm as dots on one scale: they differ by a factor of a thousand."""
    from matplotlib.ticker import LogLocator

    names = list(dict.fromkeys(row.what for row in rows))
    for group, marker, shift in (("plain", "o", -0.12), ("HMAC", "D", 0.12)):
        measured = [row for row in rows if row.group == group]
        for what, color, costs in (
            ("create 1,000", _ORANGE, [row.create for row in measured]),
            ("hash 1 MB", _BLUE, [row.cost for row in measured]),
        ):
            points = [
                (cost.wall_s * 1000, names.index(row.what) + shift)
                for row, cost in zip(measured, costs, strict=True)
                if cost is not None
            ]
            axes.plot(
                [x for x, _ in points], [y for _, y in points], ls="", marker=marker, ms=5, color=color,
                label=f"{what}, {group}",
            )  # fmt: skip
    _label(axes, names)
    axes.set_xlabel("milliseconds (logarithmic)")
    if any(row.cost for row in rows):  # a log scale needs at least one point
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
    _add_legend(axes)


def _draw_lanes(axes: Axes, rows: Sequence[Row]) -> None:
    for name in dict.fromkeys(row.what for row in rows):
        points = [
            (row.message_bytes, row.bytes_per_s / 1e9)
            for row in rows
            if row.what == name and row.message_bytes and row.bytes_per_s
        ]
        if points:
            axes.plot([x for x, _ in points], [y for _, y in points], marker="o", ms=4, label=name)
    sizes = sorted({row.message_bytes for row in rows if row.message_bytes is not None})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [spell_length(size) for size in sizes])
    axes.set_xlabel("length of each message")
    axes.set_ylabel("GB a second")
    axes.set_ylim(bottom=0)
    _add_legend(axes)


def _add_legend(axes: Axes) -> None:
    """List each color once, beside the drawing."""
    handles, labels = axes.get_legend_handles_labels()
    entries = dict(zip(labels, handles, strict=True))
    if entries:
        axes.legend(entries.values(), entries.keys(), loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
