"""Signs of ransomware: what they are found in, and that ordinary changes show none."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import random
import zlib
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrity.catalog.gate_passes import PassedContent, RecordedChange
from integrity.jobs.gate.changes import Changes
from integrity.jobs.gate.file_types import HEAD_BYTES, ContentLook, Sample, find_suffix, is_even, look_at
from integrity.jobs.gate.sample import spread
from integrity.jobs.gate.signs import (
    LEAST_NOTE_FOLDERS,
    AppearedFile,
    SignKind,
    are_enough,
    find_arrivals,
    find_returned,
    find_signs,
)
from integrity.jobs.open_root import LEAST_PATTERN

KIB = 1 << 10
TEXT = b"".join(b"line %d of an ordinary text\n" % line for line in range(4000))


def make_changes(
    *,
    rewritten: Sequence[bytes] = (),
    removed: Sequence[bytes] = (),
    new: Sequence[bytes | RecordedChange] = (),
    known_before: int = 1000,
) -> Changes:
    """Make changes; a new path without a content is a file of its own."""
    standing = [one if isinstance(one, RecordedChange) else RecordedChange(one, make_content(one)) for one in new]
    counts = len(rewritten), len(removed), len(standing)
    return Changes(list(rewritten), list(removed), standing, [], *counts, known_before=known_before)


def make_content(seed: bytes, size_bytes: int = 1000) -> PassedContent:
    """Make the content of a small file."""
    return PassedContent(size_bytes, zlib.crc32(seed).to_bytes(16, "big"), None)


def kinds(changes: Changes, *groups: Sequence[ContentLook], arrivals: Sequence[AppearedFile] = ()) -> set[SignKind]:
    """Find the kinds of the signs with the usual limits."""
    return {sign.kind for sign in find_signs(changes, groups, arrivals, most_files=500, most_percent=20)}


def look(
    suffix: bytes = b"jpg", *, is_typed: bool = True, is_lost: bool = False, is_random: bool = False
) -> ContentLook:
    """Make a look at a file."""
    return ContentLook(suffix, is_typed, is_lost, is_random)


SCRAMBLED_PHOTO = look(is_lost=True, is_random=True)


@pytest.mark.parametrize(("count", "known", "is_found"), [(501, 2000, True), (500, 2000, False), (501, 2505, False)])
def test_many_rewritten_files_are_a_sign_beyond_both_limits(count: int, known: int, is_found: bool) -> None:
    """More than 500 files and more than 20 percent of those that were there."""
    changes = make_changes(rewritten=[b"d/%d" % number for number in range(count)], known_before=known)

    assert is_found == (SignKind.REWRITTEN in kinds(changes))


@pytest.mark.parametrize(
    "name", ["{}.jpg.locked", "{}.locked", "{}.jpg.id-1A2B.[me@there.org].locked", "{}.jpg.a.b.LOCKED"]
)
def test_renamed_files_are_a_sign(name: str) -> None:
    """Whether a suffix was added, more was added, or the suffix was replaced."""
    removed = [b"d/%d.jpg" % number for number in range(LEAST_PATTERN)]
    new = [b"d/" + name.format(number).encode() for number in range(LEAST_PATTERN)]

    assert {SignKind.RENAMED} == kinds(make_changes(removed=removed, new=new))
    assert set(new) == set(find_returned(make_changes(removed=removed, new=new)))
    assert not kinds(make_changes(removed=removed, new=new[1:]))


@pytest.mark.parametrize(
    ("removed", "new"),
    [
        (b"d/a.jpg", b"e/a.jpg.locked"),
        (b"d/a.jpg", b"d/b.jpg.locked"),
        (b"d/a", b"d/ab"),
        (b"d/.a", b"d/.b"),
        (b"d/a.jpg", b"d/a"),
    ],
)
def test_other_names_stand_for_nothing_that_is_gone(removed: bytes, new: bytes) -> None:
    """Another folder, another name, or a name that was only made shorter is no return; many pieces return once."""
    assert [] == find_returned(make_changes(removed=[removed], new=[new]))
    pieces = [b"d/home.tar.gz.%02d" % number for number in range(30)]
    assert pieces[:1] == find_returned(make_changes(removed=[b"d/home.tar.gz"], new=pieces))


@pytest.mark.parametrize(
    ("gone", "came", "known"),
    [
        pytest.param(b"%d.jpg", 10, 400, id="packed into a few"),
        pytest.param(b"%d.jpg", 400, 801, id="most are still there"),
        pytest.param(b"%d", 400, 400, id="an encrypted store"),
        pytest.param(b"%d.jpg", 400, 0, id="never passed"),
    ],
)
def test_random_files_are_no_sign_while_others_are_not_replaced_by_them(gone: bytes, came: int, known: int) -> None:
    """One for each that is gone, of those that were of known types, and most of all."""
    removed = [gone % number for number in range(400)]
    changes = make_changes(removed=removed, new=[b"n%d.xyz" % number for number in range(came)], known_before=known)
    blobs = [look(b"xyz", is_typed=False, is_random=True)] * 32

    assert not kinds(changes, arrivals=[AppearedFile(came, blobs)])


def test_files_that_went_for_many_reasons_are_no_sign() -> None:
    """Twenty rotated logs among a hundred deleted files are an ordinary week."""
    removed = [b"d/%d.log" % number for number in range(100)]
    new = [b"d/%d.log.gz" % number for number in range(30)]

    assert not kinds(make_changes(removed=removed, new=new))


def test_same_new_file_in_many_changed_folders_is_a_sign() -> None:
    """A note lies in the folders whose files were rewritten."""
    note = make_content(b"pay")
    rewritten = [b"d%d/x.jpg" % number for number in range(10)]
    new = [RecordedChange(b"d%d/README.txt" % number, note) for number in range(LEAST_NOTE_FOLDERS)]

    assert {SignKind.NOTES} == kinds(make_changes(rewritten=rewritten, new=new))
    assert not kinds(make_changes(rewritten=rewritten, new=new[1:]))


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(
            [RecordedChange(b"d%d/cover.jpg" % n, make_content(b"%d" % n)) for n in range(10)], id="other content"
        ),
        pytest.param([RecordedChange(b"d%d/.nomedia" % n, make_content(b"", 0)) for n in range(10)], id="empty"),
        pytest.param([RecordedChange(b"d%d/film" % n, make_content(b"", 1 << 30)) for n in range(10)], id="large"),
        pytest.param([RecordedChange(b"e%d/LICENSE" % n, make_content(b"MIT")) for n in range(10)], id="other folders"),
        pytest.param([RecordedChange(b"d1/%d.txt" % n, make_content(b"pay")) for n in range(10)], id="one folder"),
        pytest.param(
            [RecordedChange(b"d%d/x" % n, PassedContent(9000, None, None)) for n in range(10)], id="no digest"
        ),
    ],
)
def test_ordinary_new_files_are_no_notes(new: list[RecordedChange]) -> None:
    """What a music tagger, a package or a download leaves in many folders is none."""
    assert not kinds(make_changes(rewritten=[b"d%d/x.jpg" % number for number in range(10)], new=new))


def test_lost_types_and_random_bytes_are_two_signs() -> None:
    """Damage spoils what a file is, encryption also leaves it random; of fewer than eight nothing is said."""
    nothing = make_changes()

    assert {SignKind.TYPES_LOST, SignKind.SCRAMBLED} == kinds(nothing, [SCRAMBLED_PHOTO] * 8)
    assert {SignKind.TYPES_LOST} == kinds(nothing, [look(is_lost=True)] * 8)
    assert not kinds(nothing, [SCRAMBLED_PHOTO] * 7)
    assert not kinds(nothing, [SCRAMBLED_PHOTO] * 7 + [look()] * 8)
    both = kinds(nothing, [SCRAMBLED_PHOTO] * 10, [look()] * 64)  # new photos do not hide what was rewritten
    assert {SignKind.TYPES_LOST, SignKind.SCRAMBLED} == both


def test_random_files_of_unknown_types_are_a_sign_only_if_they_are_different() -> None:
    """A folder full of one program's encrypted blobs is no sign."""
    blobs = [look(b"", is_typed=False, is_random=True)] * 30
    mixed = [look(b"%d" % (number % 3), is_typed=False, is_random=True) for number in range(30)]

    assert not kinds(make_changes(), blobs)
    assert {SignKind.SCRAMBLED} == kinds(make_changes(), mixed)


