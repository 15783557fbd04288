"""What commands record in the history of actions: who decided what, about which file, and what came of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integrity.catalog.connection import Catalog
from integrity.catalog.runs import Action, find_actions
from integrity.jobs.actor import COMMAND_LINE
from integrity.model import ActionVerb
from support.cli import Box
from support.comparing import back_up, compare
from support.planted import age, plant
from support.repairs import BLOCK, CONFIG, blocks
from support.shapes import damage

ARCHIVE = '[[root]]\npath = "{path}"\npolicy = "archive"\n'


def list_actions(integrity: Box) -> list[Action]:
    """Return all actions, oldest first."""
    with Catalog.open(bytes(integrity.catalog), writes=False) as catalog, catalog.read() as c:
        return [one.action for one in reversed(find_actions(c))]


@pytest.fixture
def archive(integrity: Box, tmp_path: Path) -> Path:
    """An archive in which one file was changed, and one removed."""
    folder = plant(tmp_path / "data", 4)
    integrity.configure(ARCHIVE.format(path=folder))
    integrity.run("scan", expect=0)
    changed, removed, *_ = sorted(folder.rglob("*.txt"))
    changed.write_text("changed content")
    removed.unlink()
    integrity.run("scan", expect=1)
    return folder


def test_decisions_about_findings_and_files_are_recorded(integrity: Box, archive: Path) -> None:
    """With the user, the file, the findings and the reason."""
    first, second = integrity.findings("findings", expect=1)
    integrity.run("ack", str(first["id"]), expect=0)
    integrity.run("mute", str(first["id"]), str(second["id"]), "--until", "2030-01-02", expect=0)
    paths = [Path(str(one["path"])) for one in (first, second)]
    for path in paths:
        integrity.run("accept", path, "--reason", "meant", expect=0)
    acked, muted, *accepted = list_actions(integrity)
    names = [bytes(path.relative_to(archive)) for path in paths]

    assert (ActionVerb.ACK, bytes(archive), names[0]) == (acked.verb, acked.root, acked.path)
    assert ((first["id"],), "acknowledged") == (acked.findings, acked.outcome)
    assert (COMMAND_LINE, True) == (acked.actor.address, f"uid {os.getuid()}" in acked.actor.who)
    assert (ActionVerb.MUTE, None, (first["id"], second["id"])) == (muted.verb, muted.path, muted.findings)
    assert muted.outcome.startswith("muted until 2030-01-0")
    assert [(ActionVerb.ACCEPT, "meant")] * 2 == [(one.verb, one.reason) for one in accepted]
    assert names == [one.path for one in accepted]
    assert [(first["id"],), (second["id"],)] == [one.findings for one in accepted]


def test_refused_decision_is_not_recorded(integrity: Box, archive: Path) -> None:
    """Nothing was done."""
    (first, _) = integrity.findings("findings", expect=1)
    integrity.run("ack", str(first["id"]), "99", expect=2)
    integrity.run("root", "resume", archive, expect=2)

    assert [] == list_actions(integrity)


def test_accepted_folder_is_recorded_once(integrity: Box, archive: Path) -> None:
    """With how many files it concerned."""
    integrity.run("accept", archive, "--deletions", "--reason", "tidied up", "--yes", expect=0)
    (done,) = list_actions(integrity)

    assert (ActionVerb.ACCEPT, bytes(archive), None) == (done.verb, done.root, done.path)
    assert ("accepted 0 changed and 1 deleted files", "tidied up") == (done.outcome, done.reason)


def test_decisions_about_roots_are_recorded(integrity: Box, tmp_path: Path) -> None:
    """Pausing, resuming, releasing, moving and forgetting; the history outlives the root."""
    root = plant(tmp_path / "data", 3)
    integrity.run("scan", root, expect=0)
    integrity.run("root", "pause", root, expect=0)
    integrity.run("root", "resume", root, expect=0)
    root.rename(tmp_path / "moved")
    root.mkdir()
    integrity.run("scan", root, expect=3)
    integrity.run("root", "release", root, "--files-gone", expect=0)
    integrity.run("root", "rebind", root, tmp_path / "moved", "--no-scrub", expect=0)
    one = next((tmp_path / "moved").rglob("*.txt"))
    integrity.run("forget", one, "--yes", expect=0)
    integrity.run("forget", tmp_path / "moved", "--yes", expect=0)
    done = list_actions(integrity)

    verbs = ["pause", "resume", "release", "rebind", "forget", "forget"]
    assert verbs == [action.verb.value for action in done]
    moved = bytes(tmp_path / "moved")
    assert [bytes(root)] * 3 + [moved] * 3 == [action.root for action in done]
    assert f"rebound from {root}; recorded files missing at the new place: 0" == done[3].outcome
    assert bytes(one.relative_to(tmp_path / "moved")) == done[4].path
    assert "forgotten: recorded files: 2, open findings: 0" == done[5].outcome


def test_forgotten_copy_is_recorded(integrity: Box, tmp_path: Path) -> None:
    """With its name."""
    root = plant(tmp_path / "root", 3)
    integrity.run("scan", root, expect=0)
    copy = back_up(root, tmp_path / "copy")
    compare(integrity, root, "--with", copy, expect=0)
    integrity.run("forget", "--copy", copy, "--yes", expect=0)
    (done,) = list_actions(integrity)

    assert f"the copy {copy} was forgotten: compared files: 3" == done.outcome


def test_repairs_are_recorded_with_what_came_of_them(integrity: Box, tmp_path: Path) -> None:
    """A plan is no action; a repair names the copy and the blocks."""
    integrity.configure(CONFIG)
    for place in ("root", "copy"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "a").write_bytes(blocks(3))
    age(tmp_path / "root/a")
    integrity.run("scan", tmp_path / "root", expect=0)
    damage(tmp_path / "root/a", BLOCK + 5)
    integrity.run("scrub", tmp_path / "root", expect=1)
    (finding,) = integrity.findings("findings", expect=1)
    repair = ("repair", tmp_path / "root/a", "--from", tmp_path / "copy")
    integrity.run(*repair, expect=0)
    before = list_actions(integrity)
    integrity.run(*repair, "--apply", expect=0)
    (done,) = list_actions(integrity)

    assert [] == before
    assert (ActionVerb.REPAIR, b"a", (finding["id"],)) == (done.verb, done.path, done.findings)
    assert f"repaired from {tmp_path}/copy (block 1)" in done.outcome
