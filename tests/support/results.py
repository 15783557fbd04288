"""What a run said of the files, in a form that tests can compare."""

from __future__ import annotations

import os

from support.cli import Completed, JsonObject

_NINE = ("verified", "new", "changed", "damaged", "missing", "unreadable", "unstable", "skipped", "not_due")


def tallies(result: Completed, *, without: str = "") -> dict[str, int]:
    """
    Return the counts of a scan or scrub that are not zero, ``moved`` among them.

    Args:
        result: of a run with ``--json``.
        without: a tally to leave out: ``skipped`` where every new disk has one (lost+found).

    Raises:
        AssertionError: ``files_known`` is not the sum of the nine: some name was counted twice, or not at all.
    """
    counts = {name: get_number(result.summary, f"files_{name}") for name in (*_NINE, "moved")}
    assert result.summary["files_known"] == sum(counts[name] for name in _NINE), result.summary
    return {name: count for name, count in counts.items() if count and name != without}


def get_number(fields: JsonObject, name: str) -> int:
    """Get a number out of a JSON object."""
    value = fields[name]
    assert isinstance(value, int), (name, value)
    return value


def kinds(result: Completed) -> list[object]:
    """Return the kinds of the findings that a run met, in order."""
    return [kind for kind, _ in met(result)]


def met(result: Completed) -> list[tuple[object, object]]:
    """Return kind and path of each finding that a run met, in order; of a file with several names, with each."""
    return [(finding["kind"], path) for finding in result.findings for path in all_names(finding)]


def all_names(finding: JsonObject) -> list[object]:
    """Return all paths of what a finding is about."""
    names = finding["names"]
    assert isinstance(names, list)
    return [finding["path"], *names]


def kinds_by_name(result: Completed) -> dict[str, object]:
    """Return the kind of each finding by the name of its file, which has to be one of a kind."""
    found = {os.path.basename(str(path)): kind for kind, path in met(result)}
    assert len(found) == len(met(result)), result.findings
    return found


def messages(result: Completed) -> str:
    """Return what a run's findings say."""
    return "\n".join(str(finding["message"]) for finding in result.findings)


def notes(result: Completed, kind: str) -> list[object]:
    """Return the paths of the notes of one kind, in order."""
    return [note["path"] for note in result.of_type("note") if note["kind"] == kind]
