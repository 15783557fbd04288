"""A root and a copy of it, and what a comparison of the two said."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from pathlib import Path

from support.cli import Box, Completed
from support.results import get_number

_NINE = ("verified", "new", "changed", "damaged", "missing", "unreadable", "unstable", "skipped", "not_due")
_EVIDENCE = ("read", "cached", "published")
_HERE = ("read_here", "known_by_record")


def back_up(root: Path, copy: Path) -> Path:
    """Make or refresh a copy as most backups do: names, contents, times."""
    subprocess.run(["cp", "-aT", root, copy], check=True)
    return copy


def compare(integrity: Box, *args: object, expect: int | None = None) -> Completed:
    """Run ``compare`` with ``--json``, and check that its counts add up (R8)."""
    done = integrity.run("--json", "compare", *(arg if isinstance(arg, bytes) else str(arg) for arg in args))
    assert expect is None or done.code == expect, (done.code, done.stdout[-3000:], done.stderr)
    if done.of_type("summary"):
        check_sum(done)
    return done


def check_sum(done: Completed) -> None:
    """Check that each known name is counted exactly once (R8), by the evidence of its copy and of the file here."""
    count = {name: get_number(done.summary, f"files_{name}") for name in (*_NINE, *_EVIDENCE, *_HERE, "not_comparable")}
    assert get_number(done.summary, "files_known") == sum(count[name] for name in _NINE), done.summary
    answered = count["verified"] + count["changed"] + count["damaged"]
    assert answered == sum(count[name] for name in _EVIDENCE), done.summary
    answered += count["missing"] + count["unreadable"] + count["not_comparable"]
    assert answered == sum(count[name] for name in _HERE), done.summary


def counts(done: Completed) -> dict[str, int]:
    """Return all counts of a comparison that are not zero, those of its own among them, without how it was looked."""
    own = ("extra", "differing", "conflicting", "newer", "stale", "renamed", "behind", "repairable", "not_comparable")
    found = {name: get_number(done.summary, f"files_{name}") for name in (*_NINE, *own)}
    return {name: count for name, count in found.items() if count}


def said(done: Completed, root: Path) -> dict[str, set[str]]:
    """Return the names in a root that findings and extra files are about, by kind; "" for the root itself."""
    found: dict[str, set[str]] = defaultdict(set)
    notes = [note for note in done.of_type("note") if note["kind"] in ("copy_extra", "copy_not_comparable")]
    for one in [*done.findings, *notes]:
        found[str(one["kind"])].add(str(one["path"]).removeprefix(str(root)).removeprefix("/"))
    return dict(found)


def steps(done: Completed, kind: str) -> list[str]:
    """Return the first command that each finding of a kind proposes, as it was told last."""
    last = {one["id"]: one["next_steps"] for one in done.findings if one["kind"] == kind}
    return [str(each[0]["command"]) for each in last.values() if isinstance(each, list) and each]
