"""Many new files are recorded as they are one by one."""

from __future__ import annotations

import itertools
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integrity.catalog import baselines, maintenance
from integrity.model import Digests, FolderId, ReadHow, Reading, Readings, Witness
from support.catalogs import NOW, CatalogBox

NUMBERS = st.integers(-(1 << 63) + 1, (1 << 63) - 1)
SIZES = st.integers(0, (1 << 63) - 1)
NAMES = st.binary(min_size=1, max_size=40).filter(lambda name: not set(b"/\0") & set(name))
WITNESSES = st.builds(Witness, SIZES, NUMBERS, NUMBERS, SIZES, st.booleans())


def digest(size_bytes: int, is_there: st.SearchStrategy[bool]) -> st.SearchStrategy[bytes | None]:
    value = st.binary(min_size=size_bytes, max_size=size_bytes)
    return is_there.flatmap(lambda there: value if there else st.none())


@st.composite
def draw_files(draw: st.DrawFn) -> dict[bytes, Reading]:
    """Some files; mostly all of them have the same kinds of digests, as the files of a scan have."""
    kinds = [draw(st.sampled_from([st.just(True), st.just(False), st.booleans()])) for _ in range(4)]
    digests = st.builds(Digests, *(digest(size, kind) for size, kind in zip((16, 16, 32, 8), kinds, strict=True)))
    readings = st.builds(lambda one, some: Reading(one, some, None, ReadHow.DIRECT, one.size_bytes), WITNESSES, digests)
    folders = st.sampled_from([b"", b"a/", b"a/" + b"deep/" * 30, b"\xff\n/"])
    paths = st.builds(bytes.__add__, folders, NAMES)
    return draw(st.dictionaries(paths, readings, min_size=1, max_size=130))


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(draw_files(), st.booleans())
def test_many_are_recorded_as_one_by_one(new: dict[bytes, Reading], has_boot: bool) -> None:
    """All that can be asked of a file is the same."""
    with (
        TemporaryDirectory() as folder,
        CatalogBox(f"{folder}/rows.db".encode()) as one_by_one,
        CatalogBox(f"{folder}/columns.db".encode()) as at_once,
    ):
        boot_id = at_once.boot_id if has_boot else None
        paths, readings = list(new), Readings.of(list(new.values()))
        with one_by_one.catalog.transaction() as c:
            first = [
                *itertools.chain.from_iterable(
                    baselines.record_files(
                        *(c, one_by_one.root, [path], Readings.of([reading])), now=NOW, boot_id=boot_id
                    )
                    for path, reading in new.items()
                )
            ]
        with at_once.catalog.transaction() as c:
            second = baselines.record_files(c, at_once.root, paths, readings, now=NOW, boot_id=boot_id)
        kept = [
            box.get(file_id)._replace(folder_id=FolderId(0))  # folders are numbered in another order
            for box, ids in ((one_by_one, first), (at_once, second))
            for file_id in ids
        ]
        report = maintenance.check(at_once.catalog)

    assert list(readings.each()) == list(new.values())
    assert first == second
    assert kept[: len(new)] == kept[len(new) :]
    assert report.is_right
