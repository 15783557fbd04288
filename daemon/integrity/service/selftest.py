"""
Prove that damage is found and reported: simulated bit rot, a real scrub, and an alert through every channel.

Everything happens in a temporary folder with its own catalog; only the mail and alert settings of the user are used.
The rot is a flipped bit, after which the file's current stat is recorded as the old one, because a ctime can't be
restored.

I1  A step succeeds only if its effect was observed: each step checks the result of the one before.
I2  An untouched file lies beside the canary and must be verified: a scrub that reports everything as damaged fails.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from integrity.alerts.channels import describe_no_channels, make_channels
from integrity.alerts.delivery import AlertDelivery
from integrity.alerts.heartbeat import HEARTBEAT, ping
from integrity.catalog import files, outbox
from integrity.catalog.baselines import set_witnesses
from integrity.catalog.connection import Catalog
from integrity.catalog.outbox import AlertKind
from integrity.catalog.roots import find_roots
from integrity.config import Config
from integrity.errors import ChannelError, ConfigError, show_path
from integrity.jobs import runner
from integrity.jobs.context import Context
from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.report import Stop
from integrity.model import Finding, FindingKind, ReadHow, Witness

if TYPE_CHECKING:
    from integrity.catalog.outbox import ChannelState
    from integrity.catalog.rows import FileRecord
    from integrity.jobs.report import Note, Progress, Summary


CANARY = b"canary"
UNTOUCHED = b"untouched"
BAD_BLOCK = 1

_MIB = 1 << 20
BAD_BYTE = BAD_BLOCK * _MIB + 12345
_SIZE_BYTES = 3 * _MIB - 4000  # three blocks, the last one partial

_ROOT = b"integrity-self-test"
_PARENTS = ("/var/tmp", "/tmp")  # noqa: S108 - made by mkdtemp
"""The first lies on a disk, where the second is often memory (file-hierarchy(7)); bare systems may lack it."""


@contextmanager
def make_folder() -> Iterator[bytes]:
    """
    Make a temporary folder, and remove it with its contents at the end.

    Raises:
        ConfigError: the folder can't be made.
    """
    parent = os.environ.get("TMPDIR") or next(filter(os.path.isdir, _PARENTS), _PARENTS[0])
    with _writing(os.fsencode(parent)):
        made = tempfile.TemporaryDirectory(prefix="integrity-", dir=parent)
    with made as name:
        yield os.path.realpath(os.fsencode(name))


def plant(folder: bytes) -> bytes:
    """
    Write the files. Return their folder.

    Raises:
        ConfigError: the files can't be written.
    """
    root = folder + b"/" + _ROOT
    with _writing(folder):
        os.mkdir(root)
        for name in (CANARY, UNTOUCHED):
            with open(root + b"/" + name, "xb") as file:
                file.write(os.urandom(_SIZE_BYTES))
                file.flush()
                os.fsync(file.fileno())
    return root


def flip_bit(root: bytes) -> None:
    """
    Flip a bit of the canary's BAD_BYTE, and flush it to the disk.

    Raises:
        ConfigError: the file can't be written.
    """
    with _writing(root), open(root + b"/" + CANARY, "r+b") as file:
        file.seek(BAD_BYTE)
        (byte,) = file.read(1)
        file.seek(BAD_BYTE)
        file.write(bytes([byte ^ 1]))
        file.flush()
        os.fsync(file.fileno())


def look(root: bytes) -> Witness:
    found = os.stat(root + b"/" + CANARY, follow_symlinks=False)
    return Witness(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


@contextmanager
def _writing(folder: bytes) -> Iterator[None]:
    """Add the remedy to errors of writing into a folder."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{show_path(folder)}: the self-test can't write there: {error.strerror}; name another folder with"
            " TMPDIR=/FOLDER"
        ) from error


_REREADS = 2

_HOW = {
    ReadHow.DIRECT: "read past the page cache",
    ReadHow.DROPPED: "read after its pages were dropped from memory",
    ReadHow.CACHE_POSSIBLE: "but memory may have answered here: TMPDIR can name a folder on a disk",
}


