"""
The container image, with what compose.yaml gives it: one capability, a read-only root, a user other than root.

Its root file system runs in namespaces of the tests, for want of an engine. Building it takes minutes, and a mirror of
Debian: by hand, with ``-m campaign``.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tarfile
from pathlib import Path

import pytest

from support.machine import need_programs, need_root
from support.planted import age

pytestmark = [pytest.mark.root, pytest.mark.campaign, pytest.mark.timeout(0)]

TOP = Path(__file__).parents[2]
UID = 990

_MOUNTS = """
mount --bind {image} {image} && mount -o remount,bind,ro {image} && mount -t proc proc {image}/proc &&
mount -t tmpfs -o uid=990,gid=990,mode=750 tmpfs {image}/run/integrity &&
mount --bind {folder}/config {image}/etc/integrity && mount --bind {folder}/catalog {image}/var/lib/integrity &&
mount --bind {folder}/data {image}/srv && mount -o remount,bind,ro {image}/srv && exec "$@"
"""
_ENVIRONMENT = (
    *("PATH=/usr/bin:/bin", "XDG_CONFIG_HOME=/etc", "XDG_STATE_HOME=/var/lib", "XDG_RUNTIME_DIR=/run"),
    *("TMPDIR=/var/lib/integrity", "HOME=/var/lib/integrity", "LANG=C.UTF-8"),
)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the image and unpack its only layer."""
    need_root()
    need_programs("debootstrap", "buildah", "crun", "setpriv", "unshare")
    folder = tmp_path_factory.mktemp("image")
    subprocess.run([TOP / "packaging/container/build", "trixie", folder], stdin=subprocess.DEVNULL, check=True)
    with tarfile.open(folder / "integrity-nas.tar") as archive:
        (layer,) = (name for name in archive.getnames() if name.endswith(".tar") and archive.getmember(name).isfile())
        archive.extract(layer, folder, filter="data")
    root = folder / "root"
    root.mkdir()
    unpack = ("tar", "--extract", "--xattrs", "--xattrs-include=*", f"--file={folder / layer}", f"--directory={root}")
    subprocess.run(unpack, check=True)
    return root


def run(
    image: Path, folder: Path, script: str, capability: str = ",+dac_read_search"
) -> subprocess.CompletedProcess[str]:
    """Run a script as the image's user, without any capability but the one that the bounding set leaves."""
    mounts = _MOUNTS.format(image=shlex.quote(str(image)), folder=shlex.quote(str(folder)))
    user = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--inh-caps=-all"]
    inside = [
        "chroot",
        image,
        *user,
        f"--bounding-set=-all{capability}",
        "env",
        "-i",
        *_ENVIRONMENT,
        "sh",
        "-c",
        script,
    ]
    spaces = ["--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--net"]
    return subprocess.run(
        ["unshare", *spaces, "sh", "-c", mounts, "sh", *inside],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make what is mounted: a configuration, a place for the catalog, and a file that only root may read."""
    for name in ("config", "catalog", "data"):
        (tmp_path / name).mkdir()
    os.chown(tmp_path / "catalog", UID, UID)
    (tmp_path / "config/integrity.toml").write_text('[[root]]\npath = "/srv"\n')
    (tmp_path / "data/photo.jpg").write_bytes(os.urandom(100_000))
    age(tmp_path / "data/photo.jpg")
    (tmp_path / "data/photo.jpg").chmod(0o600)
    (tmp_path / "data").chmod(0o700)
    return tmp_path


def test_service_reads_what_only_root_may_read(image: Path, folder: Path) -> None:
    """It is healthy by the image's own check, verifies the file, and can write to nothing but its catalog."""
    (check,) = (
        line for line in (TOP / "packaging/container/Containerfile").read_text().splitlines() if "CMD integ" in line
    )
    script = f"""
        integrity daemon & service=$!
        until {check.partition("CMD ")[2]}; do kill -0 $service || exit 9; done
        integrity scan && integrity scrub; code=$?
        cat /srv/photo.jpg; touch /nowhere /srv/nowhere
        kill $service; wait $service; exit $code
    """
    done = run(image, folder, script)

    assert 0 == done.returncode, done.stdout + done.stderr
    assert "1 file: 1 verified" in done.stdout
    assert "cat: /srv/photo.jpg: Permission denied" in done.stderr
    assert "touch: cannot touch '/nowhere': Read-only file system" in done.stderr
    assert "touch: cannot touch '/srv/nowhere'" in done.stderr


def test_without_its_capability_the_program_does_not_start(image: Path, folder: Path) -> None:
    """The kernel says so, rather than that files turn out to be unreadable later."""
    done = run(image, folder, "integrity --version", capability="")

    assert done.returncode != 0
    assert "Operation not permitted" in done.stderr
