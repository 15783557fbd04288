"""``integrity repair`` as its user meets it: plans, words, exit codes, objects."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.cli import Box
from support.planted import age
from support.repairs import BLOCK, CONFIG, blocks, leftovers
from support.shapes import damage
from support.stored import query, tamper

GOOD = blocks(3)


@pytest.fixture
def root(integrity: Box, tmp_path: Path) -> Path:
    """Record two files that a copy has, and damage one of them in two blocks."""
    integrity.configure(CONFIG)
    make(integrity, tmp_path)
    damage(tmp_path / "root/a b", 5, 3 * BLOCK + 1)
    integrity.run("scrub", tmp_path / "root", expect=1)
    return tmp_path / "root"


def make(integrity: Box, folder: Path) -> None:
    """Record two files that a copy has."""
    for place in ("root", "copy"):
        (folder / place / "sub").mkdir(parents=True)
        (folder / place / "a b").write_bytes(GOOD)
        (folder / place / "sub/c").write_bytes(b"whole")
    age(folder / "root/a b", folder / "root/sub/c")
    integrity.run("scan", folder / "root", expect=0)


def test_plan_says_what_a_worried_owner_asks(integrity: Box, root: Path, tmp_path: Path) -> None:
    """Which file, how much of it, from where, what proves it, what will be done, where the damaged one is kept."""
    before = os.stat(root / "a b")

    done = integrity.run("repair", root / "a b", "--from", tmp_path / "copy", expect=0)

    assert f"{root}/a b: can be repaired" in done.stdout
    assert "2 blocks: 0, 3 of 4" in done.stdout
    assert f"intact in {tmp_path}/copy" in done.stdout
    assert "recorded 20" in done.stdout
    assert ".a b.integrity-ID" in done.stdout
    assert f"integrity repair '{root}/a b' --from {tmp_path}/copy --apply" in done.stdout
    assert before == os.stat(root / "a b")
    assert not leftovers(root)


def test_plan_is_quiet_when_all_can_be_repaired(integrity: Box, root: Path, tmp_path: Path) -> None:
    """With -q only what is wrong with the plan is said."""
    assert not integrity.run("-q", "repair", root / "a b", "--from", tmp_path / "copy", expect=0).stdout
    (tmp_path / "copy/a b").unlink()
    assert "CAN'T" in integrity.run("-q", "repair", root / "a b", "--from", tmp_path / "copy", expect=1).stdout


def test_applied_repair_is_told_and_remembered(integrity: Box, root: Path, tmp_path: Path) -> None:
    """The name of the damaged file is printed, its finding is over, ``explain`` knows why; nothing is left to do."""
    done = integrity.run("repair", root, "--from", tmp_path / "copy", "--apply", expect=0)

    (kept,) = leftovers(root)
    assert str(kept) in done.stdout
    assert GOOD == (root / "a b").read_bytes()
    integrity.run("findings", expect=0)
    story = integrity.run("explain", root / "a b", expect=0).stdout
    assert f": repaired from {tmp_path}/copy (blocks 0, 3); the damaged file was kept as {kept.name}\n" in story
    assert "formerly" not in story
    (file,) = integrity.json("explain", root / "a b")
    assert "repaired" == file["history"][0]["because"]  # type: ignore[index]
    assert "nothing to repair" in integrity.run("repair", root, "--from", tmp_path / "copy", expect=0).stdout
    again = integrity.run("repair", root / "a b", "--from", tmp_path / "copy", "--apply", expect=0)
    assert "nothing to repair" in again.stdout
    summary = integrity.summary("scan", root, expect=0)
    assert 1 == summary["files_skipped"]  # the kept one
    assert 2 == summary["files_not_due"]
    assert query(integrity, "SELECT name FROM file ORDER BY name") == [(b"a b",), (b"c",)]


def test_discarded_file_is_gone_once_the_good_one_was_verified(integrity: Box, root: Path, tmp_path: Path) -> None:
    """Nothing is kept if that was asked for; only together with doing it."""
    integrity.run("repair", root, "--from", tmp_path / "copy", "--discard", expect=2)
    done = integrity.run("--json", "repair", root, "--from", tmp_path / "copy", "--apply", "--discard", expect=0)
    assert done.of_type("repair")[0]["kept"] is None
    assert GOOD == (root / "a b").read_bytes()
    assert not leftovers(root)


def test_objects(integrity: Box, root: Path, tmp_path: Path) -> None:
    """The plan and the deed are one object each, with the real names."""
    done = integrity.run("--json", "repair", root / "a b", "--from", tmp_path / "copy", "--apply", expect=0)
    (plan,), (deed,) = done.of_type("repair_plan"), done.of_type("repair")
    mends = [{"copy": str(tmp_path / "copy"), "blocks": [0, 3]}]
    assert {
        "path": f"{root}/a b",
        "root": str(root),
        "standing": "repairable",
        "findings": ["silent_rewrite"],
        "size_bytes": len(GOOD),
        "found_size_bytes": len(GOOD),
        "block_size_bytes": BLOCK,
        "blocks": 4,
        "damaged_blocks": [0, 3],
        "missing_blocks": [],
        "mends": mends,
        "names": [{"path": f"{root}/a b"}],
    }.items() <= plan.items()
    assert (True, mends) == (deed["is_repaired"], deed["mends"])
    assert str(deed["kept"]).startswith(f"{root}/.a b.integrity-")


def test_block_that_no_copy_has_good(integrity: Box, root: Path, tmp_path: Path) -> None:
    """The block is named, nothing is done, and with another copy it can be."""
    with open(tmp_path / "copy/a b", "r+b") as file:
        file.write(b"damaged")
    before = (root / "a b").read_bytes()
    done = integrity.run("repair", root / "a b", "--from", tmp_path / "copy", "--apply", expect=1)
    assert "block 0 of 4" in done.stdout
    assert "not intact in any copy" in done.stdout
    assert before == (root / "a b").read_bytes()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/a b").write_bytes(GOOD[:BLOCK])  # another length: what it has may be good
    integrity.run(
        "repair", root / "a b", "--from", tmp_path / "copy", "--from", tmp_path / "other", "--apply", expect=0
    )
    assert GOOD == (root / "a b").read_bytes()


def test_copy_that_can_not_be_reached(integrity: Box, root: Path, tmp_path: Path) -> None:
    """It is told, and is an error only if no other copy has what is needed."""
    (tmp_path / "absent").mkdir()
    alone = integrity.run("repair", root / "a b", "--from", tmp_path / "absent", "--apply", expect=3)
    assert "can't be reached" in alone.stdout
    assert not leftovers(root)
    both = ("--from", tmp_path / "absent", "--from", tmp_path / "copy")
    assert "can't be reached" in integrity.run("repair", root / "a b", *both, "--apply", expect=0).stdout
    assert GOOD == (root / "a b").read_bytes()


def test_manifest_has_no_bytes_to_lend(integrity: Box, root: Path, tmp_path: Path) -> None:
    """That a copy has digests only is said."""
    manifest = tmp_path / "sums"
    manifest.write_text(integrity.run("sum", tmp_path / "copy/a b", expect=0).stdout)
    done = integrity.run("repair", root / "a b", "--from", manifest, expect=1)
    assert "it has checksums only, no data" in done.stdout


def test_copies_of_the_configuration_are_asked_without_from(integrity: Box, root: Path, tmp_path: Path) -> None:
    """All of them, by name; a name that is none is a slip of the pen."""
    copy = f'[[copy]]\nname = "nightly"\nof = "{root}"\nurl = "{tmp_path}/copy"\n'
    assert "no copy of it is known" in integrity.run("repair", root / "a b", expect=1).stdout
    integrity.configure(CONFIG + copy)
    assert "in nightly" in integrity.run("repair", root, expect=0).stdout
    integrity.run("repair", root, "--from", "nightly", "--apply", expect=0)
    integrity.run("repair", root, "--from", "nighty", "--apply", expect=2)
    assert "repaired from nightly" in integrity.run("explain", root / "a b", expect=0).stdout


def test_files_that_are_not_what_they_seem(integrity: Box, root: Path, tmp_path: Path) -> None:
    """Unknown, outside of all roots, without a finding: nothing is done, and what to do is said."""
    (root / "unknown").write_bytes(b"x")
    assert "not recorded" in integrity.run("repair", root / "unknown", expect=2).stderr
    assert "no recorded folder" in integrity.run("repair", tmp_path / "copy", expect=2).stderr
    assert "intact" in integrity.run("repair", root / "sub/c", "--from", tmp_path / "copy", expect=0).stdout
    damage(root / "sub/c", 1)
    done = integrity.run("repair", root / "sub/c", "--from", tmp_path / "copy", "--apply", expect=1)
    assert "integrity scrub" in done.stdout
    assert b"whole" != (root / "sub/c").read_bytes()


def test_edited_file_of_a_mutable_root_is_left_alone(integrity: Box, root: Path, tmp_path: Path) -> None:
    """An edit is nobody's damage; also one that was made after the file had been judged."""
    (root / "sub/c").write_bytes(b"edited")
    integrity.run("repair", root / "sub/c", "--from", tmp_path / "copy", "--apply", expect=1)
    (root / "a b").write_bytes(b"edited")
    integrity.run("repair", root, "--from", tmp_path / "copy", "--apply", expect=1)
    assert [b"edited"] * 2 == [(root / name).read_bytes() for name in ("sub/c", "a b")]
    assert not leftovers(root)