class Stage(StrEnum):
    """The steps, in order; ``--json`` uses the same words."""

    PLANT = "plant"
    RECORD = "record"
    DAMAGE = "damage"
    SCRUB = "scrub"
    ALERT = "alert"  # once per channel


@dataclass(frozen=True, slots=True)
class SelfTestStep:
    """
    The result of one step.

    Args:
        seen: what was observed, for people.
        channel: name of the channel, for alerts.
    """

    stage: Stage
    is_ok: bool
    seen: str
    channel: str | None = None


def run_self_test(
    config: Config,
    *,
    hostname: str,
    stop: Stop,
    clock: Callable[[], float] = time.time,
    damages: bool = True,
    needs_channel: bool = True,
) -> Generator[SelfTestStep, None, None]:
    """
    Run the steps in order, and yield the result of each. Stop after the first failure.

    The caller must exhaust or close the generator, which removes the folder.

    Args:
        config: the user's; only its mail and alert settings are used.
        stop: ends the test early; the interrupted step is not yielded.
        clock: seconds UTC.
        damages: False leaves the canary intact: the scrub step must then fail.
        needs_channel: False also tests a configuration without alerts, up to the scrub.

    Raises:
        ConfigError: no alerts are configured although they are needed, or there is no writable folder.
        AppError: a step could not run, for example because the disk is full; this proves nothing about alerts.
    """
    has_channel = bool(make_channels(config, hostname=hostname) or config.alerts.heartbeat_url)
    if needs_channel and not has_channel:
        raise ConfigError(describe_no_channels())
    with make_folder() as folder:
        own = Config(catalog=folder + b"/catalog.db", mail=config.mail, alerts=replace(config.alerts, group_s=0))
        root = plant(folder)
        yield SelfTestStep(
            Stage.PLANT, True, f"a canary and a file to be left alone, of random bytes, in {show_path(root)}"
        )
        with Catalog.create(own.catalog, clock=clock) as catalog:
            test = _SelfTest(Context(catalog, own, _FindingCollector(), stop=stop, clock=clock), root, hostname)
            for take in (test.record, lambda: test.damage(damages=damages), test.scrub):
                step = take()
                if stop.is_set():
                    return
                yield step
                if not step.is_ok:
                    return
            if has_channel:
                yield from test.alert()


