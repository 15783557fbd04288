"""``compare`` as its user meets it: what is printed, how it exits, which copy is meant, what is refused."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest

from support.cli import Box, Completed
from support.comparing import back_up, compare, counts, said, steps
from support.planted import plant, plant_path
from support.shapes import damage, put

COUNT = 14
pytestmark = pytest.mark.files(COUNT, size_bytes=3000)


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


def test_what_is_printed_when_all_is_well(root: Path, copy: Path, integrity: Box) -> None:
    """How many files, that they are the same, and how that is known; with -q nothing."""
    done = integrity.run("compare", root, "--with", copy, expect=0)
    said_lines = lines_of(done.stdout)
    assert f"{COUNT} files: {COUNT} the same" in said_lines
    assert f"with {copy}: {COUNT} compared by reading the data back" in said_lines
    assert any(line.startswith("compare: the copy matches the record, after ") for line in said_lines)
    assert "" == integrity.run("-q", "compare", root, "--with", copy, expect=0).stdout


def test_what_is_printed_when_it_is_not(root: Path, copy: Path, integrity: Box) -> None:
    """Each finding with its place, its copy, how it is known and what to do; then all numbers, which add up."""
    integrity.run("scan", root, expect=0)
    put(plant_path(root, 1), b"edited")
    plant_path(copy, 2).unlink()
    os.truncate(plant_path(copy, 3), 10)
    put(copy / "extra")
    done = integrity.run("compare", root, "--with", copy, expect=1)
    printed = done.stdout
    bad = "1 OUT OF DATE in the backup, 1 MISSING from the backup, 1 INCOMPLETE in the backup"
    assert f"{COUNT} files: {COUNT - 3} the same, {bad}" in printed
    assert "1 file only in the backup" in printed
    assert f"copy_extra: {root / 'extra'}: is only in the copy" in printed
    assert f"Backup out of date  {plant_path(root, 1)}" in printed
    assert f"The backup in {copy} is an older version (its data was read back)" in printed
    assert f"The backup in {copy} is incomplete: it has the first 10 of " in printed
    assert f"The backup in {copy} does not contain this file." in printed
    assert f"- run the backup again, then compare:  integrity compare {plant_path(root, 2)} --with {copy}" in printed
    assert "4 findings" not in printed
    assert "3 findings open, 3 of them new" in printed
    quiet = integrity.run("-q", "compare", root, "--with", copy, expect=1).stdout
    assert "Missing from the backup" in quiet
    assert "copy_extra" not in quiet
    listed = integrity.run("findings", expect=1).stdout
    assert 3 == listed.count(f"  in {copy}")


def test_what_objects_have(root: Path, copy: Path, integrity: Box) -> None:
    """The summary names the copy and both levels; a finding names the copy, and the next step as a command."""
    plant_path(copy, 2).unlink()
    done = compare(integrity, root, "--with", copy, expect=1)
    own = {"copy": str(copy), "url": str(copy), "files_read": COUNT - 1, "files_published": 0, "files_extra": 0}
    assert own.items() <= done.summary.items()
    assert ("compare", "findings") == (done.summary["job"], done.summary["outcome"])
    (finding,) = done.findings
    assert str(copy) == finding["copy"]
    command = f"integrity compare {plant_path(root, 2)} --with {copy}"
    assert [{"words": "run the backup again, then compare", "command": command}] == finding["next_steps"]


def test_copy_with_a_name(root: Path, copy: Path, integrity: Box) -> None:
    """A copy of the configuration is called by its name, knows what it is a copy of, and needs no PATH."""
    integrity.configure(f'[[copy]]\nname = "nightly"\nof = "{root}"\nurl = "{copy}"\n')
    integrity.run("scan", root, expect=0)
    plant_path(copy, 2).unlink()
    done = integrity.run("compare", "--with", "nightly", expect=1)
    assert f"with nightly ({copy})" in done.stdout
    assert "The backup in nightly does not contain this file." in done.stdout
    part = compare(integrity, root / "d1", "--with", "nightly", expect=0)
    assert {"verified": 2} == counts(part)
    other = compare(integrity, root.parent, "--with", "nightly", expect=1)  # its folder: all of the copy
    assert {"copy_missing": {"d2/2.txt"}} == said(other, root)
    refused = integrity.run("compare", copy, "--with", "nightly", expect=2)
    assert f"nightly is a copy of {root}, which this is not in" in refused.stderr
    assert "there are nightly" in integrity.run("compare", "--with", "weekly", expect=2).stderr


def test_copy_that_was_compared_before(root: Path, copy: Path, integrity: Box, tmp_path: Path) -> None:
    """It needs no PATH again, from any folder and by a relative path; another root is no part of it."""
    compare(integrity, root, "--with", copy, expect=0)
    plant(tmp_path / "root2", 3)
    integrity.run("scan", tmp_path / "root2", expect=0)
    for given in ("copy", "./copy", "root2/../copy", f"{copy}/"):
        done = integrity.run("--json", "compare", "--with", given, cwd=tmp_path, expect=0)
        assert {"verified": COUNT} == counts(done)
    both = integrity.run("compare", root, tmp_path / "root2", "--with", copy, expect=2)
    assert "name the one folder that it is a copy of" in both.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{root}"], "Missing option '--with'"),
        (["{root}", "--with", "nothing-here"], "no copy of this name is configured"),
        (["{root}", "--with", "ftp://host/path"], "a copy at ftp:// can't be read"),
        (["{root}", "--with", "{copy}", "--read", "--read-percent", "5"], "exclude each other"),
        (["{root}", "--with", "{copy}", "--read-percent", "0"], "read-percent"),
        (["{root}", "--with", "{copy}", "--read-percent", "101"], "read-percent"),
        (["{root}", "--with", "{copy}", "--read-percent", "nan"], "read-percent"),
        (["{root}", "--with", "{copy}", "--endpoint", "http://localhost"], "an endpoint is for copies at s3://"),
        (["{root}", "--with", "{copy}", "--rate", "0"], "rate"),
        (["{root}", "--with", "{copy}", "--jobs", "0"], "jobs"),
        (["{root}/nope", "--with", "{copy}"], "nope"),
        (["--with", "{copy}"], "name one"),
    ],
)
def test_what_is_refused(
    root: Path, copy: Path, integrity: Box, tmp_path: Path, arguments: list[str], words: str
) -> None:
    """Exit 2, in words, and nothing was done."""
    given = [argument.format(root=root, copy=copy) for argument in arguments]
    done = integrity.run("compare", *given, cwd=tmp_path, expect=2)
    assert words in done.stderr
    assert "this is a bug" not in done.stderr


def test_commands_that_are_proposed_work(root: Path, integrity: Box, tmp_path: Path) -> None:
    """A copy and a root with blanks and quotes in their names are written so that a shell reads them back."""
    odd = root.rename(tmp_path / 'it\'s a "root"')
    copy = back_up(odd, tmp_path / "$HOME; copy")
    plant_path(copy, 2).unlink()
    (finding,) = compare(integrity, odd, "--with", copy, expect=1).findings
    steps = finding["next_steps"]
    assert isinstance(steps, list)
    arguments = shlex.split(steps[0]["command"])[1:]
    shutil.copy2(plant_path(odd, 2), plant_path(copy, 2))
    integrity.run(*arguments, expect=0)
    integrity.run("findings", expect=0)


def test_explain_and_status_know_the_copy(root: Path, copy: Path, integrity: Box) -> None:
    """Explain says what each copy said of the file last, status how well the copy is known."""
    os.truncate(plant_path(copy, 2), 10)
    compare(integrity, root, "--with", copy, expect=1)
    explained = integrity.run("explain", plant_path(root, 2), expect=1).stdout
    assert f"copy        {copy}: not the recorded content" in explained
    assert f"copy {copy}" in integrity.run("status", expect=1).stdout


def test_limits_and_jobs(root: Path, copy: Path, integrity: Box) -> None:
    """Limits that are not reached, and threads, change nothing of what is said."""
    for options in (["--jobs", "1"], ["--read"], ["--time-limit", "1h"], ["--byte-limit", "1G"], ["--rate", "1G"]):
        assert {"verified": COUNT} == counts(compare(integrity, root, "--with", copy, *options, expect=0))


def test_advice_follows_a_file_and_its_root(root: Path, copy: Path, integrity: Box) -> None:
    """The command names the place where the file is now, whatever it was called when the damage was found."""

    def listed() -> Completed:
        return integrity.run("--json", "findings")

    integrity.run("scan", root, expect=0)
    compare(integrity, root, "--with", copy, expect=0)
    damage(plant_path(root, 1), 100)
    integrity.run("scrub", root, expect=1)
    renamed = plant_path(root, 1).rename(root / "new name.jpg")
    integrity.run("scan", root)
    assert [f"integrity repair '{renamed}' --from {copy}"] == steps(listed(), "silent_rewrite")
    moved = root.rename(root.with_name("moved here"))
    integrity.run("root", "rebind", root, moved)
    (command,) = steps(listed(), "silent_rewrite")
    assert f"integrity repair '{moved / renamed.name}' --from {copy}" == command
    integrity.run(*shlex.split(command)[1:], "--apply", expect=0)
