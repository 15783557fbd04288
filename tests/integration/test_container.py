"""
The container image, with what compose.yaml gives it: at most one capability, a read-only root, users other than root.

Its root file system runs in namespaces of the tests, for want of an engine. Building it takes minutes, and a mirror of
Debian: by hand, with ``--long``.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from support.machine import need_programs, need_root
from support.planted import age

pytestmark = [pytest.mark.root, pytest.mark.long, pytest.mark.timeout(0)]

TOP = Path(__file__).parents[2]
UID = 990
HUB_UID = 991
COMPOSE = yaml.safe_load((TOP / "packaging/container/compose.yaml").read_text(encoding="utf-8"))["services"]

_MOUNTS = """
ip link set lo up &&
mount --bind {image} {image} && mount -o remount,bind,ro {image} && mount -t proc proc {image}/proc &&
mount -t tmpfs -o uid=990,gid=990,mode=750 tmpfs {image}/run/integrity &&
mount --bind {folder}/config {image}/etc/integrity && mount --bind {folder}/catalog {image}/var/lib/integrity &&
mount --bind {folder}/hub {image}/var/lib/integrity-hub &&
mount --bind {folder}/data {image}/srv && mount -o remount,bind,ro {image}/srv && exec "$@"
"""
# fmt: off
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin", "XDG_CONFIG_HOME": "/etc", "XDG_STATE_HOME": "/var/lib", "XDG_RUNTIME_DIR": "/run",
    "TMPDIR": "/var/lib/integrity", "HOME": "/var/lib/integrity", "LANG": "C.UTF-8",
}
# fmt: on


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the image and unpack its only layer."""
    need_root()
    need_programs("debootstrap", "buildah", "crun", "setpriv", "unshare")
    folder = tmp_path_factory.mktemp("image")
    program = ["env", "DPKG_DEB_COMPRESSOR_LEVEL=1", TOP / "packaging/container/build"]
    subprocess.run([*program, "trixie", folder], stdin=subprocess.DEVNULL, check=True)
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
    return isolate(image, folder, enter(image, script, f"--bounding-set=-all{capability}"))


def enter(image: Path, script: str, *limits: str, uid: int = UID, env: Mapping[str, str] | None = None) -> list[str]:
    """Return an argv that runs a script in the image, as a user and within limits."""
    user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all", *limits]
    variables = [f"{name}={value}" for name, value in {**_ENVIRONMENT, **(env or {})}.items()]
    return ["chroot", str(image), *user, "env", "-i", *variables, "sh", "-c", script]


def isolate(image: Path, folder: Path, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command of this machine where the image has its mounts, with a network of its own."""
    mounts = _MOUNTS.format(image=shlex.quote(str(image)), folder=shlex.quote(str(folder)))
    spaces = ["--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--net"]
    return subprocess.run(
        ["unshare", *spaces, "sh", "-c", mounts, "sh", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make what is mounted: a configuration, a place for the catalog, and a file that only root may read."""
    for name in ("config", "catalog", "data", "hub"):
        (tmp_path / name).mkdir()
    os.chown(tmp_path / "catalog", UID, UID)
    os.chown(tmp_path / "hub", HUB_UID, HUB_UID)
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


CONFIG = """
[[root]]
path = "/srv"
replica_set = "photos"
[hub]
url = "https://127.0.0.1:8433"
token_file = "/etc/integrity/hub-token"
certificate = "/etc/integrity/hub.pem"
report_every = "1s"
[hub_server]
listen = "0.0.0.0:8433"
certificate = "/etc/integrity/hub.pem"
key = "/etc/integrity/hub.key"
"""
OPENSSL = (
    *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
    *("-subj", "/CN=hub", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "hub.key", "-out", "hub.pem"),
)


def test_hub_runs_without_any_capability(image: Path, folder: Path) -> None:
    """As compose.yaml has it: healthy by its check there, and the box in the container beside it reports to it."""
    need_programs("openssl")
    hub = COMPOSE["hub"]
    subprocess.run(OPENSSL, cwd=folder / "config", stderr=subprocess.DEVNULL, check=True)
    os.chown(folder / "config/hub.key", HUB_UID, HUB_UID)
    (folder / "config/integrity.toml").write_text(CONFIG)

    def as_hub(script: str) -> str:
        limits = ("--bounding-set=-all", "--no-new-privs")
        return shlex.join(enter(image, script, *limits, uid=HUB_UID, env=hub["environment"]))

    def as_service(script: str) -> str:
        return shlex.join(enter(image, script, "--bounding-set=-all,+dac_read_search"))

    script = f"""
        {as_hub("exec integrity " + shlex.join(hub["command"]))} & hub=$!
        until {as_hub(shlex.join(hub["healthcheck"]["test"][1:]))} 2>/dev/null; do kill -0 $hub || exit 9; done
        umask 077
        {as_hub("integrity --quiet hub add nas --set photos")} >{shlex.quote(str(folder))}/config/hub-token || exit 8
        {as_service("exec integrity daemon")} & service=$!
        until {as_service("integrity status")} | grep "; had everything"; do kill -0 $service || exit 7; done
        {as_hub("integrity hub list; integrity hub check; cat /etc/integrity/hub-token; touch /etc/integrity/x")}
        kill $service $hub; wait
    """
    done = isolate(image, folder, ["sh", "-c", script])

    assert 0 == done.returncode, done.stdout + done.stderr
    assert f"{HUB_UID}:{HUB_UID}" == hub["user"]
    assert "; reported " in done.stdout
    assert "/var/lib/integrity-hub/hub.db: all is well. Checked 1 boxes, 1 folders, 1 files." in done.stdout
    assert "No password is set yet" in done.stdout + done.stderr
    assert "cat: /etc/integrity/hub-token: Permission denied" in done.stderr
    assert "touch: cannot touch '/etc/integrity/x'" in done.stderr