class _FindingCollector:
    """Collect the findings of jobs."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def progress(self, progress: Progress) -> None:
        """Ignore progress."""

    def finding(self, finding: Finding) -> None:
        self.findings.append(finding)

    def note(self, note: Note) -> None:
        """Ignore notes."""


class _SelfTest:
    """
    The steps after the first.

    Args:
        context: of the jobs, with the private catalog.
        root: folder of the canary.
    """

    def __init__(self, context: Context, root: bytes, hostname: str) -> None:
        self._context = context
        self._catalog = context.catalog
        self._root = root
        self._hostname = hostname

    def record(self) -> SelfTestStep:
        summary = runner.scan(self._context, [self._root], ScanOptions())
        record = self._find(CANARY)
        if record is None or record.digests.md5 is None or summary.counts.new != 2:
            return SelfTestStep(Stage.RECORD, False, f"a scan did not record the two files: {_describe(summary)}")
        return SelfTestStep(
            Stage.RECORD, True, f"a scan recorded 2 files; the canary's MD5 is {record.digests.md5.hex()}"
        )

    def damage(self, *, damages: bool) -> SelfTestStep:
        """Flip a bit of the canary, and record the file's current stat as the old one."""
        if damages:
            flip_bit(self._root)
        record = self._find(CANARY)
        assert record is not None  # the step before found it
        with self._catalog.transaction() as connection:
            set_witnesses(connection, [(record, look(self._root))])
        record = self._find(CANARY)
        if record is None or record.witness != look(self._root):
            return SelfTestStep(
                Stage.DAMAGE, False, "the catalog does not believe that the canary has always looked like this"
            )
        what = f"a bit of the canary's byte {BAD_BYTE:,} was flipped" if damages else "nothing was damaged"
        return SelfTestStep(
            Stage.DAMAGE, True, f"{what}; size, times and inode are as recorded, as when a disk forgets"
        )

    def scrub(self) -> SelfTestStep:
        """Run a scrub. It must find the damage and nothing else."""
        collector = self._context.report = _FindingCollector()
        summary = runner.scrub(self._context, [self._root], ScrubOptions())
        if not _is_just_the_canary(collector.findings, summary):
            found = ", ".join(f"{one.kind.value} in {show_path(one.path or b'.')}" for one in collector.findings)
            text = f"a scrub did NOT find just the damage: {_describe(summary)}; it told of {found or 'nothing'}"
            return SelfTestStep(Stage.SCRUB, False, text)
        (rot,) = collector.findings
        certainty = f" ({rot.certainty.value})" if rot.certainty else ""
        path = show_path(rot.root + b"/" + (rot.path or b""))
        untouched = self._find(UNTOUCHED)
        how = (untouched and untouched.read_how) or ReadHow.CACHE_POSSIBLE
        return SelfTestStep(
            Stage.SCRUB,
            True,
            f"a scrub found rot{certainty} in {path}, block {BAD_BLOCK} (counted from 0);"
            f" {rot.confirmed_reads} more readings agreed; the other file is intact, {_HOW[how]}",
        )

    def alert(self) -> Iterator[SelfTestStep]:
        config, clock = self._context.config, self._context.clock
        channels = make_channels(config, hostname=self._hostname)
        AlertDelivery(self._catalog, config, channels, clock=clock, hostname=self._hostname, is_drill=True).tick()
        with self._catalog.read() as connection:
            states = {state.name: state for state in outbox.channel_states(connection)}
            is_alerted = bool(outbox.created_times(connection, [AlertKind.INCIDENT], 1))
        for channel in channels:
            yield _describe_sent(channel.name, states[channel.name], self._hostname, is_alerted=is_alerted)
        if config.alerts.heartbeat_url:
            yield _ping(config.alerts.heartbeat_url)

    def _find(self, path: bytes) -> FileRecord | None:
        with self._catalog.read() as connection:
            (root,) = find_roots(connection)
            return files.find_file(connection, root.id, path)


def _is_just_the_canary(found: list[Finding], summary: Summary) -> bool:
    """Return whether the scrub found the damage, in the right block, re-read it, and verified the other file."""
    if len(found) != 1 or (summary.counts.damaged, summary.counts.verified) != (1, 1):
        return False
    (rot,) = found
    is_there = (rot.kind, rot.path, rot.blocks) == (FindingKind.ROT, CANARY, (BAD_BLOCK,))
    return is_there and rot.confirmed_reads >= _REREADS and summary.has_integrity_problem


def _describe(summary: Summary) -> str:
    counts = summary.counts
    names = ("new", "verified", "changed", "damaged", "missing", "unreadable", "unstable", "skipped", "not_due")
    parts = [f"{getattr(counts, name)} {name}" for name in names if getattr(counts, name)]
    return f"{summary.outcome.value}, {', '.join(parts) or 'no files'}"


def _describe_sent(name: str, state: ChannelState, hostname: str, *, is_alerted: bool) -> SelfTestStep:
    """Return whether a channel accepted the alert. A channel that was not tried counts as failed."""
    host = hostname.partition(".")[0]  # as in subjects
    if state.last_error is not None:
        return SelfTestStep(Stage.ALERT, False, state.last_error, name)
    if not is_alerted or state.good_at is None or state.waiting:
        return SelfTestStep(Stage.ALERT, False, "no alert about the finding left", name)
    return SelfTestStep(
        Stage.ALERT, True, f'took the alert; its subject begins with "[integrity] {host}: this is a drill"', name
    )


def _ping(url: str) -> SelfTestStep:
    try:
        ping(url, "")
    except ChannelError as error:
        return SelfTestStep(Stage.ALERT, False, str(error), HEARTBEAT)
    return SelfTestStep(Stage.ALERT, True, "was pinged as after a good run: it takes no messages", HEARTBEAT)
