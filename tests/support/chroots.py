"""A root folder that is no mount point, with little in it: as rescue systems and builds of packages have."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from support import AnyPath
from support.cli import Completed, complete, make_command

USER = 4242
"""A user whom no list of users names."""

_OWN = {str(Path(__file__).parents[2]), sys.prefix, sys.base_prefix, "/usr"}
_SYSTEM = {
    "proc": "mount -t proc proc {root}/proc",
    "sys": "mount -t sysfs -o ro sysfs {root}/sys",
    "dev": "mount --rbind /dev {root}/dev",
}


class Chroot:
    """
    A folder to run the program in as its root; what is mounted there nobody else sees. Root only.

    Args:
        folder: an empty one; its file system is the one of the new root.
        has: which of proc, sys and dev are mounted.
    """

    def __init__(self, folder: Path, has: Collection[str] = ("proc", "sys", "dev")) -> None:
        self.folder = folder
        for name in ("tmp", "data", "etc", "root", *_SYSTEM):
            (folder / name).mkdir(parents=True)
        (folder / "tmp").chmod(0o1777)
        for name in ("bin", "lib", "lib64"):
            (folder / name).symlink_to(f"usr/{name}")
        places = sorted(place for place in _OWN if place == "/usr" or not place.startswith("/usr/"))
        for place in places:
            (folder / place.lstrip("/")).mkdir(parents=True, exist_ok=True)
        root = shlex.quote(str(folder))
        mounts = [f"mount --rbind {shlex.quote(place)} {root}{shlex.quote(place)}" for place in places]
        mounts += [_SYSTEM[name].format(root=root) for name in _SYSTEM if name in has]
        self._mounts = " && ".join(mounts)

    def run(
        self, *args: AnyPath, env: Mapping[str, str] | None = None, uid: int = 0, cwd: str = "/", expect: int = 0
    ) -> Completed:
        """Run ``integrity`` inside, with no environment but ``env``; ``expect`` is its exit code."""
        words = [f"{name}={value}" for name, value in (env or {}).items()]
        user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []
        inside = ["chroot", self.folder, *user, "env", "-i", f"--chdir={cwd}", *words, *make_command(*args)]
        script = f'{self._mounts} && exec "$@"'
        done = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *inside],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        completed = complete(done.returncode, done.stdout, done.stderr, is_json="--json" in args)
        assert completed.code == expect, f"{args!r}: exit {completed.code}: {completed.stdout}{completed.stderr}"
        return completed
