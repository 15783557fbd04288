"""Fixtures of all tests, and what becomes of those that need more than this machine has."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from integrity.files.buffers import Buffers
from support.catalogs import CatalogBox
from support.cli import Box
from support.comparing import back_up
from support.faultfs import FaultFS
from support.flakydisk import FlakyDisk
from support.isolation import isolate
from support.loopfs import LoopFS
from support.machine import need_programs, need_root
from support.planted import age, plant
from support.preload import Shims
from support.privileges import as_nobody
from support.reading import opened_root
from support.smtpsink import SmtpSink

if TYPE_CHECKING:
    from support.s3box import S3Box


def pytest_configure(config: pytest.Config) -> None:
    """Leave the machine's owner out of the run, and no mounts behind, however it ends."""
    isolate()
    gc.disable()  # until all is collected: there is no garbage in it
    # The installed command is on PATH, so messages call it by its plain name.
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    settings.register_profile("any machine", deadline=None)  # how long an example takes depends on what else runs here
    settings.load_profile("any machine")
    config.addinivalue_line(
        "markers",
        "files(count, size_bytes=0, is_aged=False, is_recorded=False): what the fixture `root` contains; it is empty"
        " without this mark",
    )
    config.addinivalue_line(
        "markers", "first: takes long, most of it waiting or on one core; a worker of the run begins with it"
    )


@pytest.hookimpl(trylast=True)  # after marks have chosen
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each worker's part of the run its share of the marked tests to begin with: none of them is waited for."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    marked = [item for item in items if item.get_closest_marker("first")]
    others = iter([item for item in items if not item.get_closest_marker("first")])
    ordered: list[pytest.Item] = []
    for number in range(workers):  # as --dist worksteal cuts the list
        size = (len(items) - len(ordered)) // (workers - number)
        own = marked[number::workers]
        ordered += [*own, *islice(others, max(0, size - len(own)))]
    items[:] = [*ordered, *others]


def pytest_collection_finish() -> None:
    """Have what was collected, which stays to the end, not looked through for garbage again and again."""
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """
    Skip (in CI: fail) what can't run here, with the exact reason.

    ``@pytest.mark.root`` stands for root with loop devices, FUSE and the rig's programs; ``@pytest.mark.root("exim4")``
    needs that program as well.
    """
    for marker in item.iter_markers("root"):
        need_root()
        need_programs(*marker.args)


@pytest.fixture
def integrity(tmp_path: Path) -> Box:
    """Give the program a home and a catalog of its own."""
    return Box(tmp_path / "integrity-home")


@pytest.fixture
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """
    Make a folder, empty unless ``@pytest.mark.files`` says what is in it.

    ``files(count, size_bytes=0)`` stands for the files of ``support.planted``. With ``is_aged`` none of them is racy
    (R1), with ``is_recorded`` the catalog of ``integrity`` has them.
    """
    folder = tmp_path / "root"
    folder.mkdir()
    if marker := request.node.get_closest_marker("files"):
        _fill(request, folder, *marker.args, **marker.kwargs)
    return folder


def _fill(
    request: pytest.FixtureRequest,
    folder: Path,
    count: int,
    *,
    size_bytes: int = 0,
    is_aged: bool = False,
    is_recorded: bool = False,
) -> None:
    """Write the files that a mark asks for."""
    plant(folder, count, size_bytes=size_bytes)
    if is_aged:
        age(*folder.rglob("*.txt"))
    if is_recorded:
        box: Box = request.getfixturevalue("integrity")
        box.run("scan", folder, expect=0)


@pytest.fixture
def top(root: Path) -> bytes:
    """Return the path of ``root`` as the program has it (R10)."""
    return bytes(root)


@pytest.fixture
def root_fd(root: Path) -> Iterator[int]:
    """Open ``root``."""
    with opened_root(root) as fd:
        yield fd


@pytest.fixture
def box(tmp_path: Path) -> Iterator[CatalogBox]:
    """Make a catalog with one root."""
    with CatalogBox(bytes(tmp_path / "catalog.db")) as made:
        yield made


@pytest.fixture
def sink() -> Iterator[SmtpSink]:
    """Run a mail server that keeps what it receives."""
    with SmtpSink() as server:
        yield server


@pytest.fixture
def buffers(request: pytest.FixtureRequest) -> Iterator[Buffers]:
    """Allocate two buffers of the module's ``BUFFER_BYTES``, so small that its files have several segments."""
    with Buffers(request.module.BUFFER_BYTES) as some:
        yield some


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """Copy ``root`` as a backup does, with its times."""
    return back_up(root, tmp_path / "copy")


@pytest.fixture
def nobodys_box() -> Iterator[Box]:
    """Give a home that is nobody's in particular, in a folder where everybody may make another."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        box = Box(Path(folder) / "box")
        with as_nobody():
            box.home.mkdir()
        yield box


@pytest.fixture
def ext4() -> Iterator[LoopFS]:
    """Mount an ext4 of its own."""
    need_root()
    with LoopFS("ext4") as fs:
        yield fs


@pytest.fixture
def xfs() -> Iterator[LoopFS]:
    """Mount an xfs of its own."""
    need_root()
    with LoopFS("xfs") as fs:
        yield fs


@pytest.fixture
def btrfs() -> Iterator[LoopFS]:
    """Mount a btrfs of its own."""
    need_root()
    with LoopFS("btrfs") as fs:
        yield fs


@pytest.fixture(params=["ext4", "xfs", "btrfs"])
def each_fs(request: pytest.FixtureRequest) -> Iterator[LoopFS]:
    """Mount a file system of its own, each kind in turn."""
    need_root()
    with LoopFS(request.param) as fs:
        yield fs


@pytest.fixture
def flaky_ext4() -> Iterator[FlakyDisk]:
    """Mount an ext4 on a disk that fails to order."""
    need_root()
    with FlakyDisk("ext4") as disk:
        yield disk


@pytest.fixture
def flaky_xfs() -> Iterator[FlakyDisk]:
    """Mount an xfs on a disk that fails to order."""
    need_root()
    with FlakyDisk("xfs") as disk:
        yield disk


@pytest.fixture
def flaky_btrfs() -> Iterator[FlakyDisk]:
    """Mount a btrfs on a disk that fails to order."""
    need_root()
    with FlakyDisk("btrfs") as disk:
        yield disk


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[FaultFS]:
    """Mount ``tmp_path / "source"`` through a file system that fails to order, as NFS or a dying disk would."""
    need_root()
    source = tmp_path / "source"
    source.mkdir()
    with FaultFS(source) as fs:
        yield fs


@pytest.fixture(scope="module")
def moto() -> Iterator[S3Box]:
    """Run moto."""
    from support.s3box import open_s3

    with open_s3("moto") as box:
        yield box


@pytest.fixture(scope="module")
def versitygw() -> Iterator[S3Box]:
    """Run versitygw."""
    from support.s3box import open_s3

    with open_s3("versitygw") as box:
        yield box


@pytest.fixture(scope="module")
def gofakes3() -> Iterator[S3Box]:
    """Run gofakes3."""
    from support.s3box import open_s3

    with open_s3("gofakes3") as box:
        yield box


@pytest.fixture(params=["moto", "versitygw"])
def s3_server(request: pytest.FixtureRequest) -> S3Box:
    """Give each S3 server in turn."""
    found: S3Box = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def shims(tmp_path_factory: pytest.TempPathFactory) -> Shims:
    """Build the libraries that make reads fail and clocks jump, once a run."""
    need_programs("cc")
    return Shims(tmp_path_factory.mktemp("shims"))