@pytest.mark.parametrize("command", ["scan", "scrub", "gate"])
def test_file_that_was_rewritten_after_the_verdict(integrity: Box, root: Path, tmp_path: Path, command: str) -> None:
    """What its owner saved since is not replaced because a run has seen it meanwhile; only if the file is named."""
    (root / "a b").write_bytes(b"the owner's new text")
    age(root / "a b")
    seen = integrity.run(command, root)

    folder = integrity.run("repair", root, "--from", tmp_path / "copy", "--apply", "--discard", expect=1)

    assert b"the owner's new text" == (root / "a b").read_bytes()
    assert f"integrity accept '{root}/a b' --reason WHY" in folder.stdout
    assert "name the file itself" in folder.stdout
    if command == "scrub":
        assert "was written to after the problem was found" in seen.stdout
    plan = integrity.run("repair", root / "a b", "--from", tmp_path / "copy", expect=0)
    assert "it was written to since it was recorded" in plan.stdout
    integrity.run("repair", root / "a b", "--from", tmp_path / "copy", "--apply", expect=0)
    assert GOOD == (root / "a b").read_bytes()
    assert [b"the owner's new text"] == [path.read_bytes() for path in leftovers(root)]


def test_changed_file_of_an_archive(integrity: Box, tmp_path: Path) -> None:
    """Somebody wrote to it, so it must be named itself; then the recorded bytes and their time are put back."""
    root = tmp_path / "root"
    integrity.configure(f'{CONFIG}[[root]]\npath = "{root}"\npolicy = "archive"\n')
    make(integrity, tmp_path)
    before = (root / "a b").stat().st_mtime_ns
    (root / "a b").write_bytes(b"changed, and shorter")
    age(root / "a b")
    integrity.run("scan", root, expect=1)

    folder = integrity.run("repair", root, "--from", tmp_path / "copy", "--apply", expect=1)
    assert "name the file itself" in folder.stdout
    assert b"changed, and shorter" == (root / "a b").read_bytes()
    integrity.run("repair", root / "a b", "--from", tmp_path / "copy", "--apply", expect=0)

    assert GOOD == (root / "a b").read_bytes()
    assert before == (root / "a b").stat().st_mtime_ns
    assert [b"changed, and shorter"] == [path.read_bytes() for path in leftovers(root)]
    integrity.run("scan", root, expect=0)
    integrity.run("scrub", root, expect=0)
    integrity.run("findings", expect=0)


