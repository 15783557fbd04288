"""
The Debian package, on a bare system of its release: without a compiler, without pip, without a network.

Takes minutes for each release, and a mirror of Debian: by hand, with ``-m campaign``.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from integrity.catalog.schema import SCHEMA_REVISION
from support.loopfs import LoopFS, flip_bit
from support.machine import need_programs, need_root
from support.planted import age
from support.programs import sh
from support.systemdbox import SystemdBox
from support.waiting import wait_until

pytestmark = [pytest.mark.root, pytest.mark.campaign, pytest.mark.timeout(0)]

TOP = Path(__file__).parents[2]
LAST = max(os.listdir(TOP / "migrations/versions"), key=lambda name: (name.startswith("v"), name))
FILES = 100_000
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package of a release, beside ``bare``, a system with no more than systemd and what it depends on."""
    need_root()
    need_programs("debootstrap", "dpkg-deb", "unshare")
    folder = tmp_path_factory.mktemp(request.param)
    subprocess.run([TOP / "packaging/deb/build", request.param, folder], stdin=subprocess.DEVNULL, check=True)
    include = "--include=python3,systemd,systemd-sysv"
    subprocess.run(
        ["debootstrap", "--variant=minbase", include, request.param, folder / "bare", MIRROR],
        stdin=subprocess.DEVNULL,
        check=True,
    )
    return folder


@pytest.fixture(scope="module")
def older(release: Path) -> Path:
    """Build the package of the version before, whose catalogs have an older schema; return its folder."""
    checkout, folder = release / "checkout", release / "older"
    folder.mkdir()
    sh("git", "clone", "--quiet", TOP, checkout)
    added = sh(
        "git", "-C", checkout, "log", "-1", "--format=%H", "--diff-filter=A", "--", f"migrations/versions/{LAST}"
    )
    sh("git", "-C", checkout, "checkout", "--quiet", f"{added.strip()}^")
    shutil.copytree(TOP / "packaging", checkout / "packaging", dirs_exist_ok=True)
    build = checkout / "packaging/deb/build"
    build.write_text("".join(line for line in build.read_text().splitlines(True) if "share/man" not in line))
    for name, key, value in (
        ("pyproject.toml", "name", "integrity-nas"),
        ("pyproject.toml", "version", "0.1.0"),
        ("daemon/integrity/__init__.py", "__version__", "0.1.0"),
    ):
        text = (checkout / name).read_text()
        (checkout / name).write_text(re.sub(rf'(?m)^{key} = ".*"', f'{key} = "{value}"', text))
    subprocess.run(
        [checkout / "packaging/deb/build", release.name.rstrip("0123456789"), folder],
        stdin=subprocess.DEVNULL,
        check=True,
    )
    return folder


@pytest.fixture
def box(release: Path, ext4: LoopFS) -> Iterator[SystemdBox]:
    """Boot the bare system with a data disk, and install the package."""
    (ext4.folder / "photo.jpg").write_bytes(os.urandom(3_000_000))
    age(ext4.folder / "photo.jpg")
    with SystemdBox({ext4.folder: "/srv/data", release: "/mnt"}, base=release / "bare") as box:
        box.run("sh", "-c", "! command -v gcc pip pip3")
        box.run("sh", "-c", "dpkg --install /mnt/*.deb")
        yield box


def test_package_works_on_a_bare_system(box: SystemdBox, ext4: LoopFS) -> None:
    """All of its files are as they were packed, the C core is the native one, and a flipped bit is found."""
    assert "hash core: native" in box.run("integrity", "--version")
    name = box.run("sh", "-c", "dpkg-deb --field /mnt/*.deb Package").strip()
    assert "" == box.run("dpkg", "--verify", name)
    assert "" == box.run("find", "/opt/integrity", "-perm", "/o+w", "!", "-type", "l")
    box.run("integrity", "scan", "/srv/data")
    flip_bit(ext4.folder / "photo.jpg", 2_000_000)

    said = box.run("integrity", "scrub", "/srv/data", expect=1)

    assert "DAMAGED (bit rot)  /srv/data/photo.jpg" in said
    assert "block 1" in said
    assert "integrity" in box.run(
        "bash", "-c", ". /usr/share/bash-completion/completions/integrity; complete -p integrity"
    )


