"""Many files that go or change at once: held back until a person has looked (R5)."""

from __future__ import annotations

import os
import random
import shutil
from functools import partial
from pathlib import Path

import pytest

from integrity.catalog.findings import find_findings
from integrity.config import Config
from integrity.config.definition import MassChange, RootSettings
from integrity.jobs.options import ScanOptions
from integrity.jobs.runner import scan
from support.cli import Box
from support.documents import encrypt, make_content
from support.jobs import open_context
from support.planted import plant, plant_path
from support.results import kinds, messages, tallies
from support.shapes import put
from support.stored import baselines, count_rows, query, rewrite

COUNT = 1000
NOON = 1_800_014_400  # 12:00 UTC on some day


def edit(path: Path) -> None:
    """Rewrite a file as an editor or ransomware would."""
    put(path, b"something else " + os.urandom(16))


def held(integrity: Box) -> int:
    """Count what waits for a person."""
    return len(query(integrity, "SELECT file_id FROM candidate WHERE state = 'held'"))


def lose_six(root: Path, integrity: Box) -> Path:
    """Record 30 files, of which five may go, and remove six."""
    plant(root, 30)
    integrity.configure(f'[[root]]\npath = "{root}"\nmass_change = {{ files = 5, percent = 10 }}\n')
    integrity.run("scan", expect=0)
    for number in range(6):
        plant_path(root, number).unlink()
    return root


