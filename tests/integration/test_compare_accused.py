"""Stores that accuse good files: their checksums are not those of the data, so accused files are read back first."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from integrity.arbitration import CopyVote, Level
from integrity.catalog.copies import ensure_copy
from integrity.catalog.copy_listing import order_files, page_files
from integrity.copies.opening import open_copy
from integrity.jobs.compare.copy_answer import CopyAnswer
from integrity.jobs.compare.evidence import CopyEvidence
from integrity.jobs.compare.listing import CopyListing
from integrity.jobs.compare.renamed import RenamedFiles
from integrity.jobs.context import RootRun, RunLimit
from integrity.jobs.options import CompareOptions, ScanOptions
from integrity.jobs.report import Compared
from integrity.jobs.runner import run_on, scan
from integrity.model import Job
from support import AnyPath
from support.cli import Box, Completed
from support.comparing import check_sum, counts, said
from support.jobs import open_context
from support.machine import need_programs
from support.results import tallies
from support.s3box import CLIENT_ENV
from support.strangestore import Stated, StrangeStore

NOT_OF_THE_DATA = "checksums that this store keeps are not those of the data"
OF_INTACT_FILES = "the store keeps other checksums for"


def make_data(name: str) -> bytes:
    """Return the content of a file of a root."""
    return name.encode() * 100


def make_strange_etag(name: str) -> str:
    """Return 32 digits that say nothing of the content."""
    return hashlib.md5(b"inode of " + name.encode()).hexdigest()


class Pair:
    """
    A root, and a strange store that it was uploaded to.

    Attributes:
        objects: by name in the root; change them before comparing.
        by_rclone: whether to ask the store by rclone.
    """

    def __init__(self, integrity: Box, root: Path) -> None:
        self.integrity, self.root = integrity, root
        self.objects: dict[str, Stated] = {}
        self.by_rclone = False

    def add(
        self, name: str, *, etag: str | None = None, stored: bytes | None = None, encryption: str | None = None
    ) -> None:
        """Add a file; its object has a strange ETag unless told otherwise, and the file's content."""
        data = make_data(name)
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        headers = {} if encryption is None else {"x-amz-server-side-encryption": encryption}
        stored = data if stored is None else stored
        self.objects[name] = Stated(len(stored), etag or make_strange_etag(name), headers, stored)

    def add_many(self, folder: str, number: int, *, encryption: str | None = None) -> list[str]:
        """Add files of a folder; return their names in order of recording, which is that of a first comparison."""
        names = [f"{folder}/{each:03}" for each in range(number)]
        for name in names:
            self.add(name, encryption=encryption)
        return names

    def damage(self, name: str, *, etag: str | None = None) -> None:
        """Flip a bit of an object."""
        data = bytearray(make_data(name))
        data[50] ^= 1
        old = self.objects[name]
        self.objects[name] = Stated(len(data), etag or old.etag, old.headers, bytes(data))

    def compare(self, *options: AnyPath, expect: int) -> tuple[Completed, set[str]]:
        """Record the root, compare, and return also the names of objects whose bytes were read."""
        self.integrity.run("scan", self.root)
        with StrangeStore({f"backup/{name}": one for name, one in self.objects.items()}) as store:
            env = dict(CLIENT_ENV)
            where = ["s3://bucket/backup", "--endpoint", store.url]
            if self.by_rclone:
                env |= {
                    "RCLONE_S3_ENDPOINT": store.url,
                    "RCLONE_S3_PROVIDER": "Minio",
                    "RCLONE_S3_ENV_AUTH": "true",
                }
                where = ["rclone::s3:bucket/backup"]
            command = ["--json", "compare", self.root, "--with", *where, *options]
            done = self.integrity.run(*command, env=env, expect=expect)
        check_sum(done)
        return done, {key.removeprefix("backup/") for key in store.read}


@pytest.fixture
def pair(integrity: Box, tmp_path: Path) -> Pair:
    """Make an empty root, and an empty store."""
    (tmp_path / "root").mkdir()
    return Pair(integrity, tmp_path / "root")


def warnings(done: Completed, words: str) -> list[str]:
    """Return the warnings of a run that have these words."""
    return [str(note["message"]) for note in done.of_type("note") if words in str(note["message"])]


