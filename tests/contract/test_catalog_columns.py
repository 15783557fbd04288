"""New files recorded in columns are recorded as they are one by one."""

from __future__ import annotations

from collections.abc import Sequence
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integrity.catalog import baselines, maintenance
from integrity.catalog.baselines import NewFile
from integrity.model import Digests, ReadHow, Reading, Readings, Witness
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


def in_columns(readings: Sequence[Reading]) -> Readings:
    witnesses = zip(*(map(int, one.witness) for one in readings), strict=True)
    return Readings(tuple(witnesses), tuple(zip(*(one.digests for one in readings), strict=True)), readings[0].how)


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(draw_files(), st.booleans())
def test_columns_are_recorded_as_rows_are(new: dict[bytes, Reading], has_boot: bool) -> None:
    """All that can be asked of a file is the same."""
    with (
        TemporaryDirectory() as folder,
        CatalogBox(f"{folder}/rows.db".encode()) as one_by_one,
        CatalogBox(f"{folder}/columns.db".encode()) as at_once,
    ):
        boot_id = at_once.boot_id if has_boot else None
        rows, paths = [NewFile(*row) for row in new.items()], list(new)
        with one_by_one.catalog.transaction() as c:
            first = baselines.record_files(c, one_by_one.root, rows, now=NOW, boot_id=boot_id)
        with at_once.catalog.transaction() as c:
            second = baselines.record_small_files(
                *(c, at_once.root, paths, in_columns(list(new.values()))), now=NOW, boot_id=boot_id
            )
        kept = [box.get(file_id) for box, ids in ((one_by_one, first), (at_once, second)) for file_id in ids]
        report = maintenance.check(at_once.catalog)

    assert first == second
    assert kept[: len(new)] == kept[len(new) :]
    assert report.is_right
