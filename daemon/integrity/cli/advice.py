"""What to do next about a finding, in words and as command lines that can be copied."""

from __future__ import annotations

import errno
import os
import shlex
from typing import NamedTuple

from integrity.cli.paths import absolute, shell_path
from integrity.model import Finding, FindingKind

Kind = FindingKind


class Step(NamedTuple):
    """One thing to do: what it is good for, and the command line if there is one."""

    words: str
    command: str | None = None


def next_steps(finding: Finding) -> list[Step]:
    """Say what can be done, best first."""
    if _is_forbidden(finding):
        return _steps_of_forbidden(finding)  # nothing is known to be wrong with the file, so nothing is to be mended
    own = [Step(finding.step, finding.command)] if finding.step else []
    if finding.copy is not None and finding.path is None:
        return own + _steps_of_copy(finding, finding.copy)  # none of those of its kind: a scrub reads no copy
    return own + _steps_of_kind(finding)


def _is_forbidden(finding: Finding) -> bool:
    """Say whether it is a permission that a file could not be read for; a finding keeps the cause in its words."""
    causes = (f": {os.strerror(code)}" for code in (errno.EACCES, errno.EPERM))
    return finding.kind is Kind.UNREADABLE and not finding.ranges and any(one in finding.message for one in causes)


def _steps_of_forbidden(finding: Finding) -> list[Step]:
    """Say what can be done about a file or folder that integrity may not read."""
    path = shell_path(absolute(finding.root, finding.path))
    words = "let the user that integrity runs as read it, and enter the folders that it lies in, then have it checked"
    return [Step(words, f"integrity scrub {path}")]


def _steps_of_copy(finding: Finding, copy: str) -> list[Step]:
    """Say what can be done about a copy as a whole."""
    if finding.kind not in (Kind.COPY_UNREADABLE, Kind.OVERDUE):
        return []
    forgetting = f"integrity forget {shell_path(finding.root)} --copy {shlex.quote(copy)}"
    return [Step("or, if it is gone for good (and out of the configuration), have it forgotten", forgetting)]


def _steps_of_kind(finding: Finding) -> list[Step]:
    path, root = shell_path(absolute(finding.root, finding.path)), shell_path(finding.root)
    if finding.kind is Kind.ROOT_SUSPENDED and finding.path is not None:
        return [
            Step("mount the right disk there, then go on", f"integrity scan {root}"),
            Step("or, if it is not to come back, forget what was on it", f"integrity forget {path}"),
        ]
    if finding.kind is Kind.ROOT_SUSPENDED and finding.step:
        return []  # it was never there, so there is nothing to release or to bind anew
    return [
        Step(step.words, step.command.format(path=path, root=root) if step.command else None)
        for step in _STEPS.get(finding.kind, ())
        if not (finding.step and step.command == _FROM_SOME_COPY)  # its own names one that is known to be good
    ]


# Braces in the commands are filled in by next_steps; shell_path may bring braces of its own, but only as a value.
_FROM_SOME_COPY = "integrity repair {path} --from COPY"
_RESTORE_OR_ACCEPT = (
    Step("put the recorded bytes back from a backup copy", _FROM_SOME_COPY),
    Step("or restore the file by hand, then have it checked", "integrity scrub {path}"),
    Step("or keep it as it is now", "integrity accept {path} --reason WHY"),
)
_STEPS: dict[FindingKind, tuple[Step, ...]] = {
    **dict.fromkeys((Kind.ROT, Kind.SILENT_REWRITE, Kind.CHANGED, Kind.SHRUNK, Kind.ROLLED_BACK), _RESTORE_OR_ACCEPT),
    Kind.TRANSIENT: (
        Step("test the memory, change the disk's cable, then read it again", "integrity scrub {path}"),
        Step("see what the disk says of itself", "smartctl -a /dev/DISK"),
    ),
    Kind.CATALOG_DAMAGED: (
        Step("see how much of the catalog is damaged", "integrity catalog check"),
        Step("bring back its newest backup", "integrity catalog restore"),
    ),
    Kind.MISSING: (
        Step("put it back from a backup copy", _FROM_SOME_COPY),
        Step("or restore it by hand, then have it noticed", "integrity scan {root}"),
        Step("or agree that it is gone", "integrity accept {path} --reason WHY"),
    ),
    Kind.MASS_CHANGE: (
        Step("if the changes were meant", "integrity accept {root} --changes --reason WHY"),
        Step("if the deletions were meant", "integrity accept {root} --deletions --reason WHY"),
        Step("if not: disconnect the backups before they are overwritten, then restore"),
    ),
    Kind.SUSPICIOUS_CHANGE: (
        Step("if nobody meant this: disconnect the backups, stop what writes, then restore"),
        Step("if it was meant", "integrity gate {path} --release --reason WHY"),
    ),
    Kind.UNREADABLE: (
        Step("copy what still reads to another disk, see what the disk says of itself", "smartctl -a /dev/DISK"),
        Step("put what can't be read back from a backup copy", _FROM_SOME_COPY),
        Step("or restore the file by hand, then have it checked", "integrity scrub {path}"),
    ),
    Kind.UNSTABLE: (Step("stop the program that writes it, then have it read", "integrity scrub {path}"),),
    Kind.ROOT_SUSPENDED: (
        Step("mount the right disk, then go on", "integrity scan {root}"),
        Step("if this is meant to be so", "integrity root release {root}"),
        Step("if the files are on another disk or path now", "integrity root rebind {root} NEW"),
    ),
    Kind.OVERDUE: (Step("re-read what is due", "integrity scrub --due {root}"),),
    Kind.DEVICE_FAILING: (
        Step("copy what still reads to another disk, see what the disk says of itself", "smartctl -a /dev/DISK"),
        Step("when the disk is replaced", "integrity root rebind {root} NEW"),
    ),
    Kind.DEVICE_STALLED: (Step("check cables and `dmesg`, then go on", "integrity scrub {root}"),),
}
