"""What status says of a root's promise: how long ago its bytes were verified, and whether the windows are enough."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from integrity.cli.json_objects import iso_time
from integrity.cli.output import JsonObject, Output, printable

if TYPE_CHECKING:
    from integrity.jobs.scrub.plan import Plan
    from integrity.jobs.status import RootStatus


def describe_promise(one: RootStatus, output: Output) -> Iterator[str]:
    """Write a line on ages, and where a service scrubs in windows one on what is to come."""
    if one.coverage.files:
        yield f"  last seen  {_describe_ages(one)}"
    if one.plan is not None and one.plan.bytes_total:
        yield f"  forecast   {_describe_plan(one.plan, one.windows, output)}"


def plan_object(plan: Plan) -> JsonObject:
    """Make the object of a plan."""
    return {
        "is_kept": plan.is_kept,
        "needed_bytes_per_s": round(plan.needed_bytes_per_s),
        "measured_bytes_per_s": None if plan.measured_bytes_per_s is None else round(plan.measured_bytes_per_s),
        "bytes_overdue": plan.bytes_overdue,
        "bytes_due_soon": plan.bytes_due_soon,
        "met_at": iso_time(plan.met_at),
        "advice": plan.advice,
    }


def _describe_ages(one: RootStatus) -> str:
    """Say how much was last verified (or recorded) how long ago, by bytes, or by files where there are none."""
    rows = [row for row in one.coverage.histogram if row[2]]
    total = sum(row[3] for row in rows)
    shares = [(row[0], row[1], row[3] / total if total else row[2] / one.coverage.files) for row in rows]
    return ", ".join(f"{_percent(share)} {_say_age(begin, end)}" for begin, end, share in shares)


def _say_age(begin: int, end: int | None) -> str:
    if end is None:
        return f"over {begin} days ago"
    return "within a day" if not begin else f"{begin} to {end} days ago"


def _percent(share: float) -> str:
    """Write a share so that only nothing is 0 % and only all is 100 %."""
    if 0 < share < 0.01:
        return "under 1 %"
    return "over 99 %" if 0.99 < share < 1 else f"{share:.0%}".replace("%", " %")


def _describe_plan(plan: Plan, windows: str, output: Output) -> str:
    """Say whether the windows are enough."""
    from integrity.cli.text import local_time
    from integrity.config import format_size

    text = f"{format_size(plan.needed_bytes_per_s)} a second needed in {printable(windows)}"
    if plan.measured_bytes_per_s is not None:
        text += f", {format_size(plan.measured_bytes_per_s)} measured"
    if plan.is_kept:
        return f"the promise will be kept: {text}"
    text = f"{output.style('the promise is not kept', 'yellow')}: {text}"
    if plan.met_at is not None:
        text += f"; it will be again by {local_time(plan.met_at)}"
    return text + (f"; {printable(plan.advice)}" if plan.advice else "")