def make(path: Path, data: bytes) -> Path:
    """Write a file, in a folder that may be new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    put(path, data)
    return path


def put_mails(root: Path, count: int = 2000) -> None:
    """Make a maildir, whose files have no types."""
    for number in range(count):
        make(
            root / "mail" / "cur" / f"{1_700_000_000 + number}.M{number}P1.nas:2,S", b"From: me\nSubject: %d\n" % number
        )


def put_documents(folder: Path, kind: str, numbers: range, size: int | None = None) -> list[Path]:
    """Make files of a type; with a size, only so much of each."""
    source, paths = random.Random(7), [folder / f"{number}.{kind}" for number in numbers]
    for number, path in zip(numbers, paths, strict=True):
        make(path, make_content(kind, number, source)[:size])
    return paths


def test_renames_under_a_suffix_that_nobody_knows_are_held(tmp_path: Path, integrity: Box) -> None:
    """A few files beside a large maildir, all too small to be looked into: what they are called now is enough."""
    root = tmp_path / "root"
    put_mails(root)
    small = put_documents(root / "photos", "jpg", range(150), size=500)
    integrity.run("gate", root, expect=0)
    for mail in sorted((root / "mail" / "cur").iterdir())[:300]:
        mail.unlink()  # expunged on the same day
    encrypt(small, suffix=".locked")

    result = integrity.run("--json", "scan", root, expect=1)

    assert ["mass_change"] == kinds(result)
    assert "This looks like ransomware" in messages(result)
    assert "150 files were replaced by files with names ending in .locked" in messages(result)
    assert 450 == held(integrity)
    integrity.run("gate", root, expect=1)
    assert "ransomware" in messages(integrity.run("--json", "scan", root, expect=1))
    for path in small:  # what was encrypted is thrown away, and restored: nothing of that is to be accepted
        path.with_name(path.name + ".locked").unlink()
    put_documents(root / "photos", "jpg", range(150), size=500)
    result = integrity.run("--json", "scan", root, expect=1)
    assert "0 of 2,150 files changed, and 300 are gone" in messages(result)
    integrity.run("accept", root, "--deletions", "--reason", "old mails", "--yes", expect=0)
    integrity.run("scan", root, expect=0)
    assert 1850 == count_rows(integrity)


def test_few_encrypted_files_among_many_small_ones_are_held(tmp_path: Path, integrity: Box) -> None:
    """Names and folders as before; most are too small to be judged, so more are looked into until enough were."""
    root = tmp_path / "root"
    put_mails(root)
    small = put_documents(root / "photos", "jpg", range(200), size=500)
    large = put_documents(root / "photos", "jpg", range(200, 212))
    integrity.run("scan", root, expect=0)
    encrypt(small + large)

    result = integrity.run("--json", "scan", root, expect=1)

    assert ["mass_change"] == kinds(result)
    assert "12 of 12 sampled files are no longer valid jpg" in messages(result)


def test_encryption_in_small_steps_is_held(tmp_path: Path, integrity: Box) -> None:
    """What one scan sees of it is no pattern, what the day brought is."""
    root = tmp_path / "root"
    put_mails(root, 100)
    photos = put_documents(root / "photos", "jpg", range(48), size=500)
    integrity.run("scan", root, expect=0)
    for first, expected in ((0, 0), (12, 1)):
        encrypt(photos[first : first + 12], suffix=".x7Gh2")
        result = integrity.run("--json", "scan", root, expect=expected)

    assert "24 files were replaced by files with names ending in .x7gh2" in messages(result)
    assert 12 == held(integrity)


@pytest.mark.parametrize("is_type", [False, True])
def test_loss_of_most_of_a_group_is_held(tmp_path: Path, integrity: Box, is_type: bool) -> None:
    """The photos of a folder, or all of a type wherever they are, are gone, and are few beside the mails."""
    root = tmp_path / "root"
    put_mails(root)
    photos = [
        path
        for folder in range(3)
        for path in put_documents(
            root / (f"p{folder}" if is_type else "photos/2019"), "jpg", range(folder * 20, folder * 20 + 20)
        )
    ]
    for folder in range(3):
        put_documents(
            root / (f"p{folder}" if is_type else "photos/2020"), "pdf", range(100 + folder * 20, 120 + folder * 20)
        )
    put_documents(root / "other", "pdf" if is_type else "jpg", range(200, 300))
    integrity.configure(f'[[root]]\npath = "{root}"\nmass_change = {{ files = 50, percent = 20 }}\n')
    integrity.run("scan", expect=0)
    for _ in range(2):  # the same files twice are not twice as many
        for path in photos[:50]:
            put(path, make_content("jpg", 1, random.Random()))
        integrity.run("scan", expect=0)
    photos[50].unlink()

    result = integrity.run("--json", "scan", expect=1)

    assert ["mass_change"] == kinds(result)
    what = ".jpg files" if is_type else "pictures, films, music, documents and archives below photos/2019"
    assert f"51 of 60 {what} changed or are gone" in messages(result)


def test_ordinary_life_is_not_held(tmp_path: Path, integrity: Box) -> None:
    """What people and their programs do to many files in a day, each of it and all together."""
    root = tmp_path / "root"
    put_mails(root)
    sources = [make(root / "app" / "src" / f"{number}.js", b"let x = %d;\n" % number * 30) for number in range(40)]
    library = [make(root / "lib" / f"lib{number}.so.5.15.2", os.urandom(300)) for number in range(30)]
    songs = [make(root / "music" / "album" / f"{number}.mp3", b"ID3" + os.urandom(9000)) for number in range(20)]
    waves = [make(root / "music" / "cd" / f"{number}.wav", b"RIFF" + os.urandom(9000)) for number in range(30)]
    logs = [make(root / "log" / f"{number}.log", b"line\n" * 900) for number in range(25)]
    loose = [make(root / "app" / ".git" / "objects" / f"{number:02x}" / "38", os.urandom(200)) for number in range(60)]
    put_documents(root / "old-project", "pdf", range(100))
    put_documents(root / "old-project", "txt", range(100, 200))
    integrity.run("gate", root, expect=0)

    def rename(paths: list[Path], old: str, new: str, content: bytes) -> None:
        for path in paths:
            path.unlink()
            make(path.with_name(path.name.replace(old, new)), content + os.urandom(3000 if content != b"let" else 0))

    def convert() -> None:
        rename(waves, ".wav", ".flac", b"fLaC")

    def tag() -> None:
        for song in songs:
            put(song, b"ID3" + os.urandom(9000))

    def translate() -> None:
        for source in sources:
            make(source.with_suffix(".ts"), source.read_bytes() + b"// typed\n")
            source.unlink()

    def collect() -> None:
        for path in loose:
            path.unlink()
        make(root / "app" / ".git" / "objects" / "pack" / "pack-1.pack", b"PACK" + os.urandom(9000))

    days_work = (
        convert,
        tag,
        translate,
        collect,
        lambda: rename(library, ".15.2", ".15.8", b"\x7fELF"),
        lambda: rename(logs, ".log", ".log.gz", b"\x1f\x8b\x08"),
        lambda: put_documents(root / "import", "jpg", range(1000, 1200)) and None,
        lambda: shutil.rmtree(root / "old-project"),
    )
    for work in days_work:
        work()
        assert [] == integrity.run("--json", "scan", root, expect=0).findings
    integrity.run("gate", root, expect=0)


def test_mass_deletion_is_held(tmp_path: Path, integrity: Box) -> None:
    """600 of 1,000 files gone at once keep their records, while the rest is scrubbed and new files are recorded."""
    root = plant(tmp_path / "root", COUNT)
    integrity.run("scan", root, expect=0)
    before = baselines(integrity.catalog)
    for number in range(600):
        plant_path(root, number).unlink()
    put(root / "new.txt")

    result = integrity.run("--json", "scan", root, expect=1)

    assert ["mass_change"] == kinds(result)
    assert "600 are gone" in messages(result)
    assert {"missing": 600, "not_due": 400, "new": 1} == tallies(result)
    assert (COUNT + 1, 600) == (count_rows(integrity), held(integrity))
    scrub = integrity.run("--json", "scrub", root, expect=1)
    assert {"missing": 600, "verified": 401} == tallies(scrub)
    assert ["mass_change"] == kinds(scrub)
    assert "integrity accept" in integrity.run("scan", root, expect=1).stdout
    assert 1 == len(integrity.findings("findings"))
    after = baselines(integrity.catalog)
    missing = os.fsencode(plant_path(root, 5))
    assert before[missing] == after[missing]

    integrity.run("accept", root, "--deletions", "--reason", "moved to another box", "--yes", expect=0)

    assert 401 == count_rows(integrity)
    assert 0 == integrity.run("findings").code
    assert {"not_due": 401} == tallies(integrity.run("--json", "scan", root, expect=0))


def test_mass_change_is_held(tmp_path: Path, integrity: Box) -> None:
    """600 of 1,000 files rewritten at once keep their baselines until the changes are accepted."""
    root = plant(tmp_path / "root", COUNT)
    integrity.run("scan", root, expect=0)
    before = baselines(integrity.catalog)
    for number in range(600):
        edit(plant_path(root, number))

    result = integrity.run("--json", "scan", root, expect=1)

    assert ["mass_change"] == kinds(result)
    assert "600 of 1,000 files changed" in messages(result)
    assert {"changed": 600, "not_due": 400} == tallies(result)
    assert {"changed": 600, "verified": 400} == tallies(integrity.run("--json", "scrub", root, expect=1))
    path = os.fsencode(plant_path(root, 5))
    assert before[path] == baselines(integrity.catalog)[path]
    integrity.run("accept", root, "--changes", "--reason", "converted", "--yes", expect=0)
    assert 0 == integrity.run("findings").code
    assert before[path] != baselines(integrity.catalog)[path]
    assert {"not_due": COUNT} == tallies(integrity.run("--json", "scan", root, expect=0))
    assert {"verified": COUNT} == tallies(integrity.run("--json", "scrub", root, expect=0))
    history = integrity.json("explain", root / "d5" / "5.txt")[0]["history"]
    assert isinstance(history, list)
    assert 1 == len(history)


def test_files_that_come_back_end_the_mass_change(tmp_path: Path, integrity: Box) -> None:
    """Once all that was gone stands again, nothing is held, the finding is over, and nobody had to accept anything."""
    root = plant(tmp_path / "root", COUNT)
    integrity.run("scan", root, expect=0)
    for number in range(1, 7):
        shutil.move(root / f"d{number}", tmp_path / f"away{number}")
    assert ["mass_change"] == kinds(integrity.run("--json", "scan", root, expect=1))
    for number in range(1, 6):
        shutil.move(tmp_path / f"away{number}", root / f"d{number}")
    some = integrity.run("--json", "scan", root)
    remaining = len(list((tmp_path / "away6").iterdir()))
    assert remaining == held(integrity)
    assert {"missing": remaining, "not_due": COUNT - remaining} == tallies(some)
    shutil.move(tmp_path / "away6", root / "d6")

    result = integrity.run("--json", "scan", root, expect=0)

    assert {"not_due": COUNT} == tallies(result)
    assert 0 == held(integrity)
    assert 0 == integrity.run("findings").code
    edit(plant_path(root, 0))
    assert {"changed": 1, "not_due": COUNT - 1} == tallies(integrity.run("--json", "scan", root, expect=0))
    assert 0 == held(integrity)
    assert {"verified": COUNT} == tallies(integrity.run("--json", "scrub", root, expect=0))


def test_files_restored_after_a_mass_change_end_it(tmp_path: Path, integrity: Box) -> None:
    """600 files rewritten and then restored with their times are what was recorded: nothing is left to accept."""
    root = plant(tmp_path / "root", COUNT)
    shutil.copytree(root, tmp_path / "backup")
    integrity.run("scan", root, expect=0)
    before = baselines(integrity.catalog)
    for number in range(600):
        edit(plant_path(root, number))
    integrity.run("scan", root, expect=1)
    shutil.copytree(tmp_path / "backup", root, dirs_exist_ok=True)
    integrity.run("scrub", root)
    integrity.run("scrub", root, expect=0)
    assert 0 == held(integrity)
    assert 0 == integrity.run("findings").code
    after = baselines(integrity.catalog)
    assert {path: row[4:10] for path, row in before.items()} == {path: row[4:10] for path, row in after.items()}


def test_accepting_deletions_spares_what_came_back(tmp_path: Path, integrity: Box) -> None:
    """What stands again when the deletions are accepted stays recorded, though no scan has met it yet."""
    root = plant(tmp_path / "root", COUNT)
    integrity.run("scan", root, expect=0)
    for number in range(1, 7):
        shutil.move(root / f"d{number}", tmp_path / f"away{number}")
    integrity.run("scan", root, expect=1)
    shutil.move(tmp_path / "away3", root / "d3")
    integrity.run("accept", root, "--deletions", "--reason", "on purpose", "--yes", expect=0)
    here = sum(len(files) for _, _, files in os.walk(root))
    assert here == count_rows(integrity)
    assert {"not_due": here} == tallies(integrity.run("--json", "scan", root, expect=0))
    assert 0 == integrity.run("findings").code


def test_below_the_limits_changes_go_through(tmp_path: Path, integrity: Box) -> None:
    """More than 500 files but not more than 20 %, or more than 20 % but not more than 500 files, are taken over."""
    root = plant(tmp_path / "root", 3000)
    small = plant(tmp_path / "small", 100)
    integrity.run("scan", root, small, expect=0)
    for number in range(580):
        plant_path(root, number).unlink()
    for number in range(90):
        plant_path(small, number).unlink()
    result = integrity.run("--json", "scan", root, small, expect=0)
    assert {"missing": 670, "not_due": 2430} == tallies(result)
    assert 2430 == count_rows(integrity)


def test_share_is_of_all_that_was_looked_at(tmp_path: Path, integrity: Box) -> None:
    """599 of 3,000 removed files are less than 20 %: what is gone was looked at, too."""
    root = plant(tmp_path / "root", 3000)
    integrity.run("scan", root, expect=0)
    for number in range(599):
        plant_path(root, number).unlink()
    assert {"missing": 599, "not_due": 2401} == tallies(integrity.run("--json", "scan", root, expect=0))


def test_scrub_of_a_share_weighs_what_its_scan_looked_at(tmp_path: Path, integrity: Box) -> None:
    """A scrub that re-reads little still walks everything: 550 of 3,000 gone are no mass change."""
    root = plant(tmp_path / "root", 3000)
    integrity.run("scan", root, expect=0)
    integrity.run("scrub", root, expect=0)
    for number in range(550):
        plant_path(root, number).unlink()
    result = integrity.run("--json", "scrub", root, "--new", expect=0)
    assert {"missing": 550, "not_due": 2450} == tallies(result)
    assert 2450 == count_rows(integrity)


def test_waves_of_one_day_count_together(tmp_path: Path, integrity: Box) -> None:
    """300 and 300 within a day are 600; what a person accepted does not count again."""
    root = plant(tmp_path / "root", COUNT)
    integrity.run("scan", root, expect=0)
    for number in range(300):
        edit(plant_path(root, number))
    assert {"changed": 300, "not_due": 700} == tallies(integrity.run("--json", "scan", root, expect=0))
    for number in range(300, 600):
        edit(plant_path(root, number))
    result = integrity.run("--json", "scan", root, expect=1)
    assert ["mass_change"] == kinds(result)
    assert {"changed": 300, "not_due": 700} == tallies(result)
    assert 300 == held(integrity)
    assert "300 of 1,000 files changed" in messages(result)
    assert "(300 more within the day before)" in messages(result)
    integrity.run("accept", root, "--changes", "--reason", "batch job", "--yes", expect=0)
    edit(plant_path(root, 700))
    integrity.run("scan", root / "d0", expect=0)
    assert {"not_due": COUNT} == tallies(integrity.run("--json", "scan", root, expect=0))


def test_wave_that_waits_for_days_says_what_it_was_weighed_with(tmp_path: Path, integrity: Box) -> None:
    """Else its own number would lie below the limits that it is said to be beyond."""
    root = plant(tmp_path / "root", 30)
    integrity.configure(f'[[root]]\npath = "{root}"\nmass_change = {{ files = 5, percent = 10 }}\n')
    integrity.run("scan", expect=0)
    for expected, numbers in ((0, range(5)), (1, range(5, 8))):
        for number in numbers:
            edit(plant_path(root, number))
        integrity.run("scan", expect=expected)
    for sql in (
        "UPDATE finding SET opened_at = opened_at - 200000",
        "UPDATE run SET started_at = started_at - 200000, finished_at = finished_at - 200000",
        "UPDATE history SET replaced_at = replaced_at - 200000",
    ):
        rewrite(integrity, sql)
    edit(plant_path(root, 0))

    text = messages(integrity.run("--json", "scan", expect=1))

    assert "4 of 30 files changed" in text
    assert "(4 more within the day before)" in text


def test_changes_of_a_clock_that_was_ahead_are_no_part_of_the_day(tmp_path: Path, integrity: Box) -> None:
    """Else every honest change until that time were one too many."""
    root = plant(tmp_path / "root", 30)
    integrity.configure(f'[[root]]\npath = "{root}"\nmass_change = {{ files = 5, percent = 10 }}\n')
    integrity.run("scan", expect=0)
    for number in range(5):
        edit(plant_path(root, number))
    integrity.run("scan", expect=0)
    rewrite(integrity, "UPDATE history SET replaced_at = replaced_at + 31536000")
    edit(plant_path(root, 5))

    integrity.run("scan", expect=0)


def test_same_files_edited_again_and_again_are_no_wave(tmp_path: Path, integrity: Box) -> None:
    """Six of 30 files may change in a day, as often as they like; a seventh is too many."""
    root = plant(tmp_path / "root", 30)
    integrity.configure(f'[[root]]\npath = "{root}"\nmass_change = {{ files = 6, percent = 10 }}\n')
    integrity.run("scan", expect=0)
    for _ in range(4):
        for number in range(6):
            edit(plant_path(root, number))
        assert {"changed": 6, "not_due": 24} == tallies(integrity.run("--json", "scan", expect=0))
    edit(plant_path(root, 6))

    assert ["mass_change"] == kinds(integrity.run("--json", "scan", expect=1))


def test_part_of_a_root_is_not_blamed_for_the_day_before(tmp_path: Path, integrity: Box) -> None:
    """After many honest changes in a large root one more in a small folder of it is no mass change."""
    root = plant(tmp_path / "root", 4000)
    integrity.run("scan", root, expect=0)
    for number in range(550):
        edit(plant_path(root, number))
    integrity.run("scan", root, expect=0)
    edit(plant_path(root, 1001))
    path = plant_path(root, 1001)
    assert {"changed": 1} == tallies(integrity.run("--json", "scan", path, expect=0))


def test_while_a_wave_is_held_other_changes_wait_as_well(tmp_path: Path, integrity: Box) -> None:
    """The finding goes on telling the whole wave, also when a run met only a part of it."""
    root = plant(tmp_path / "root", COUNT)
    integrity.run("scan", root, expect=0)
    for number in range(600):
        plant_path(root, number).unlink()
    integrity.run("scan", root, expect=1)
    edit(plant_path(root, 700))
    result = integrity.run("--json", "scan", plant_path(root, 700), expect=1)
    assert {"changed": 1} == tallies(result)
    assert "1 of 1,000 files changed, and 600 are gone" in messages(result)
    assert 601 == held(integrity)
    integrity.run("accept", root, "--deletions", "--reason", "on purpose", "--yes", expect=0)
    assert 1 == held(integrity)
    assert 1 == integrity.run("findings").code
    integrity.run("accept", root, "--changes", "--reason", "on purpose", "--yes", expect=0)
    assert 0 == integrity.run("findings").code
    integrity.run("scan", root, expect=0)


def test_interrupted_wave_is_weighed_anew(tmp_path: Path, integrity: Box) -> None:
    """Limits of the config hold: with 5 files and 10 % the sixth of thirty is too much."""
    lose_six(tmp_path / "root", integrity)
    assert ["mass_change"] == kinds(integrity.run("--json", "scan", expect=1))
    assert 30 == count_rows(integrity)


def test_preview_asks_before_it_accepts(tmp_path: Path, integrity: Box) -> None:
    """Without --yes and without a terminal nothing is taken over, and the counts are shown."""
    root = lose_six(tmp_path / "root", integrity)
    integrity.run("scan", expect=1)
    result = integrity.run("accept", root, "--deletions", "--reason", "x")
    assert 0 != result.code
    assert "6 deleted files" in result.stdout
    assert 30 == count_rows(integrity)
    refused = integrity.run("accept", root, "--reason", "x", expect=2)
    assert "--deletions" in refused.stderr


def test_wave_is_weighed_against_what_was_recorded_before(tmp_path: Path) -> None:
    """Files that come back under another name are not counted twice, neither by the limits nor in the finding."""
    root = plant(tmp_path / "root", 30)
    settings = RootSettings(mass_change=MassChange(files=5, percent=30))
    said = []
    with open_context(tmp_path / "catalog.db", Config(defaults=settings)) as context:
        for day in range(3):
            context.clock = partial(float, NOON + day * 86_400)
            if day == 1:
                for number in range(10):
                    plant_path(root, number).unlink()
                    put(root / f"{number}.locked", os.urandom(50))
            scan(context, [os.fsencode(root)], ScanOptions())
            with context.catalog.read() as connection:
                said.append([one.message for one in find_findings(connection)])

    assert [] == said[0]
    assert [True, True] == ["of 30 files changed, and 10 are gone" in text for (text,) in said[1:]]