def test_service_and_page_of_the_package(box: SystemdBox) -> None:
    """They run from the package's units, are started again by an upgrade, and go with it; the catalog stays."""
    box.put("/etc/integrity/integrity.toml", '[[root]]\npath = "/srv/data"\n')
    installed = box.run("integrity", "service", "install", "--web", "--now")
    assert "/usr/lib/systemd/system/integrity.service: unchanged" in installed
    assert not (box.root / "etc/systemd/system/integrity.service").exists()
    for unit in ("integrity.service", "integrity-web.service"):
        wait_until(lambda unit=unit: box.show(unit, "ActiveState") == "active", f"the start of {unit}")
        assert box.show(unit, "FragmentPath").endswith(f"/lib/systemd/system/{unit}")
    before = box.show("integrity.service", "MainPID")
    assert "belongs to a package" in box.run("integrity", "service", "uninstall", expect=2)

    box.run("sh", "-c", "dpkg --install /mnt/*.deb")
    wait_until(lambda: box.show("integrity.service", "ActiveState") == "active", "the start after the upgrade")
    wait_until(lambda: box.show("integrity-web.service", "ActiveState") == "active", "the start of the page")
    assert before != box.show("integrity.service", "MainPID")
    assert "integrity:integrity" in box.run("stat", "--format=%U:%G", "/var/lib/integrity/catalog.db")

    name = box.run("sh", "-c", "dpkg-deb --field /mnt/*.deb Package").strip()
    assert "Kept: /var/lib/integrity" in box.run("dpkg", "--purge", name)
    assert "inactive" == box.show("integrity.service", "ActiveState")
    assert [] == os.listdir(box.root / "opt")
    assert (box.root / "var/lib/integrity/catalog.db").exists()
    box.run("sh", "-c", "dpkg --install /mnt/*.deb")
    box.run("env", "REMOVE_CATALOG=yes", "dpkg", "--purge", name)
    assert not (box.root / "var/lib/integrity").exists()


def read_catalog(box: SystemdBox, query: str) -> object:
    """Return the only value that a query of the service's catalog has."""
    with closing(sqlite3.connect(box.root / "var/lib/integrity/catalog.db")) as db:
        ((value,),) = db.execute(query).fetchall()
    return value


def go_back(box: SystemdBox, copy: str) -> None:
    """Install the older version again, see that it says what is wrong, and bring back the catalog that it can read."""
    box.run("systemctl", "stop", "integrity")
    box.run("sh", "-c", "dpkg --install /mnt/older/*.deb")
    said = box.run("integrity", "status", expect=4)
    assert "newer integrity" in said
    box.run("integrity", "catalog", "restore", copy, "--yes")
    box.run("systemctl", "start", "integrity")
    wait_until(lambda: box.show("integrity.service", "ActiveState") == "active", "the older service", timeout_s=600)


def test_upgrade_from_the_version_before(release: Path, older: Path, tmp_path: Path) -> None:
    """The service is stopped, its catalog copied and upgraded, and it goes on; a purge leaves the catalog."""
    for number in range(FILES):
        (tmp_path / f"{number}").write_bytes(b"%d" % number)
    with SystemdBox({tmp_path: "/srv/data", release: "/mnt"}, base=release / "bare") as box:
        box.run("sh", "-c", "dpkg --install /mnt/older/*.deb")
        box.put("/etc/integrity/integrity.toml", '[[root]]\npath = "/srv/data"\n')
        box.run("integrity", "service", "install", "--now")
        everything = f'"files":{FILES},'
        wait_until(
            lambda: everything in box.run("integrity", "--json", "status", expect=None), "the scan", timeout_s=600
        )
        revision = read_catalog(box, "SELECT version_num FROM alembic_version")
        assert str(revision) < SCHEMA_REVISION

        box.run("sh", "-c", "dpkg --install /mnt/*.deb")
        wait_until(lambda: box.show("integrity.service", "ActiveState") == "active", "the start", timeout_s=600)

        assert SCHEMA_REVISION == read_catalog(box, "SELECT version_num FROM alembic_version")
        assert FILES == read_catalog(box, "SELECT count(*) FROM file")
        assert everything in box.run("integrity", "--json", "status")
        copies = box.run("sh", "-c", "ls /var/lib/integrity/catalog.db.before-*").splitlines()
        assert 1 == len(copies)
        assert f".before-{SCHEMA_REVISION}-" in copies[0]

        go_back(box, copies[0])
        assert everything in box.run("integrity", "--json", "status")

        box.run("dpkg", "--remove", "integrity-nas")
        assert "inactive" == box.show("integrity.service", "ActiveState")
        box.run("dpkg", "--purge", "integrity-nas")
        assert FILES == read_catalog(box, "SELECT count(*) FROM file")
