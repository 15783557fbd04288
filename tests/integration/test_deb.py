"""
The Debian package, on a bare system of its release: without a compiler, without pip, without a network.

Takes minutes for each release, and a mirror of Debian: by hand, with ``--long``.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from integrity.catalog.db import SCHEMA_REVISION, Connection
from support.bitrot import flip_bit
from support.loopfs import LoopFS
from support.machine import need_programs, need_root
from support.planted import age
from support.programs import sh
from support.systemdbox import SystemdBox
from support.waiting import wait_until

pytestmark = [pytest.mark.root, pytest.mark.long, pytest.mark.timeout(0)]

TOP = Path(__file__).parents[2]
LAST = max(path.name for path in (TOP / "migrations").glob("v*"))
FILES = 100_000
MOST_S = 60
FAST = "DPKG_DEB_COMPRESSOR_LEVEL=1"
INSTALL = "dpkg --install /mnt/*.deb"
UNITS = ("integrity.service", "integrity-web.service", "integrity-hub.service")
CONFIG = '[[root]]\npath = "/srv/data"\nreplica_set = "photos"\n[hub]\nreport_every = "1s"\n'
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")


def build(checkout: Path, suite: str, folder: Path) -> None:
    """Build the package of a checkout, compressed in a hurry."""
    program = ["env", FAST, checkout / "packaging/deb/build"]
    subprocess.run([*program, suite, folder], stdin=subprocess.DEVNULL, check=True)


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package of a release, beside ``bare``, a system with no more than systemd and what it depends on."""
    need_root()
    need_programs("debootstrap", "dpkg-deb", "unshare")
    folder = tmp_path_factory.mktemp(request.param)
    build(TOP, request.param, folder)
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
    added = sh("git", "-C", checkout, "log", "-1", "--format=%H", "--diff-filter=A", "--", f"migrations/{LAST}")
    sh("git", "-C", checkout, "checkout", "--quiet", f"{added.strip()}^")
    program = checkout / "packaging/deb/build"
    program.write_text(program.read_text().replace("--ignore-environment", f"--ignore-environment {FAST}"))
    build(checkout, release.name.rstrip("0123456789"), folder)
    return folder


@pytest.fixture
def bare(release: Path, ext4: LoopFS) -> Iterator[SystemdBox]:
    """Boot the bare system with a data disk."""
    (ext4.folder / "photo.jpg").write_bytes(os.urandom(3_000_000))
    age(ext4.folder / "photo.jpg")
    with SystemdBox({ext4.folder: "/srv/data", release: "/mnt"}, base=release / "bare") as box:
        box.run("sh", "-c", "! command -v gcc pip pip3")
        yield box


@pytest.fixture
def box(bare: SystemdBox) -> SystemdBox:
    """Install the package on it."""
    bare.run("sh", "-c", INSTALL)
    return bare


def test_first_verified_folder_takes_less_than_a_minute(bare: SystemdBox) -> None:
    """From the package as a file to a scrub of a folder; what it took is printed."""
    began, before = time.monotonic(), os.times()
    said = bare.run("sh", "-euc", f"{INSTALL}; integrity scan /srv/data; integrity scrub /srv/data")
    elapsed_s, after = time.monotonic() - began, os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    size = bare.run("sh", "-c", "du -sh /opt/integrity && du -h /mnt/*.deb")
    print(f"{elapsed_s:.1f} s, user+sys {cpu_s:.1f} s\n{size}")

    assert elapsed_s < MOST_S
    assert "nothing runs yet. To set it up, as root: integrity setup" in said


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


def wait_for(box: SystemdBox, *units: str) -> None:
    """Wait until units run, from the files of the package."""
    for unit in units:
        wait_until(lambda unit=unit: box.show(unit, "ActiveState") == "active", f"the start of {unit}")
        assert box.show(unit, "FragmentPath").endswith(f"/lib/systemd/system/{unit}")


def join_hub(box: SystemdBox) -> None:
    """Have the service report to the hub of the same machine, and wait until it has."""
    token = box.run("integrity", "--quiet", "hub", "add", "nas", "--set", "photos").strip()
    box.run("sh", "-c", f"echo {token} | integrity hub join http://127.0.0.1:8433")
    wait_until(lambda: "; had everything" in box.run("integrity", "status"), "the reports", every_s=0.5)


def test_service_page_and_hub_of_the_package(box: SystemdBox) -> None:
    """They start when the owner says so, are started again by an upgrade, and go with it; what they recorded stays."""
    for unit in UNITS:
        assert ("inactive", "disabled") == (box.show(unit, "ActiveState"), box.show(unit, "UnitFileState"))
    box.put("/etc/integrity/integrity.toml", CONFIG)
    installed = box.run("integrity", "service", "install", "--web", "--hub", "--now")
    assert 7 == installed.count(": unchanged")
    assert not list((box.root / "etc/systemd/system").glob("integrity*.service"))
    wait_for(box, *UNITS)
    join_hub(box)
    before = [box.show(unit, "MainPID") for unit in UNITS]
    assert "belongs to a package" in box.run("integrity", "service", "uninstall", expect=2)

    box.run("sh", "-c", INSTALL)
    wait_for(box, *UNITS)
    assert not set(before) & {box.show(unit, "MainPID") for unit in UNITS}
    assert "integrity:integrity" in box.run("stat", "--format=%U:%G", "/var/lib/integrity/catalog.db")
    box.run("sh", "-c", "echo more > /srv/data/more")
    box.run("integrity", "scan", "/srv/data")
    wait_until(lambda: "2 files" in box.run("integrity", "hub", "check", expect=None), "the new file", every_s=0.5)

    box.run("dpkg", "--remove", "integrity-nas")
    assert ["inactive"] * 3 == [box.show(unit, "ActiveState") for unit in UNITS]
    box.run("sh", "-c", INSTALL)
    assert ["disabled"] * 3 == [box.show(unit, "UnitFileState") for unit in UNITS]
    assert "; reported " in box.run("integrity", "hub", "list")


def test_purge_removes_records_only_on_request(box: SystemdBox) -> None:
    """The catalog, the hub's database and the configuration stay, and are named, without REMOVE_CATALOG=yes."""
    folders = ("/var/lib/integrity", "/var/lib/integrity-hub", "/etc/integrity")
    box.run("integrity", "scan", "/srv/data")
    box.run("integrity", "hub", "add", "nas")
    box.put("/etc/integrity/integrity.toml", CONFIG)

    purged = box.run("dpkg", "--purge", "integrity-nas")
    assert [f"Kept: {folder} " in purged for folder in folders] == [True] * 3, purged
    assert [] == os.listdir(box.root / "opt")
    assert (box.root / "var/lib/integrity/catalog.db").exists()
    assert (box.root / "var/lib/integrity-hub/hub.db").exists()
    box.run("sh", "-c", INSTALL)
    box.run("env", "REMOVE_CATALOG=yes", "dpkg", "--purge", "integrity-nas")
    assert [False] * 3 == [(box.root / folder.lstrip("/")).exists() for folder in folders]


def read_catalog(box: SystemdBox, query: str) -> object:
    """Return the only value that a query of the service's catalog has."""
    # An older one has no checksums.
    with closing(Connection(bytes(box.root / "var/lib/integrity/catalog.db"), "mode=ro", is_checked=False)) as c:
        return c.value(query)


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

        box.run("sh", "-c", INSTALL)
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
