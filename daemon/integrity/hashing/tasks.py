"""
What the engine is asked and what it answers.

Handed from one thread to another, so nothing in them is ever changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from integrity.errors import ReadError
from integrity.hashing.digests import Want
from integrity.model import Blocks, ByteRange, Reading, Witness


class StopSignal(Protocol):
    """What says that a run is to end; Asked from any thread."""

    def is_set(self) -> bool:
        """Say whether no more is to be begun; once it is, it stays so."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Where an earlier reading of a file stopped; void if the witness moved (R7)."""

    offset: int
    md5_state: bytes | None
    witness: Witness


class Task(NamedTuple):
    """
    One file to read.

    Args:
        path: relative to the engine's root.
        size_bytes: as far as known; only decides how the work is spread.
        want: which digests.
        block_size_bytes: of its blocks.
        tag: the consumer's own; handed back untouched.
        resume: where to go on.
        known_bad: ranges that an earlier run could not read.
        probe: a range whose XXH3-128 is wanted besides, to see whether a file still begins with its old content.
    """

    path: bytes
    size_bytes: int
    want: Want
    block_size_bytes: int
    tag: object = None
    resume: Resume | None = None
    probe: ByteRange | None = None
    known_bad: tuple[ByteRange, ...] = ()


@dataclass(frozen=True, slots=True)
class Partial:
    """A large file up to ``offset``: what a checkpoint needs. ``blocks`` begin with block ``first_block``."""

    task: Task
    offset: int
    first_block: int
    blocks: Blocks
    md5_state: bytes | None
    witness: Witness


class Done(NamedTuple):
    """
    A file read to its end as one stable version.

    ``reading.blocks`` begin with block ``first_block``. ``probe`` is the digest that the task asked for; None as well
    when the file is too short for it, or was resumed behind it.
    """

    task: Task
    reading: Reading
    first_block: int = 0
    probe: bytes | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A file that could not be read as one stable version."""

    task: Task
    error: ReadError
    bytes_read: int = 0


Result = Partial | Done | Failed
