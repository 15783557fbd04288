"""Files that their owner leaves out after they were recorded are counted once, whatever became of them (R8)."""

from __future__ import annotations

from pathlib import Path

from support.cli import Box
from support.results import tallies


def test_recorded_names_that_are_left_out_by_now_are_counted_once(integrity: Box, tmp_path: Path) -> None:
    """By itself, below a folder that is left out as one name, and when it is gone; whole or in part, read or not."""
    root = tmp_path / "data"
    (root / "sub").mkdir(parents=True)
    for name in ("kept", "single", "gone", "sub/one", "sub/two"):
        (root / name).write_bytes(name.encode())
    root_only = f'[[root]]\npath = "{root}"\n'
    integrity.configure(root_only)
    assert {"new": 5} == tallies(integrity.run("--json", "scan", expect=0))

    integrity.configure(f'{root_only}exclude = ["single", "gone", "sub/"]\n')
    (root / "gone").unlink()
    with_folder = {"not_due": 1, "skipped": 5}  # sub is a name, too: two files below it are recorded
    assert with_folder == tallies(integrity.run("--json", "scan", expect=0))
    assert {"verified": 1, "skipped": 5} == tallies(integrity.run("--json", "scrub", expect=0))
    assert {"not_due": 1} == tallies(integrity.run("--json", "scan", root / "kept", expect=0))

    integrity.configure(root_only)
    scan = tallies(integrity.run("--json", "scan", expect=0))
    assert {"not_due": 4, "missing": 1} == scan
