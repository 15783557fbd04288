"""The parts of a repair that need no file: names, what stands in the catalog about one, and who may be touched."""

from __future__ import annotations

import hashlib
import os
from itertools import product

import pytest
from xxhash import xxh3_128_digest

from integrity.catalog.root_meta import REPAIRS, JournalPlace, Repair, find_repairs, save_repair
from integrity.files.excludes import Excludes
from integrity.jobs.repair.inspect import Expected, Inspection
from integrity.jobs.repair.plan import find_refusal
from integrity.jobs.repair.targets import MADE_SUFFIX, make_id, name_backup
from integrity.kinds import CONTENT_FINDINGS
from integrity.model import Blocks, Capability, Digests, Finding, FindingId, FindingKind, FindingState, ReadHow
from support.catalogs import NOW, CatalogBox, make_reading
from support.reading import make_capability

KEPT = b".a.integrity-0123456789abcdef"


@pytest.mark.parametrize("name", [b"a", b".a", b"x" * 255, "ü".encode() * 127, b"\xff" * 255, b"\xa0" * 250, b"a\nb"])
def test_names_that_a_repair_gives(name: bytes) -> None:
    """They fit, are left out of everything, are no part of a character, and differ from one repair to the next."""
    kept = name_backup(name, make_id())
    assert kept != name_backup(name, make_id())
    for one in (kept, kept + MADE_SUFFIX):
        assert len(one) <= 255
        assert Excludes(builtin=False).covers(one)
        assert name[:200] in one
    if name.isascii() or name.startswith("ü".encode()):
        assert kept.decode()


def test_repairs_under_way_are_kept_with_their_root(tmp_path: os.PathLike[str]) -> None:
    """What was written is read, of one root only; what is damaged, or speaks of other names, is nobody's repair."""
    with CatalogBox(os.path.join(os.fsencode(tmp_path), b"catalog.db")) as box:
        repair = Repair(
            "0123456789abcdef", (JournalPlace(b"d", b"\xff\n", KEPT + MADE_SUFFIX, KEPT),), "from X", (1, 2, -3)
        )
        gone = Repair("0123456789abcdee", (JournalPlace(b"", b"a", KEPT + MADE_SUFFIX, KEPT),), "from X", None)
        odd = [
            JournalPlace(b"", b"a", b"b", KEPT),
            JournalPlace(b"", b"a/b", KEPT, KEPT),
            JournalPlace(b"", b"a", b"../" + KEPT, KEPT),
        ]
        with box.catalog.transaction() as c:
            save_repair(c, box.root, repair)
            save_repair(c, box.root, gone)
            for index, place in enumerate(odd):
                save_repair(c, box.root, Repair(f"odd{index}", (place,), "", None))
        with box.catalog.transaction() as c:
            assert [gone, repair] == find_repairs(c, box.root)
            REPAIRS.drop(c, box.root.id, gone.id)
            assert [repair] == find_repairs(c, box.root)


def test_only_what_a_finding_says_and_nothing_moved_since_is_touched() -> None:
    """Over all ways in which a witness can have moved: without a finding never, after it never, before it sometimes."""
    record_witness = make_reading("a").witness
    capability = make_capability()
    later_ns = (NOW + 100) * 10**9
    for size, mtime, ctime, inode, kind in product(
        (5000, 5001), (0, 1), (0, 1), (77, 78), (None, *sorted(CONTENT_FINDINGS), FindingKind.TRANSIENT)
    ):
        seen = (size, record_witness.mtime_ns + mtime * 10**11, later_ns if ctime else record_witness.ctime_ns, inode)
        for judged_at in (NOW + 50, NOW + 200):
            refusal = ask(capability, seen, kind, judged_at)
            is_judged = kind in CONTENT_FINDINGS
            is_later = bool(ctime) and judged_at < NOW + 100
            is_written = bool(mtime) and bool(ctime)
            assert (refusal is None) == (is_judged and not is_later and not is_written), (
                seen,
                kind,
                judged_at,
                refusal,
            )


def ask(
    capability: Capability, seen: tuple[int, int, int, int], kind: FindingKind | None, judged_at: int
) -> str | None:
    """Ask whether a file that was recorded may be touched."""
    size, mtime_ns, ctime_ns, inode = seen
    stat = os.stat_result(
        (0o100644, inode, 1, 1, 0, 0, size, 0, 0, 0),
        {"st_mtime_ns": mtime_ns, "st_ctime_ns": ctime_ns, "st_atime_ns": 0},
    )
    found = [] if kind is None else [Finding(FindingId(1), kind, FindingState.OPEN, b"/", b"a", "", NOW, judged_at)]
    with_record = type("Record", (), {"witness": make_reading("a").witness})()
    return find_refusal(capability, with_record, Inspection(stat, (0,), (), ReadHow.DIRECT), found, None)


def test_empty_and_one_block_files_are_judged_by_their_whole_digests() -> None:
    """An empty file has no block; a small one has one, whatever its size; other bytes or lengths are not it."""
    empty = Expected(0, Digests(md5=b"\0" * 16), None)
    assert 0 == empty.count
    small = Expected(3, Digests(md5=bytes.fromhex("900150983cd24fb0d6963f7d28e17f72")), None)
    assert (1, 3) == (small.count, small.length(0))
    assert small.matches(0, b"abc")
    assert not small.matches(0, b"abd")
    assert not small.matches(0, b"abcd")
    assert not Expected(3, Digests(), None).matches(0, b"abc")  # nothing that could prove it


def make_zeros_with_other_md5() -> tuple[Expected, bytes]:
    """Record two blocks of zeros whose XXH3 is right and whose MD5 is that of other bytes."""
    zeros = bytes(4096)
    blocks = Blocks(4096, xxh3_128_digest(zeros) * 2, hashlib.md5(b"other").digest() * 2)
    return Expected(8192, Digests(), blocks), zeros


def test_hole_is_compared_by_all_digests_of_its_block() -> None:
    """A hole is good exactly if the zeros that it stands for are: by XXH3 and by MD5."""
    expected, zeros = make_zeros_with_other_md5()
    right = Blocks(4096, xxh3_128_digest(zeros) * 2, hashlib.md5(zeros).digest() * 2)
    only_xxh3 = Blocks(4096, xxh3_128_digest(zeros) * 2, b"")

    assert not expected.matches_block(0, zeros)
    assert not expected.matches_block(0, None)
    assert Expected(8192, Digests(), right).matches_block(1, None)
    assert Expected(8192, Digests(), only_xxh3).matches_block(1, None)


def test_names_have_the_same_content_by_all_digests_that_both_have() -> None:
    """A digest that was recorded for one name only proves nothing; one that differs proves a difference."""
    contradicting, zeros = make_zeros_with_other_md5()
    both = Expected(8192, Digests(), Blocks(4096, xxh3_128_digest(zeros) * 2, hashlib.md5(zeros).digest() * 2))
    only_xxh3 = Expected(8192, Digests(), Blocks(4096, xxh3_128_digest(zeros) * 2, b""))
    md5, blake3 = hashlib.md5(b"abc").digest(), bytes(32)
    small, with_blake3 = Expected(3, Digests(md5=md5), None), Expected(3, Digests(md5=md5, blake3=blake3), None)

    assert both.is_same_as(only_xxh3)
    assert not both.is_same_as(contradicting)
    assert small.is_same_as(with_blake3)
    assert not with_blake3.is_same_as(Expected(3, Digests(md5=md5, blake3=b"\1" * 32), None))
    assert not small.is_same_as(Expected(3, Digests(blake3=blake3), None))  # nothing that could prove it
