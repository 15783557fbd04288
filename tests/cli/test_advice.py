"""Every command that is advised about a finding, or about many that are told as one, is understood as it stands."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from integrity.alerts.compose import Composer
from integrity.catalog.notified import PendingIncident
from integrity.jobs.repair.plan import CONTESTED
from integrity.kinds import ACCEPTABLE, REPAIRABLE
from integrity.model import Finding, FindingId, FindingKind, FindingState
from integrity.words.findings import gather, make_card, next_steps
from support.cli import Box
from support.comparing import back_up, compare
from support.planted import age
from support.shapes import damage

_ARCHIVE = '[[root]]\npath = "{root}"\npolicy = "archive"\n'
_COPY = '[[copy]]\nname = "nightly"\nof = "{root}"\nurl = "{copy}"\n'
_COMMAND = re.compile(r"(?<!')\bintegrity [^\n`]+")


def make_findings(kind: FindingKind, count: int = 1) -> list[Finding]:
    """Make open findings of a kind about files of one folder."""
    return [
        Finding(
            id=FindingId(number),
            kind=kind,
            state=FindingState.OPEN,
            root=b"/nowhere",
            path=b"album/%d.jpg" % number,
            message="why",
            opened_at=1_795_230_840,
            updated_at=1_795_230_840,
        )
        for number in range(1, count + 1)
    ]


def find_commands(text: str) -> list[list[str]]:
    """Return the words of each command in a text, with what a reader fills in."""
    text = text.replace("COPY", "nightly").replace("WHY", "'no reason'").replace("NEW", "/elsewhere")
    return [shlex.split(command)[1:] for command in _COMMAND.findall(text)]


def follow(integrity: Box, text: str) -> Iterator[list[str]]:
    """Carry out each command of a text, as a plan or after saying yes, and expect that it is understood."""
    for words in find_commands(text):
        words += ["--yes"] if words[0] == "accept" else []
        done = integrity.run(*words)
        assert done.code in (0, 1, 3), f"{words}: {done.stderr}"
        yield words


@pytest.mark.parametrize("kind", list(FindingKind))
def test_command_about_each_kind_is_understood(integrity: Box, kind: FindingKind) -> None:
    """For one finding, and for a group; the folder does not exist, but nothing is wrong with the words."""
    several = make_findings(kind, 3)
    groups = [make_card(group) for group in gather(several) if len(group) > 1]
    assert bool(groups) is (kind in ACCEPTABLE)
    for step in [*next_steps(several[0]), *(step for group in groups for step in group.steps)]:
        assert "integrity" not in step.words
        for words in find_commands(step.command or ""):
            assert "Usage: " not in integrity.run(*words).stderr, words


@pytest.mark.parametrize("kind", sorted(REPAIRABLE))
def test_group_never_leads_with_accepting(kind: FindingKind) -> None:
    """What is damaged is not blessed first: not on the terminal, on the page, or in a mail."""
    (group,) = gather(make_findings(kind, 3))
    commands = [step.command for step in make_card(group).steps if step.command]

    assert commands[0].split()[1] != "accept"
    written = kind in CONTESTED  # such a file is only repaired if it is named itself
    assert f"integrity repair {'FILE' if written else '/nowhere/album'} --from COPY" in commands
    news = [PendingIncident(one, is_change=False, coalesced=0) for one in group]
    body = Composer("nas").incident(news, 0).body
    assert "What to do: see the next step" not in body
    assert body.index(" repair ") < body.find(" accept ") or " accept " not in body


@pytest.fixture
def archive(integrity: Box, tmp_path: Path) -> Path:
    """An archive with an album of nine files, scanned and verified."""
    album = tmp_path / "archive/album"
    album.mkdir(parents=True)
    for number in range(9):
        (album / f"{number}.jpg").write_bytes(b"photo %d" % number)
    integrity.configure(_ARCHIVE.format(root=album.parent))
    age(*album.iterdir())
    integrity.run("scan", album.parent, expect=0)
    return album.parent


def test_advice_about_a_deleted_folder_can_be_followed(integrity: Box, archive: Path) -> None:
    """To bring it back, and to confirm that it was meant: with the reason, in a command of its own."""
    for one in (archive / "album").iterdir():
        one.unlink()
    said = integrity.run("scan", expect=1).stdout
    copy = back_up(archive, archive.with_name("nightly"))
    integrity.configure(
        f'{_ARCHIVE.format(root=archive)}[[copy]]\nname = "nightly"\nof = "{archive}"\nurl = "{copy}"\n'
    )

    done = list(follow(integrity, said))
    assert ["accept", str(archive / "album"), "--deletions", "--reason", "no reason", "--yes"] in done
    assert "no open findings" in integrity.run("findings", expect=0).stdout


def test_advice_about_rewritten_files_leads_to_the_backup(integrity: Box, archive: Path) -> None:
    """Nine files with other content under their old times: the good copies come first, accepting them last."""
    copy = back_up(archive, archive.with_name("nightly"))
    compare(integrity, archive, "--with", copy, expect=0)
    for one in (archive / "album").iterdir():
        damage(one)
    said = integrity.run("scrub", expect=1).stdout

    commands = [words for words in find_commands(said) if words[0] in ("repair", "accept")]
    assert [
        ["repair", str(archive / "album"), "--from", str(copy)],
        ["accept", str(archive / "album"), "--rewrites", "--reason", "no reason"],
    ] == commands
    assert list(follow(integrity, said))


@pytest.mark.parametrize("is_deletion", [True, False])
def test_advice_about_a_mass_change_can_be_followed(integrity: Box, tmp_path: Path, is_deletion: bool) -> None:
    """Whether files went or changed; how many is part of the first line."""
    root = tmp_path / "many"
    root.mkdir()
    for number in range(630):
        (root / str(number)).write_bytes(b"%d" % number)
    age(*root.iterdir())
    integrity.run("scan", root, expect=0)
    for number in range(600):
        if is_deletion:
            (root / str(number)).unlink()
        else:
            (root / str(number)).write_bytes(b"other %d" % number)
            os.utime(root / str(number), (2_000_000_000, 2_000_000_000))
    said = integrity.run("scan", root, expect=1).stdout

    assert said.index("disconnect the backups") < said.index("accept ")
    assert "mass change held back (600 files)" in integrity.run("status", expect=1).stdout.splitlines()[0]
    assert list(follow(integrity, said))
    assert "no open findings" in integrity.run("findings", expect=0).stdout


@pytest.mark.parametrize("is_folder", [True, False])
def test_what_stands_in_place_of_a_file_is_moved_away_first(integrity: Box, archive: Path, *, is_folder: bool) -> None:
    """A repair refuses to overwrite it; whoever does what is advised gets the file back, however often was scanned."""
    copy = back_up(archive, archive.with_name("nightly"))
    compare(integrity, archive, "--with", copy, expect=0)
    lost = archive / "album/3.jpg"
    lost.unlink()
    if is_folder:
        lost.mkdir()
    else:
        lost.symlink_to("4.jpg")
    (finding,) = [one for one in integrity.findings("scan", expect=1) if one["kind"] == "missing"]
    refused = integrity.run("repair", lost, "--from", copy, expect=1).stdout

    steps = finding["next_steps"]
    assert isinstance(steps, list)
    moving = f"mv {lost} {lost}.away"
    assert steps[0] == {"words": "move away what stands in its place first", "command": moving}
    assert f"{'a folder' if is_folder else 'a symbolic link'} stands in its place" in refused
    assert f"move that away first, then repair again: {moving}" in refused
    lost.rename(f"{lost}.away")
    integrity.run("repair", lost, "--from", copy, "--apply", expect=0)
    assert lost.read_bytes() == b"photo 3"


@pytest.mark.parametrize("is_compared", [True, False])
def test_archived_file_that_was_appended_to_can_be_repaired(
    integrity: Box, archive: Path, *, is_compared: bool
) -> None:
    """It may be a copy that goes on, or a mistake: both ways out are told, with the good copy if one is known."""
    copy = back_up(archive, archive.with_name("nightly"))
    if is_compared:
        compare(integrity, archive, "--with", copy, expect=0)
    longer = archive / "album/3.jpg"
    with longer.open("ab") as file:
        file.write(b"more")
    (finding,) = integrity.findings("scan", expect=1)
    steps = finding["next_steps"]
    assert isinstance(steps, list)

    assert str(steps[0]["words"]).startswith("complete the copy")
    source = str(copy) if is_compared else "COPY"
    assert f"integrity repair {longer} --from {source}" in [one["command"] for one in steps]
    known = f"; it can be repaired from {copy}" if is_compared else "; no good copy is known yet"
    assert f"1 file changed{known}." == integrity.run("status", expect=1).stdout.splitlines()[0]
