"""What a watcher of files finds hard: bursts, big trees, folders filled before they are watched, too few watches."""

from __future__ import annotations

import mmap
import os
import subprocess
from collections import deque

from support import AnyPath
from support.shapes import put

_QUEUE_LENGTH = "/proc/sys/fs/inotify/max_queued_events"
_LIMITS = "/proc/sys/user/max_inotify_"


def read_queue_length() -> int:
    """Return how many events the kernel keeps for one reader."""
    with open(_QUEUE_LENGTH, encoding="ascii") as file:
        return int(file.read())


def burst(folder: AnyPath) -> int:
    """
    Cause more events in ``folder`` than the kernel keeps for one reader, and return how many.

    A file is renamed to and fro: each rename has a number of its own, so no two events are merged into one.
    """
    renames = read_queue_length()  # two events each
    top = os.fsencode(folder)
    names = [os.path.join(top, b"burst-to"), os.path.join(top, b"burst-fro")]
    put(names[0])
    for nth in range(renames):
        os.rename(names[nth % 2], names[1 - nth % 2])
    os.unlink(names[renames % 2])
    return 2 * renames + 3


def make_folders(folder: AnyPath, count: int, *, fan: int = 50) -> list[bytes]:
    """Make ``count`` folders in one another, at most ``fan`` in each, and return their paths."""
    made: list[bytes] = []
    above = deque([os.fsencode(folder)])
    while len(made) < count:
        top = above.popleft()
        new = [os.path.join(top, b"d%d" % nth) for nth in range(min(fan, count - len(made)))]
        for path in new:
            os.mkdir(path)
        made += new
        above += new
    return made


def fill_at_once(folder: AnyPath, count: int) -> list[bytes]:
    """Make ``count`` times three folders in one another with a file, sooner than anybody can watch them."""
    files = []
    for nth in range(count):
        deepest = os.path.join(os.fsencode(folder), b"at-once-%d" % nth, b"y", b"z")
        os.makedirs(deepest)
        files.append(os.path.join(deepest, b"file"))
        put(files[-1])
    return files


def save_as_editors_do(folder: AnyPath) -> list[bytes]:
    """Save files in all the ways that programs do, and return their names."""
    top = os.fsencode(folder)
    put(top + b"/in-place", b"1")
    put(top + b"/in-place", b"2")
    put(top + b"/.new")
    os.rename(top + b"/.new", top + b"/renamed-over")
    put(top + b"/kept", b"1")
    os.rename(top + b"/kept", top + b"/kept~")
    put(top + b"/kept", b"2")
    os.unlink(top + b"/kept~")
    put(top + b"/original")
    os.link(top + b"/original", top + b"/linked")
    os.symlink(b"original", top + b"/symlink")
    put(top + b"/time-put-back", b"old")
    status = os.stat(top + b"/time-put-back")
    put(top + b"/time-put-back", b"new")
    os.utime(top + b"/time-put-back", ns=(status.st_atime_ns, status.st_mtime_ns))
    put(top + b"/mapped", b"a" * mmap.PAGESIZE)
    with open(top + b"/mapped", "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[0] = 0  # tells nothing; the close does
    _save_nameless(top, b"born-nameless")
    return [b"in-place", b"renamed-over", b"kept", b"linked", b"symlink", b"time-put-back", b"mapped", b"born-nameless"]


def rename_about(folder: AnyPath, rounds: int) -> None:
    """Swap two folders of ``folder`` and move one into the other and back, again and again."""
    top = os.fsencode(folder)
    one, two, three = (os.path.join(top, name) for name in (b"one", b"two", b"three"))
    for path in (one, two):
        os.makedirs(path + b"/below/deep", exist_ok=True)
    for nth in range(rounds):
        os.rename(one, three)
        os.mkdir(three + b"/new-%d" % nth)
        os.rename(two, one)
        os.rename(three, two)
        os.mkdir(one + b"/below/also-new-%d" % nth)
        os.rename(two, one + b"/inside")
        os.mkdir(one + b"/inside/inner-%d" % nth)
        os.rename(one + b"/inside", two)


def is_limiting_possible() -> bool:
    """Tell whether this kernel lets this user have a user namespace of his own."""
    done = subprocess.run(_limited("true"), capture_output=True, check=False)
    return done.returncode == 0


def run_limited(
    *command: AnyPath, watches: int | None = None, instances: int | None = None
) -> subprocess.CompletedProcess[str]:
    """
    Run a command in a user namespace where only so many watches and instances exist; nobody else is touched.

    The command may write to /proc/sys/user/max_inotify_watches itself, to have more.
    """
    whole = [*limiting(watches=watches, instances=instances), *command]
    return subprocess.run(whole, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def limiting(*, watches: int | None = None, instances: int | None = None) -> list[AnyPath]:
    """Return what stands before a command to have it run in such a user namespace; it becomes the command."""
    set_up = "".join(
        f"echo {value} > {_LIMITS}{name} && "
        for name, value in (("watches", watches), ("instances", instances))
        if value is not None
    )
    return _limited("sh", "-c", f'{set_up}exec "$@"', "sh")


def _limited(*command: AnyPath) -> list[AnyPath]:
    return ["unshare", "--user", "--map-root-user", *command]


def _save_nameless(top: bytes, name: bytes) -> None:
    fd = os.open(top, os.O_TMPFILE | os.O_WRONLY, 0o600)
    try:
        os.write(fd, b"content\n")
        # Python follows /proc's link only if it is given a folder to begin at.
        os.link(b"/proc/self/fd/%d" % fd, os.path.join(top, name), src_dir_fd=fd, follow_symlinks=True)
    finally:
        os.close(fd)
