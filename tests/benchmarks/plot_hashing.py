"""
Draw the tables of ``bench_hashing``: one figure with a panel for each.

Figures of matplotlib are used without pyplot: no window, no global state, no display needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import LogLocator

from integrity.config import spell_size

if TYPE_CHECKING:
    from bench_hashing import Row
    from matplotlib.axes import Axes

_WIDTH_INCHES, _BAR_INCHES, _PANEL_INCHES = 9.0, 0.24, 1.3
_LINES_PANEL_BARS = 12  # a panel of lines is as high as one with this many bars
# From the palette of Okabe and Ito, which is safe for color-blind readers.
_BLUE, _ORANGE = "#0072b2", "#e69f00"


def draw_plot(file: BinaryIO, kind: str, tables: Mapping[str, Sequence[Row]]) -> None:
    """Draw tables, by their titles, below each other; as a "svg" or "png"."""
    heights = [_PANEL_INCHES + _BAR_INCHES * _count_lines(rows) for rows in tables.values()]
    # Text stays text in an SVG: it can be searched, and every viewer has fonts.
    with rc_context({"svg.fonttype": "none", "font.size": 9, "axes.titlesize": 10, "axes.titleweight": "bold"}):
        figure = Figure(figsize=(_WIDTH_INCHES, sum(heights)), layout=ConstrainedLayoutEngine(h_pad=0.12))
        panels = figure.subplots(len(tables), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
        for axes, (title, rows) in zip(panels[:, 0], tables.items(), strict=True):
            axes.set_title(title, loc="left")
            _find_painter(rows)(axes, rows)
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(axis="both" if rows[0].message_bytes else "x", alpha=0.3)
            axes.set_axisbelow(True)
            handles, labels = axes.get_legend_handles_labels()
            if entries := dict(zip(labels, handles, strict=True)):  # each color once, beside the drawing
                beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "frameon": False}
                axes.legend(entries.values(), entries.keys(), **beside)
        figure.savefig(file, format=kind, dpi=130)


def _find_painter(rows: Sequence[Row]) -> object:
    if rows[0].message_bytes:
        return _draw_lanes
    if any(row.create for row in rows):
        return _draw_python
    return _draw_objects if any(row.allocated_bytes for row in rows) else _draw_costs


def _count_lines(rows: Sequence[Row]) -> int:
    if rows[0].message_bytes:
        return _LINES_PANEL_BARS
    return len({row.what for row in rows}) if any(row.create for row in rows) else len(rows)


def _label(axes: Axes, labels: Sequence[str]) -> None:
    """Write the names of bars beside them, the first one at the top."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)


def _draw_costs(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw CPU seconds for each GiB as bars, and elapsed time as a mark."""
    has_groups = len({row.group for row in rows}) > 1
    for at, row in enumerate(rows):
        cost = row.per_gib
        if cost is None:
            axes.text(0, at, f" {row.note}", va="center", color="gray", style="italic")
            continue
        axes.barh(at, cost.user_s, color=_BLUE, label="user")
        axes.barh(at, cost.system_s, left=cost.user_s, color=_ORANGE, label="system")
        axes.plot(cost.wall_s, at, marker="|", markersize=11, markeredgewidth=2, color="black", label="elapsed", ls="")
    _label(axes, [f"{row.what}, {row.group.partition(' of ')[0]}" if has_groups else row.what for row in rows])
    axes.set_xlabel("seconds for each GiB")
    axes.set_xlim(left=0)


def _draw_objects(axes: Axes, rows: Sequence[Row]) -> None:
    for at, row in enumerate(rows):
        if row.cost is not None:
            millions = 1e-6 / row.cost.wall_s
            axes.barh(at, millions, color=(_BLUE, _ORANGE)[at % 2])
            axes.text(millions, at, f" {row.allocated_bytes or 0:.0f} bytes allocated", va="center")
    _label(axes, [f"{row.what}, {row.group}" for row in rows])
    axes.set_xlabel("million operations a second")
    axes.margins(x=0.3)


def _draw_python(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw both figures of each algorithm as dots on one scale: they differ by a factor of a thousand."""
    names = list(dict.fromkeys(row.what for row in rows))
    for group, marker, shift in (("plain", "o", -0.12), ("HMAC", "D", 0.12)):
        measured = [row for row in rows if row.group == group and row.cost and row.create]
        for what, color, field in (("create 1,000", _ORANGE, "create"), ("hash 1 MB", _BLUE, "cost")):
            times_ms = [getattr(row, field).wall_s * 1000 for row in measured]
            places = [names.index(row.what) + shift for row in measured]
            axes.plot(times_ms, places, ls="", marker=marker, ms=5, color=color, label=f"{what}, {group}")
    _label(axes, names)
    axes.set_xlabel("milliseconds (logarithmic)")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")


def _draw_lanes(axes: Axes, rows: Sequence[Row]) -> None:
    for name in dict.fromkeys(row.what for row in rows):
        points = [(row.message_bytes, row.bytes_per_s / 1e9) for row in rows if row.what == name and row.bytes_per_s]
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", ms=4, label=name)
    sizes = sorted({row.message_bytes for row in rows})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [spell_size(size) for size in sizes])
    axes.set_xlabel("length of each message")
    axes.set_ylabel("GB a second")
    axes.set_ylim(bottom=0)