@pytest.mark.parametrize("by_rclone", [False, True])
def test_few_accused_files_are_verified_by_reading(pair: Pair, by_rclone: bool) -> None:
    """Fewer than twenty files whose data is right are verified, and that their checksums are not is said once."""
    if by_rclone:
        need_programs("rclone")
    pair.by_rclone = by_rclone
    names = pair.add_many("photos", 5)
    done, read = pair.compare(expect=0)

    assert {"verified": 5} == counts(done)
    assert set(names) == read
    assert (5, 0) == (done.summary["files_read"], done.summary["files_published"])
    (warning,) = warnings(done, OF_INTACT_FILES)
    assert "5 files" in warning


def test_sort_of_which_twenty_are_right_is_not_comparable(pair: Pair) -> None:
    """After twenty good files of each folder the rest is left unread, counted, and told once; nothing is damaged."""
    photos, music = pair.add_many("photos", 30), pair.add_many("music", 25)
    done, read = pair.compare(expect=3)

    assert {"verified": 40, "skipped": 15, "not_comparable": 15} == counts(done)
    assert (20, 20) == (len(read & set(photos)), len(read & set(music)))
    assert ["copy_not_comparable"] == [finding["kind"] for finding in done.findings]
    assert "15 files could not be compared" in str(done.findings[0]["message"])
    (warning,) = warnings(done, "40 files were read back")
    assert NOT_OF_THE_DATA in warning
    assert "15 were not read" in warning
    assert "--read" in warning
    whole, read = pair.compare("--read", expect=0)
    assert {"verified": 55} == counts(whole)
    assert 55 == len(read)


@pytest.mark.long
@pytest.mark.parametrize("by_rclone", [False, True])
def test_damage_among_strange_checksums_is_found(pair: Pair, by_rclone: bool) -> None:
    """One file among the first that is damaged keeps its sort under suspicion: all are read, and only it differs."""
    if by_rclone:
        need_programs("rclone")
    pair.by_rclone = by_rclone
    names = pair.add_many("photos", 30)
    pair.damage(names[7])
    done, read = pair.compare(expect=1)

    assert {names[7]} == set.union(*said(done, pair.root).values())
    assert {"verified": 29, "changed": 1} == tallies(done)
    assert set(names) == read


def test_damage_behind_the_first_twenty_is_never_called_good(pair: Pair) -> None:
    """It is one of those that are not comparable; reading finds it."""
    names = pair.add_many("photos", 40)
    pair.damage(names[39])
    done, read = pair.compare(expect=3)
    assert names[39] not in read
    assert {"verified": 20, "skipped": 20} == tallies(done)

    done, read = pair.compare("--read", expect=1)
    assert {names[39]} == set.union(*said(done, pair.root).values()) - {""}


@pytest.mark.long
def test_file_that_is_too_large_to_be_read_is_judged_by_its_sort(pair: Pair) -> None:
    """An object beyond the limit of 4 GiB is not comparable if twenty others of its folder show strange checksums."""
    size = (4 << 30) + 1
    pair.add("photos/film")
    os.truncate(pair.root / "photos" / "film", size)
    pair.objects["photos/film"] = Stated(size, make_strange_etag("film"))
    pair.add_many("photos", 20)
    done, read = pair.compare(expect=3)

    assert {"copy_not_comparable": {"", "photos/film"}} == said(done, pair.root)
    assert 20 == len(read)


def test_sorts_do_not_speak_for_each_other(pair: Pair) -> None:
    """What is strange in one folder or encryption hides nothing in another."""
    strange = pair.add_many("photos", 25) + pair.add_many("mixed", 25, encryption="AES256")
    truthful = ["music/song", "mixed/plain", "at the top"]
    for name in truthful:
        pair.add(name)
        pair.damage(name)
        pair.damage(name, etag=hashlib.md5(pair.objects[name].data or b"").hexdigest())
    done, read = pair.compare(expect=1)

    assert set(truthful) == said(done, pair.root)["copy_conflict"]
    assert {"changed": 3, "verified": 40, "skipped": 10} == tallies(done)
    assert 40 == len(read & set(strange))


def test_share_that_is_read_is_no_reason_to_accuse(pair: Pair) -> None:
    """With ``--read-percent``, files beyond the share are accused of nothing; they are read some other time."""
    pair.add_many("photos", 60)
    done, read = pair.compare("--read-percent", "10", expect=0)

    assert {"verified": 26, "not_due": 34} == tallies(done)
    assert 26 == len(read)