@pytest.mark.parametrize("size_kib", [4, 16, 64])
def test_random_bytes_look_even_and_text_does_not(size_kib: int) -> None:
    """Seeded, for of ten thousand random pieces one may look otherwise."""
    pieces = [random.Random(seed).randbytes(size_kib * KIB) for seed in range(50)]

    assert all(is_even(piece) for piece in pieces)
    assert not is_even(TEXT[: size_kib * KIB])


@pytest.mark.parametrize("compress", [bz2.compress, gzip.compress, lzma.compress, zlib.compress])
def test_compressed_files_are_taken_for_what_they_are(compress: object) -> None:
    """By their mark, whatever they are called."""
    assert callable(compress)
    data = compress(b"".join(b"%d %s\n" % (number, os.urandom(9).hex().encode()) for number in range(50_000)))
    sample = Sample(b"d/something", data[:HEAD_BYTES], data[len(data) // 2 :][: 64 * KIB])

    assert look_at(sample) == ContentLook(b"", is_typed=False, is_lost=False, is_random=False)


@pytest.mark.parametrize(
    ("name", "head"),
    [
        (b"a.jpg", b"\xff\xd8\xff\xe1" + os.urandom(HEAD_BYTES)),
        (b"a.JPG", b"\x89PNG\r\n\x1a\n" + os.urandom(HEAD_BYTES)),  # misnamed, which is no damage
        (b"a.pdf", b"\n\n%PDF-1.4" + os.urandom(HEAD_BYTES)),
        (b"a.mov", b"\0\0\0\x14ftypqt  " + os.urandom(HEAD_BYTES)),
        (b"a.jpg", b"version https://git-lfs.github.com/spec/v1\n" * 60),
        (b"a.doc", b"{\\rtf1 " + TEXT[:HEAD_BYTES]),
        (b"a.txt", TEXT[:HEAD_BYTES]),
        (b"a.txt", "Привет, мир. ".encode("cp1251") * 200),
        (b"a.txt", "日本語の文章です。".encode("shift-jis") * 200),
        (b"a.csv", "a;b\n".encode("utf-16") * 100),
        (b"a.jpg.xmp", b"<?xml version='1.0'?>" * 200),
        (b"a.log.gz", gzip.compress(os.urandom(HEAD_BYTES))),
    ],
)
def test_files_that_are_in_order_look_so(name: bytes, head: bytes) -> None:
    """Neither lost nor random."""
    found = look_at(Sample(b"some/folder/" + name, head[:HEAD_BYTES], is_renamed=True))

    assert found is not None
    assert (True, False, False) == (found.is_typed, found.is_lost, found.is_random)


@pytest.mark.parametrize(
    ("name", "is_renamed", "expected"),
    [
        *((name, True, (True, True, True)) for name in (b"a.jpg", b"a.jpg.locked", b"A.DOCX.id-7.[x@y.z].abc")),
        *((name, True, (True, True, True)) for name in (b"a.txt", b"a.csv.dat", b"a.mp4")),
        # pieces of an archive and encrypted backups were never what stands before their last suffix
        *((name, False, (False, False, True)) for name in (b"home.tar.gz.00", b"b-1.tar.gz.enc", b"a.jpg.locked")),
    ],
)
def test_random_bytes_are_encrypted_or_never_were_of_a_type(
    name: bytes, is_renamed: bool, expected: tuple[bool, ...]
) -> None:
    """The type before a suffix that means nothing is the one that was, if the file was renamed."""
    found = look_at(Sample(name, random.Random(7).randbytes(HEAD_BYTES), is_renamed=is_renamed))

    assert found is not None
    assert expected == (found.is_typed, found.is_lost, found.is_random)


def test_zeros_in_the_place_of_content_are_lost_and_not_random() -> None:
    """What a power cut or a failing disk leaves is no encryption."""
    found = look_at(Sample(b"a.jpg", bytes(HEAD_BYTES)))

    assert found is not None
    assert (True, False) == (found.is_lost, found.is_random)


@pytest.mark.parametrize(
    "name", [b"a.jpg.gpg", b"a.txt.age", b"vault.hc", b"app.js.br", b"a.docx.p7m", b"disk.img", b"x.bin"]
)
def test_what_is_encrypted_on_purpose_says_nothing(name: bytes) -> None:
    """So does a type that may hold anything."""
    assert look_at(Sample(name, os.urandom(HEAD_BYTES))) is None


@given(st.binary(max_size=300), st.binary(max_size=5000), st.binary(max_size=200))
def test_any_name_and_content_can_be_looked_at(name: bytes, head: bytes, middle: bytes) -> None:
    """Names and bytes come from whoever wrote them."""
    look_at(Sample(name, head, middle))
    find_suffix(name, is_renamed=False)
    find_suffix(name, is_renamed=True)
    changes = make_changes(rewritten=[name], removed=[name + b"/x", b"x" + name], new=[name + b".x", name])
    find_arrivals(changes)
    find_signs(changes, [[]], [], most_files=500, most_percent=20)


@pytest.mark.parametrize(
    ("old", "new", "is_found", "is_enough"),
    [
        ("{}.jpg", "{}.jpg.locked", True, True),
        ("{}.docx", "{}.x7gh2", True, True),
        ("{}.wav", "{}.flac", True, False),
        ("{}.log", "{}.log.gz", True, False),
        ("{}.pdf", "{}.pdf.gpg", True, False),
        ("lib{}.so.5.15.2", "lib{}.so.5.15.8", True, False),
        ("{}.jpg", "{}_new.locked", False, False),
    ],
)
def test_suffix_that_nobody_knows_is_enough(old: str, new: str, is_found: bool, is_enough: bool) -> None:
    """Conversions, packing, encryption by the owner and new versions end in suffixes that mean something."""
    numbers = range(LEAST_PATTERN)
    changes = make_changes(
        removed=[f"d/{old.format(number)}".encode() for number in numbers],
        new=[f"d/{new.format(number)}".encode() for number in numbers],
    )

    found = find_signs(changes, [], [], most_files=500, most_percent=20)

    assert (is_found, is_enough) == (bool(found), are_enough(found))


@pytest.mark.parametrize(("sound", "bad", "is_enough"), [(8, 0, False), (7, 0, True), (8, 8, True), (9, 8, False)])
def test_renamed_files_that_are_sound_are_not_enough(sound: int, bad: int, is_enough: bool) -> None:
    """Sources that were renamed to another language's suffix are still text: looked into, most of them speak for it."""
    changes = make_changes(
        removed=[b"d/%d.js" % number for number in range(LEAST_PATTERN)],
        new=[b"d/%d.quux" % number for number in range(LEAST_PATTERN)],
    )
    looks = [look(b"quux", is_typed=False)] * sound + [look(b"quux", is_typed=False, is_random=True)] * bad

    assert is_enough == are_enough(find_signs(changes, [[], looks], [], most_files=500, most_percent=20))


def test_files_that_go_elsewhere_do_not_hide_renamed_ones() -> None:
    """Thousands of mails are expunged on the day on which the photos beside them are encrypted."""
    photos = [b"photos/%d.jpg" % number for number in range(LEAST_PATTERN)]
    changes = make_changes(
        removed=[*photos, *(b"mail/%d" % number for number in range(3000))], new=[path + b".locked" for path in photos]
    )

    assert SignKind.RENAMED in kinds(changes)


def test_too_little_says_nothing_unless_it_can_be_read() -> None:
    """Empty files, and those of a few bytes, look like anything; what can be read is not encrypted."""
    for size in (0, 10, 63):
        assert look_at(Sample(b"a.txt", os.urandom(size))) is None
    assert look_at(Sample(b"a.jpg", os.urandom(1000))) is None
    assert look_at(Sample(b"a.ts", TEXT[:256])) == ContentLook(b"ts", is_typed=False, is_lost=False, is_random=False)
    assert look_at(Sample(b"a.ts", TEXT[:255])) is None
    assert look_at(Sample(b"a.ts", random.Random(3).randbytes(2000))) is None


@given(st.lists(st.binary(min_size=1, max_size=8), unique=True, max_size=300), st.integers(1, 40))
def test_samples_are_spread_over_all(paths: list[bytes], most: int) -> None:
    """As many as there are up to the limit, none twice, the first of all first, with even steps."""
    chosen = list(spread(paths, most))

    assert min(len(paths), most) == len(set(chosen)) == len(chosen)
    assert not paths or min(paths) == chosen[0]
    places = [sorted(paths).index(path) for path in sorted(chosen)]
    steps = {after - before for before, after in pairwise(places)}
    assert not places or places[0] == 0
    assert not steps or max(steps) - min(steps) <= 1


_NAMES = st.from_regex(rb"[a-z]{1,6}(\.[a-z]{1,4}){0,2}", fullmatch=True)


@given(
    rewritten=st.lists(_NAMES, max_size=400, unique=True),
    removed=st.lists(_NAMES, max_size=LEAST_PATTERN - 1, unique=True),
    new=st.lists(_NAMES, max_size=60, unique=True),
)
def test_ordinary_edits_show_no_sign(rewritten: list[bytes], removed: list[bytes], new: list[bytes]) -> None:
    """Whatever files are called: below the limits, with content that is in order, nothing is noticed."""
    looks = [look(), look(b"txt"), look(b"", is_typed=False)] * 10

    assert not kinds(make_changes(rewritten=rewritten, removed=removed, new=new), looks, looks)
