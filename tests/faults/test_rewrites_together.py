"""Hundreds of files that one program rewrote under their old times: told as one thing, accepted together."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.bitrot import rot
from support.cli import Box
from support.loopfs import LoopFS
from support.planted import age
from support.shapes import damage, put

pytestmark = pytest.mark.root
COUNT = 40


@pytest.fixture
def root(ext4: LoopFS, integrity: Box) -> Path:
    """Record photos in two folders."""
    root = ext4.folder / "photos"
    for year in ("2019", "2020"):
        (root / year).mkdir(parents=True)
    for number in range(COUNT):
        put(root / ("2019" if number % 4 else "2020") / f"{number}.jpg", os.urandom(3000))
    age(*root.rglob("*.jpg"))
    integrity.run("scrub", root, expect=0)
    return root


def test_rewrites_are_told_by_folder_and_accepted_together(root: Path, integrity: Box) -> None:
    """A tagger that restores times: two entries instead of forty, a preview, and rot among them is left out."""
    for path in root.rglob("*.jpg"):
        if path.name != "1.jpg":
            damage(path, 1000)
    rot(root / "2019" / "1.jpg", 500)
    done = integrity.run("scrub", root, expect=1)
    assert "29 findings: Content changed, modification time did not" in done.stdout
    assert "10 findings: Content changed, modification time did not" in done.stdout
    assert f"integrity accept {root / '2019'} --rewrites --reason WHY" in done.stdout
    assert len(done.stdout.splitlines()) < 60
    refused = integrity.run("accept", root, "--changes", "--yes", "--reason", "tagged", expect=2)
    assert "--rewrites" in refused.stderr
    asked = integrity.run("accept", root / "2019", "--rewrites", "--reason", "tagged", expect=2)
    assert "29 rewritten files" in asked.stdout
    done = integrity.run("accept", root, "--rewrites", "--yes", "--reason", "tagged", expect=0)
    assert f"{COUNT - 1} rewritten" in done.stdout
    assert ["rot"] == [one["kind"] for one in integrity.findings("findings", expect=1)]
    integrity.run("scrub", root, expect=1)


def test_mail_tells_them_by_folder(root: Path, integrity: Box) -> None:
    """Few files are told one by one."""
    for path in sorted(root.rglob("*.jpg"))[:3]:
        damage(path, 1000)
    done = integrity.run("scrub", root, expect=1)
    assert "findings: Content changed" not in done.stdout
    assert 3 == done.stdout.count("Content changed, modification time did not  ")
