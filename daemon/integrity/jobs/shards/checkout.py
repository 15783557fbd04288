"""
A shard for a command, such as explain or repair, on files of a shared tree.

The command works on a local copy of the shard's catalog as on the catalog of its own machine. To change it, the command
has the shard meanwhile, as a worker would, and the copy becomes the next version (compare and swap). To read it, it
needs no lease.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from blake3 import blake3

from integrity import program
from integrity.catalog.connection import Catalog
from integrity.errors import AppError, ConfigError, HubAway, HubError, printable, show_path
from integrity.jobs.context import Context
from integrity.jobs.report import Stop
from integrity.jobs.shards.local_copy import make_work_folder
from integrity.jobs.shards.messages import ShardTask
from integrity.jobs.shards.tree_calls import FindingWriter, TreeCalls, make_calls, read_seconds
from integrity.jobs.shards.visit import look
from integrity.jobs.shards.worker import Lease, find_work_folder
from integrity.reporting.protocol import to_text

if TYPE_CHECKING:
    from integrity.config import Config, ConfiguredRoot
    from integrity.files.excludes import TreeScope

_ASK_S = 1.0
_LONGEST_WAIT_S = 600.0
"""A worker hears within a quarter of its lease that a command waits, ends its visit, and stores it."""

_BEAT_S = 10.0
_SAVE_S = 600.0
"""The changes of a command would be lost if the hub were given up sooner."""

_HELD_S = 3600.0
"""A command may wait for its user, but not for ever: then a worker gets the shard."""

_NOTHING_DONE = "nothing was done; try again later"
_LOST = "what the command recorded is lost, and what it did to files stays; run it again"


class CheckedOut(NamedTuple):
    """A part of the tree for a command: a configuration whose catalog is the local copy, and the tree its only root."""

    config: Config
    scope: TreeScope


class _Patience:
    """How long calls are repeated while the hub is away."""

    ends_at = 0.0

    def wait(self, seconds: float) -> bool:
        if time.monotonic() + seconds > self.ends_at:
            return True
        time.sleep(seconds)
        return False


@contextmanager
def check_out(
    config: Config,
    root: ConfiguredRoot,
    paths: Sequence[bytes],
    write_finding: FindingWriter,
    say: Callable[[str], None],
    *,
    writes: bool,
    longest_wait_s: float = _LONGEST_WAIT_S,
) -> Iterator[CheckedOut]:
    """
    Give a command the shard that has its files, during the block.

    Args:
        config: of this machine, with the root.
        paths: real ones, of files or folders in it: at least one, all in one shard.
        say: tells the user what is waited for.
        writes: the command changes the catalog; it is stored afterwards, even if the command fails in its midst.
        longest_wait_s: for a worker that has the shard.

    Raises:
        ConfigError: no hub is configured, or the paths are in several shards.
        AppError: the hub is away or refuses, the shard was not read yet, or a worker does not give it back in time.
    """
    patience = _Patience()
    calls = make_calls(config, root, write_finding, patience.wait)
    folders = [_find_folder(root, path) for path in paths]
    with make_work_folder(find_work_folder(config)) as work:
        copy = os.path.join(work, b"shard.db")
        with _explaining(root, _NOTHING_DONE):
            task, beat_s = _take(calls, folders[0], say, longest_wait_s) if writes else _look(calls, folders[0])
        if not writes:
            yield _load(calls, task, copy, folders)
            return
        lease = Lease(calls.client.hub.copy(), calls.worker, task.job, beat_s, _HELD_S)
        with lease.held(Stop()):
            before = b""
            try:
                loaded = _load(calls, task, copy, folders)
                before = _digest(copy)
                yield loaded
            finally:
                patience.ends_at = time.monotonic() + _SAVE_S
                with _explaining(root, _LOST):
                    if before in (b"", _digest(copy)):
                        calls.call("release", {"job": task.job, "trouble": None})
                    else:
                        _store(calls, task, copy, lease)


@contextmanager
def _explaining(root: ConfiguredRoot, remedy: str) -> Iterator[None]:
    """Say what a refusal of the hub means for who gave the command."""
    what = f"{show_path(root.path)} is the shared tree {root.shared}, whose records the hub has"
    try:
        yield
    except HubAway as error:
        raise AppError(f"{what}, and the hub does not answer ({error}): {remedy}") from error
    except HubError as error:
        raise AppError(f"{what}: {error}: {remedy}") from error


def _find_folder(root: ConfiguredRoot, path: bytes) -> bytes:
    """Return the folder, relative to the tree, whose names a command is about."""
    place = os.path.relpath(path, root.path) if path != root.path else b""
    is_folder = os.path.isdir(path) and not os.path.islink(path)
    return place if is_folder else os.path.dirname(place)


def _look(calls: TreeCalls, folder: bytes) -> tuple[ShardTask, float]:
    task, answer = calls.ask("look", {"folder": to_text(folder)})
    if task is None:
        raise HubError("the hub names no shard")
    return task, read_seconds(answer, "beat_s", _BEAT_S)


def _take(
    calls: TreeCalls, folder: bytes, say: Callable[[str], None], longest_wait_s: float
) -> tuple[ShardTask, float]:
    """Get the shard of a folder; wait while a worker has it."""
    ends_at, has_said = time.monotonic() + longest_wait_s, False
    while True:
        task, answer = calls.ask("take", {"folder": to_text(folder)})
        if task is not None:
            return task, read_seconds(answer, "beat_s", _BEAT_S)
        holder = printable(str(answer.get("held_by")))
        if time.monotonic() >= ends_at:
            raise HubError(f"{holder} works on this part of it, and did not store it within {longest_wait_s:,.0f} s")
        if not has_said:
            say(f"{holder} works on this part of the shared tree now; waiting until it has stored what it did")
            has_said = True
        time.sleep(_ASK_S)


def _load(calls: TreeCalls, task: ShardTask, copy: bytes, folders: Sequence[bytes]) -> CheckedOut:
    place, scope = show_path(calls.root.path), task.scope
    if task.digest is None:
        raise AppError(
            f"{place}: this part of the shared tree was not read yet, so nothing is recorded; run:"
            f" {program.command('hub work')}"
        )
    for folder in folders:
        inner = sorted(one for one in scope.left_out if not folder or one == folder or one.startswith(folder + b"/"))
        if not scope.covers(folder):
            raise ConfigError(f"{place}: the files lie in several parts of the shared tree: name those of one folder")
        if inner:
            raise ConfigError(
                f"{show_path(os.path.join(calls.root.path, folder))}: has several parts of the shared tree: name a"
                f" folder in it, such as {show_path(os.path.join(calls.root.path, inner[0]))}, or files"
            )
    with _explaining(calls.root, _NOTHING_DONE), calls.open_copy(copy, task, lambda: None) as catalog:
        return CheckedOut(calls.make_config(catalog), scope)


def _store(calls: TreeCalls, task: ShardTask, copy: bytes, lease: Lease) -> None:
    with Catalog.open(copy, writes=True) as catalog:
        context = Context(catalog, calls.make_config(catalog), lease)
        done = look(context, calls.root.path)
        digest = calls.store_catalog(catalog, task, lease.made_progress)
    lease.is_ending = True
    calls.finish(task, done, digest)


def _digest(path: bytes) -> bytes:
    """Return the digest of a catalog that nobody has open; empty: there is none."""
    if not os.path.exists(path):
        return b""
    return blake3(max_threads=1).update_mmap(os.fsdecode(path)).digest()