def test_md5_in_every_spelling_is_compared(pair: Pair) -> None:
    """ETags in capitals, weak, or without quotation marks decide without any download; damage shows by them."""

    def spell(name: str, data: bytes | None) -> str:
        return ('"{}"', "{}", 'W/"{}"')[int(name) % 3].format(hashlib.md5(data or b"").hexdigest().upper())

    for name in "012345678":
        pair.add(name, etag=spell(name, make_data(name)))
    done, read = pair.compare(expect=0)
    assert ({"verified": 9}, set()) == (counts(done), read)

    for name in "345":
        pair.damage(name)
        pair.damage(name, etag=spell(name, pair.objects[name].data))
    done, read = pair.compare(expect=1)
    assert {*"345"} == set.union(*said(done, pair.root).values()) == read


def test_accused_file_that_cannot_be_read_is_not_damaged(pair: Pair) -> None:
    """What the store refuses to give is unreadable, and that its checksum differs is said."""
    pair.add("refused")
    pair.objects["refused"] = pair.objects["refused"].__class__(700, make_strange_etag("refused"))
    done, _ = pair.compare(expect=3)

    assert {"copy_unreadable": {"refused"}} == said(done, pair.root)
    assert "not the recorded one, and the data can't be read" in str(done.findings[0]["message"])


def test_limit_of_a_run_ends_reading_of_accused_files(pair: Pair) -> None:
    """A run that may read only so much leaves the other accused files for the next one."""
    names = pair.add_many("photos", 15)
    size = len(make_data(names[0]))
    done, read = pair.compare("--byte-limit", str(3 * size), expect=0)

    assert 3 == len(read)
    assert {"verified": 3, "not_due": 12} == tallies(done)


@pytest.mark.parametrize("by_rclone", [False, True])
def test_object_that_rotted_in_the_store_is_damaged_there(pair: Pair, by_rclone: bool) -> None:
    """Its checksum is the recorded one, so only reading finds it, and then it is known which side is damaged."""
    if by_rclone:
        need_programs("rclone")
    pair.by_rclone = by_rclone
    pair.add("file", etag=hashlib.md5(make_data("file")).hexdigest())
    pair.damage("file")
    done, read = pair.compare(expect=0)
    assert ({"verified": 1}, set()) == (counts(done), read)
    done, read = pair.compare("--read", expect=1)
    assert {"copy_differs": {"file"}} == said(done, pair.root)


@pytest.mark.parametrize("etag_is", ["recorded", "of the object", "strange"])
def test_store_that_contradicts_itself_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, etag_is: str) -> None:
    """Bytes that differ while the store still states the recorded checksum are damaged there; no other ones are."""
    for name, value in CLIENT_ENV.items():
        monkeypatch.setenv(name, value)
    root = tmp_path / "root"
    root.mkdir()
    data, stored = make_data("good"), make_data("evil")
    (root / "file").write_bytes(data)
    etags = {"recorded": data, "of the object": stored, "strange": b"inode"}
    objects = {"backup/file": Stated(len(stored), hashlib.md5(etags[etag_is]).hexdigest(), {}, stored)}
    taken: list[CopyAnswer | None] = []
    with open_context(tmp_path / "catalog.db") as context, StrangeStore(objects) as store:
        scan(context, [bytes(root)], ScanOptions())

        def work(run: RootRun) -> None:
            with open_copy("s3://bucket/backup", endpoint=store.url) as copy:
                listing = CopyListing(run, copy, b"")
                listing.read()
                with run.catalog.snapshot() as connection:
                    known = ensure_copy(connection, run.root.id, b"", "store", copy.url, None, now=run.now())
                    order_files(connection, known.id, run.root.id, b"")
                    rows = page_files(connection, known.id, 0, 10)
                evidence = CopyEvidence(
                    *(run, copy, listing, CompareOptions("store", read=True), Compared("store", copy.shown), len(data)),
                    limit=RunLimit(run, until=None, until_bytes=None),
                    renamed=RenamedFiles(run, copy, listing, reads=False),
                    take=lambda row, answer: taken.append(answer),
                    verify=lambda record, reading: None,
                )
                assert [] == list(evidence.query_all(rows))

        run_on(context, bytes(root), Job.COMPARE, work)
    (answer,) = taken
    assert answer is not None
    assert (CopyVote.DIFFERS, Level.READ) == (answer.vote, answer.level)
    assert (etag_is == "recorded") == answer.is_store_contradicted


def test_size_that_differs_is_found_in_every_sort(pair: Pair) -> None:
    """A cut-off object is named although twenty others show that the checksums of its folder are strange."""
    pair.add_many("photos", 25)
    pair.add("photos/cut", stored=make_data("photos/cut")[:100])
    done, _ = pair.compare(expect=1)

    found = said(done, pair.root)
    assert 6 == len(found.pop("copy_not_comparable"))  # five files, and the copy as a whole
    assert {"photos/cut"} == set.union(*found.values())
