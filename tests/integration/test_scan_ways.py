"""A first scan records the same, whether files go through it in columns or one by one."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from integrity.catalog.db import Connection
from support.bitrot import flip_bit
from support.cli import Box
from support.loopfs import LoopFS
from support.planted import age
from support.results import met, tallies
from support.shapes import put_sparse

pytestmark = pytest.mark.root

SIZES = (0, 1, 55, 56, 64, 4095, 4096, 65_535, 65_536, 65_537, 1_000_000, 3_000_001)
RECORDED = """
    SELECT folder.path, name, size_bytes, mtime_ns, ctime_ns, inode, is_racy, md5, xxh3_128, blake3, block_size_bytes,
        version, reason, verified_at, read_how, is_suspect, is_frozen,
        (SELECT count(*) FROM block_run WHERE file_id = file.id)
    FROM file JOIN folder ON folder_id = folder.id ORDER BY folder.path, name
"""


def build(folder: Path) -> None:
    """Make files of all kinds: alone and many in a folder, of several names, with holes, with any bytes in a name."""
    for name in ("few", "many", "deep/er/and/deeper", "empty"):
        (folder / name).mkdir(parents=True)
    for size in SIZES:
        (folder / "few" / str(size)).write_bytes(os.urandom(size))
    for number in range(700):
        (folder / "many" / f"{number:03}").write_bytes(b"%d" % number * number)
    (folder / "deep/er/and/deeper" / ("n" * 200)).write_bytes(b"long")
    (folder / "few" / "odd\udcff\n name").write_bytes(b"odd")
    for number in range(3):
        os.link(folder / "many" / "500", folder / "deep" / f"link-{number}")
    put_sparse(folder / "holes", 200_000, [(0, b"x"), (150_000, b"y")])
    os.symlink("holes", folder / "symlink")


def recorded(integrity: Box, root: str, catalog: Path, *ways: str, env: dict[str, str]) -> list[tuple[object, ...]]:
    """Scan into a catalog of its own; return what it has then."""
    scan = integrity.run("--json", "--catalog", catalog, "scan", *ways, root, expect=0, env=env)
    assert {"new": 718, "skipped": 1} == tallies(scan)
    assert 0 == integrity.run("--catalog", catalog, "catalog", "check", env=env).code
    with closing(Connection(bytes(catalog), "mode=ro")) as c:
        return list(c.rows(RECORDED))


@pytest.mark.parametrize(
    ("each_fs", "has_blake3"),
    [("ext4", False), ("ext4", True), ("xfs", False), ("btrfs", True)],
    indirect=["each_fs"],
)
def test_columns_and_single_files_are_recorded_alike(
    integrity: Box, each_fs: LoopFS, tmp_path: Path, has_blake3: bool
) -> None:
    """Every field of every row; a damaged file is found in either catalog."""
    root = Path(os.fsdecode(each_fs.path("data")))
    root.mkdir()
    build(root)
    age(root / "holes")
    each_fs.remount()
    digests = 'digests = ["md5", "xxh3_128", "blake3"]\n' if has_blake3 else ""
    integrity.configure(f'[[root]]\npath = "{root}"\nblock_size = "64KiB"\n{digests}')
    columns = recorded(integrity, str(root), tmp_path / "columns.db", env={})
    singly = recorded(integrity, str(root), tmp_path / "singly.db", env={"INTEGRITY_NATIVE": "off"})

    assert columns == singly

    flip_bit(each_fs.path("data/few/65535"), 77)
    flip_bit(each_fs.path("data/few/3000001"), 2_000_000)
    is_refused = each_fs.fs_type == "btrfs"
    kind = "unreadable" if is_refused else "rot"
    names = sorted(f"{root}/few/{name}" for name in ("65535", "3000001"))
    places = [2_000_000 // 4096 * 4096, 0] if is_refused else [2_000_000 >> 16 << 16, 0]
    for catalog in ("columns.db", "singly.db"):
        scrub = integrity.run("--json", "--catalog", tmp_path / catalog, "scrub", root, expect=3 if is_refused else 1)
        assert [(kind, name) for name in names] == sorted(met(scrub))
        assert places == [one["ranges"][0][0] for one in sorted(scrub.findings, key=lambda one: str(one["path"]))]  # type: ignore[index]
        assert {"verified": 716, "unreadable" if is_refused else "damaged": 2, "skipped": 1} == tallies(scrub)
