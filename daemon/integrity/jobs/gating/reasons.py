"""
What speaks against the changes of a day: signs of a program that destroys files, or a group of which most was hit.

A scan asks for it before it takes its changes over, as the gate does before a backup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from integrity.jobs.gate.changes import find_changes_after
from integrity.jobs.gate.sample import look_into
from integrity.jobs.gate.signs import are_enough, find_signs
from integrity.jobs.gating.groups import find_hit_group
from integrity.jobs.judge import messages
from integrity.jobs.targets import Target

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun


def find_reason(run: RootRun, since: int) -> str | None:
    """
    Find what speaks against the changes of a root, as the end of a sentence; None: nothing does.

    Args:
        run: on the root, with all that it staged.
        since: look at the changes after this second UTC.
    """
    settings = run.settings
    with run.catalog.read() as connection:
        changes = find_changes_after(connection, run.root, since)
        hit_group = find_hit_group(connection, run.root.id, changes, settings)
    looks = look_into(Target(run.root, b""), changes, ())
    limits = {"most_files": settings.mass_change_files, "most_percent": settings.mass_change_percent}
    signs = find_signs(changes, looks.changed, looks.arrivals, **limits)
    if are_enough(signs):
        return messages.ransomware(sign.message for sign in signs)
    return hit_group