def test_file_that_is_gone_from_an_archive(integrity: Box, tmp_path: Path) -> None:
    """It is made anew with its recorded time and the copy's mode, and so is its folder."""
    root = tmp_path / "root"
    integrity.configure(f'{CONFIG}[[root]]\npath = "{root}"\npolicy = "archive"\n')
    make(integrity, tmp_path)
    (tmp_path / "copy/a b").chmod(0o640)
    (tmp_path / "copy/sub").chmod(0o750)
    before = (root / "a b").stat().st_mtime_ns
    (root / "a b").unlink()
    (root / "sub/c").unlink()
    (root / "sub").rmdir()
    (root / "other").write_bytes(b"the root is not empty")
    integrity.run("scan", root, expect=1)

    planned = integrity.run("repair", root, "--from", tmp_path / "copy", expect=0)
    assert f"the missing folder {root}/sub is created again\n" in planned.stdout
    assert not (root / "sub").exists()
    integrity.run("repair", root, "--from", tmp_path / "copy", "--apply", expect=0)

    assert GOOD == (root / "a b").read_bytes()
    assert b"whole" == (root / "sub/c").read_bytes()
    assert 0o40750 == (root / "sub").stat().st_mode
    assert (before, 0o100640) == ((root / "a b").stat().st_mtime_ns, (root / "a b").stat().st_mode)
    assert not leftovers(root)
    integrity.run("scan", root, expect=0)
    integrity.run("findings", expect=0)


