"""Being nobody in particular: for a while, or in a program."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support import AnyPath
from support.cli import Box, Completed, complete, make_command

NOBODY = 65534


@contextmanager
def as_nobody(uid: int = NOBODY) -> Iterator[None]:
    """Drop root's rights for the time of the block; who is not root has none to drop. Descriptors stay open."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(uid)  # the effective capabilities go and come with it: capabilities(7)
    try:
        yield
    finally:
        os.seteuid(0)


def run_as_nobody(box: Box, *args: AnyPath) -> Completed:
    """Run the program as somebody from whom permissions keep things, and who is not root's match."""
    command = make_command(*args)
    if os.geteuid() == 0:
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]
    done = subprocess.run(command, env=box.environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return complete(done.returncode, done.stdout, done.stderr, is_json="--json" in args)


def let_in(folder: Path) -> None:
    """Let anybody pass through a folder and all folders above it: pytest makes its folders for their owner only."""
    for place in (folder, *folder.parents):
        mode = stat.S_IMODE(place.stat().st_mode)
        if not mode & stat.S_IXOTH:
            place.chmod(mode | 0o055)
