"""What became of each name in a run, as its summary counts it."""

from __future__ import annotations

from support.cli import Completed

_NINE = ("verified", "new", "changed", "damaged", "missing", "unreadable", "unstable", "skipped", "not_due")


def tallies(result: Completed) -> dict[str, int]:
    """
    Return the counts that are not zero, ``moved`` among them.

    Raises:
        AssertionError: ``files_known`` is not the sum of the nine: some name was counted twice, or not at all.
    """
    counts = {name: _count(result, name) for name in (*_NINE, "moved")}
    assert _count(result, "known") == sum(counts[name] for name in _NINE), result.summary
    return {name: count for name, count in counts.items() if count}


def _count(result: Completed, name: str) -> int:
    value = result.summary[f"files_{name}"]
    assert isinstance(value, int), result.summary
    return value


def kinds(result: Completed) -> list[tuple[object, object]]:
    """Return kind and path of each finding that the run met, in order."""
    return [(finding["kind"], finding["path"]) for finding in result.findings]


def notes(result: Completed, kind: str) -> list[object]:
    """Return the paths of the notes of one kind, in order."""
    return [note["path"] for note in result.of_type("note") if note["kind"] == kind]