def test_folder_that_is_gone_is_taken_from_a_copy_of_it(integrity: Box, tmp_path: Path) -> None:
    """A path that was never compared is a copy of what is named with it, as of a folder that is there."""
    root = tmp_path / "root"
    integrity.configure(f'{CONFIG}[[root]]\npath = "{root}"\npolicy = "archive"\n')
    make(integrity, tmp_path)
    (root / "sub/c").unlink()
    (root / "sub").rmdir()
    integrity.run("scan", root, expect=1)

    integrity.run("repair", root / "sub", "--from", tmp_path / "copy/sub", "--apply", expect=0)

    assert b"whole" == (root / "sub/c").read_bytes()
    integrity.run("findings", expect=0)


def test_record_that_is_damaged_proves_nothing(integrity: Box, root: Path, tmp_path: Path) -> None:
    """Without a baseline that can be relied on nothing is put back."""
    tamper(integrity, "UPDATE file SET md5 = zeroblob(16) WHERE name = ?", (b"a b",))
    done = integrity.run("repair", root / "a b", "--from", tmp_path / "copy", "--apply", expect=1)
    assert "catalog check" in done.stdout
    assert not leftovers(root)


@pytest.mark.parametrize("name", [b"x" * 255, b"new\nline \\ \xff", "ü".encode() * 127])
def test_names_of_any_bytes_and_length(integrity: Box, tmp_path: Path, name: bytes) -> None:
    """A name that leaves no room is shortened in that of the kept file; the plan's command can be pasted."""
    integrity.configure(CONFIG)
    for place in (b"root", b"copy"):
        folder = os.fsencode(tmp_path) + b"/" + place
        os.mkdir(folder)
        with open(folder + b"/" + name, "wb") as file:
            file.write(GOOD)
    path = os.fsencode(tmp_path) + b"/root/" + name
    age(Path(os.fsdecode(path)))
    integrity.run("scan", tmp_path / "root", expect=0)
    damage(path, 5)
    integrity.run("scrub", tmp_path / "root", expect=1)

    integrity.run("repair", path, "--from", tmp_path / "copy", "--apply", expect=0)

    with open(path, "rb") as file:
        assert GOOD == file.read()
    assert 1 == len(leftovers(tmp_path / "root"))
    integrity.run("scrub", tmp_path / "root", expect=0)


def test_root_that_is_not_itself(integrity: Box, root: Path, tmp_path: Path) -> None:
    """Nothing is written where another disk may be."""
    root.rename(tmp_path / "moved")
    root.mkdir()
    integrity.run("repair", root / "a b", "--from", tmp_path / "copy", "--apply", expect=3)
    assert not list(root.iterdir())


def test_root_that_somebody_works_on(integrity: Box, root: Path, tmp_path: Path) -> None:
    """A scan that runs is not disturbed; who holds the root is said."""
    import fcntl

    (root_id,) = query(integrity, "SELECT id FROM root")[0]
    with open(f"{integrity.catalog}.root-{root_id}.lock", "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = integrity.run("repair", root / "a b", "--from", tmp_path / "copy", "--apply", expect=4)
    assert "another job" in done.stderr
    assert not leftovers(root)
