"""
The words of the domain, each with one meaning.

Records are frozen and hold no behaviour beyond what follows from their own fields. Paths are bytes, relative to their
root, without leading or trailing slash (R10). Times from stat are integer nanoseconds; times of our own are integer
seconds UTC (``*_at``). Digests are raw bytes.

Annotations are evaluated here, and where a short command loads named tuples: of each field whose annotation is text,
Python up to 3.13 compiles it, which takes as long as all else that makes the class.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import chain
from typing import Any, NamedTuple, NewType, Self

RootId = NewType("RootId", int)
FolderId = NewType("FolderId", int)
FileId = NewType("FileId", int)
RunId = NewType("RunId", int)
FindingId = NewType("FindingId", int)
CopyId = NewType("CopyId", int)

MD5_BYTES = 16
XXH3_128_BYTES = 16
CRC64NVME_BYTES = 8
BLAKE3_BYTES = 32

Stamps = tuple[int, int, int, int]
"""size_bytes, mtime_ns, ctime_ns and inode of a file."""

ByteRange = tuple[int, int]
"""(offset, length), both in bytes."""


class Policy(StrEnum):
    """What kinds of change a root's files are expected to undergo."""

    MUTABLE = "mutable"  # files come, change and go
    ARCHIVE = "archive"  # files come and stay as they are: any change or loss is a finding
    GROWING = "growing"  # files are appended to: what was there must stay as it was


class ReadHow(StrEnum):
    """How sure it is that a reading came from the disk (R4)."""

    DIRECT = "direct"  # O_DIRECT: past the page cache
    DROPPED = "dropped"  # buffered, after its clean pages had been dropped
    CACHE_POSSIBLE = "cache_possible"  # memory may have answered


class FindingKind(StrEnum):
    """What a finding says."""

    ROT = "rot"
    SILENT_REWRITE = "silent_rewrite"
    TRANSIENT = "transient"
    CATALOG_DAMAGED = "catalog_damaged"
    CHANGED = "changed"  # in an archive
    MISSING = "missing"  # from an archive, or from where a root was moved to
    SHRUNK = "shrunk"  # in a growing root: what was there is not there any more
    ROLLED_BACK = "rolled_back"
    INVALID = "invalid"  # fails the check that its format carries
    MASS_CHANGE = "mass_change"
    SUSPICIOUS_CHANGE = "suspicious_change"  # the gate is closed: what changed is not to be copied into a backup
    UNREADABLE = "unreadable"
    UNSTABLE = "unstable"
    ROOT_SUSPENDED = "root_suspended"
    OVERDUE = "overdue"
    WATCH_BLIND = "watch_blind"
    DEVICE_FAILING = "device_failing"
    DEVICE_STALLED = "device_stalled"
    DISK_WARNING = "disk_warning"  # a disk or an array reports that it begins to fail
    COPY_MISSING = "copy_missing"
    COPY_DIFFERS = "copy_differs"
    COPY_CONFLICT = "copy_conflict"  # file and copy differ, and which is right is not known
    COPY_NEWER = "copy_newer"
    COPY_STALE = "copy_stale"
    COPY_EXTRA = "copy_extra"
    COPY_NOT_COMPARABLE = "copy_not_comparable"
    COPY_UNREADABLE = "copy_unreadable"


class Certainty(StrEnum):
    """How sure a verdict of damage is, of a file or of a copy."""

    PROVEN = "proven"  # no write can have happened
    AFTER_CRASH = "after_crash"  # machine or disk may have crashed since: new content may stand under old times
    INODE_MOVED = "inode_moved"  # another file stands here under the same times, so a rename can't be excluded
    NO_INODE = "no_inode"  # inode numbers can't be trusted, so a rename can't be excluded
    NO_CTIME = "no_ctime"  # the file system's ctime can't be trusted, so a write can't be excluded
    CTIME_MOVED = "ctime_moved"  # somebody touched the inode since, so a write can't be excluded
    TIMES_MOVED_TOGETHER = "times_moved_together"  # the time moved with those of other files, so it shows no write
    CUT_OFF = "cut_off"  # a copy is no more than the beginning of the file


class FindingState(StrEnum):
    """Where a finding stands in its life."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"  # a person has seen it; no reminders until it changes
    MUTED = "muted"  # no reminders until a date
    RESOLVED = "resolved"


class Job(StrEnum):
    """What a run does."""

    SCAN = "scan"
    SCRUB = "scrub"
    COMPARE = "compare"
    REPAIR = "repair"
    IMPORT = "import"
    PROTECT = "protect"


class Outcome(StrEnum):
    """How a run ended."""

    CLEAN = "clean"
    FINDINGS = "findings"
    INCOMPLETE = "incomplete"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class ActionVerb(StrEnum):
    """What a person had done; stored in the history of actions."""

    ACK = "ack"
    MUTE = "mute"
    ACCEPT = "accept"
    REPAIR = "repair"
    PAUSE = "pause"
    RESUME = "resume"
    RELEASE = "release"
    REBIND = "rebind"
    FORGET = "forget"
    TEST_ALERT = "test_alert"


class Actor(NamedTuple):
    """
    The person who had something done.

    Args:
        who: name of the user, for people.
        address: where the request came from: an IP address, or "command line".
    """

    who: str
    address: str


class RootState(StrEnum):
    """Whether a root is worked on."""

    ACTIVE = "active"
    SUSPENDED = "suspended"  # it is not itself (R5); resumes by itself when it is again
    PAUSED = "paused"  # by a person, or taken out of the config


class BaselineReason(StrEnum):
    """Why a baseline was taken, or why it was replaced."""

    RECORDED = "recorded"
    IMPORTED = "imported"  # recorded, and equal to what a manifest says of it
    EDITED = "edited"
    ROLLED_BACK = "rolled_back"
    GROWN = "grown"
    ROTATED = "rotated"
    REWRITTEN_IN_PLACE = "rewritten_in_place"
    RACY = "racy"  # the old baseline was taken within a clock granule of a write
    ACCEPTED = "accepted"
    REPAIRED = "repaired"
    MOVED = "moved"
    INHERITED = "inherited"  # of a known file: a new name of its inode, or a copy of its known damage
    RESTORED = "restored"  # of a deleted file, under whose name other content came back
    REJECTED = "rejected"  # content of a copy, of which a person said that the file is right
    DELETED = "deleted"
    FORGOTTEN = "forgotten"


class SkipReason(StrEnum):
    """Why a name was not covered."""

    EXCLUDED = "excluded"
    SPECIAL = "special"  # FIFO, socket, device
    SYMLINK = "symlink"
    MOUNT = "mount"  # another file system, not entered
    CATALOG = "catalog"  # the catalog's own files
    DEVICE_FAILING = "device_failing"


class Witness(NamedTuple):
    """
    What stat said of a file when its digests were taken.

    A named tuple, like all of which one is made for each file: a frozen dataclass costs six times as much to make.
    ``is_racy``: mtime or ctime lies within one granule of the moment of hashing, so a later write may have left both
    unchanged (R1).
    """

    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    is_racy: bool = False

    @property
    def stamps(self) -> Stamps:
        """Give what stat said, to be held against what it says at another time."""
        return self[:4]

    @property
    def size_and_mtime(self) -> tuple[int, int]:
        """Give what moves with the content, and not with a rename or another name."""
        return self[:2]


class Digests(NamedTuple):
    """
    The digests of a whole file; None where one was not computed.

    ``md5`` is None for very sparse files, ``xxh3_128`` and ``blake3`` when a recording was resumed in mid-file (their
    state can't be saved). Then the blocks judge. ``crc64nvme`` judges copies only: it is what S3 keeps of whole
    objects, 8 bytes, the most significant first. It comes with new baselines, and only where the C core computes it.
    """

    md5: bytes | None = None
    xxh3_128: bytes | None = None
    blake3: bytes | None = None
    crc64nvme: bytes | None = None


@dataclass(frozen=True, slots=True)
class Blocks:
    """
    The digests of a file's blocks, packed: 16 bytes a block each (8 of CRC-64/NVME), in the order of the file.

    The last block may be shorter than ``block_size_bytes``. ``md5`` and ``crc64nvme`` are empty when only XXH3 was
    asked for.
    """

    block_size_bytes: int
    xxh3_128: bytes
    md5: bytes = b""
    crc64nvme: bytes = b""

    def __len__(self) -> int:
        return len(self.xxh3_128) // XXH3_128_BYTES


class Reading(NamedTuple):
    """One stable version of a file's content: what stat said and what the bytes hash to."""

    witness: Witness
    digests: Digests
    blocks: Blocks | None  # for files larger than one block
    how: ReadHow
    bytes_read: int  # from the file, holes not counted
    others: tuple[bytes, ...] = ()  # digests that were asked for and are not kept, in that order

    @property
    def block_size_bytes(self) -> int | None:
        """Return the size of its blocks; None if it fits one."""
        return None if self.blocks is None else self.blocks.block_size_bytes


class Readings(NamedTuple):
    """
    Readings of many files, in columns of one length.

    Attributes:
        witnesses: the columns of ``Witness``, in its order.
        digests: those of ``Digests``.
    """

    witnesses: tuple[Sequence[int], ...]
    digests: tuple[Sequence[bytes | None], ...]
    blocks: Sequence[Blocks | None]
    hows: Sequence[ReadHow]

    @classmethod
    def of(cls, some: Sequence[Reading]) -> "Readings":
        """Put readings into columns; there is at least one."""
        witnesses, digests, blocks, hows, *_ = zip(*some, strict=True)
        return cls(tuple(zip(*witnesses, strict=True)), tuple(zip(*digests, strict=True)), blocks, hows)

    @property
    def sizes_bytes(self) -> Sequence[int]:
        """Give the sizes of the files; of one without holes it is also what was read of it."""
        return self.witnesses[0]

    @property
    def are_racy(self) -> Sequence[int]:
        """Say of each file whether its witness is racy."""
        return self.witnesses[4]

    @property
    def columns(self) -> "tuple[Sequence[Any], ...]":
        """Give all columns: of the witnesses, of the digests, blocks and how."""
        return *self.witnesses, *self.digests, self.blocks, self.hows

    @classmethod
    def _from_columns(cls, columns: "Sequence[Sequence[Any]]") -> "Readings":
        *values, blocks, hows = columns
        count = len(Witness._fields)
        return cls(tuple(values[:count]), tuple(values[count:]), blocks, hows)

    def select(self, indexes: "Sequence[int]") -> "Readings":
        """Make columns of some of the files."""
        return self._from_columns([[column[index] for index in indexes] for column in self.columns])

    @classmethod
    def join(cls, some: "Sequence[Readings]") -> "Readings":
        """Put readings behind each other."""
        joined = zip(*(one.columns for one in some), strict=True)
        return cls._from_columns([list(chain.from_iterable(columns)) for columns in joined])

    def each(self) -> Iterator[Reading]:
        """Give the reading of each file by itself."""
        for size, mtime, ctime, inode, is_racy, *digests, blocks, how in zip(*self.columns, strict=True):
            yield Reading(Witness(size, mtime, ctime, inode, bool(is_racy)), Digests(*digests), blocks, how, size)


class Capability(NamedTuple):
    """What a file system can be trusted with. Found by files.capability, first argument of every verdict."""

    fs_type: str
    has_ctime: bool  # ctime moves with every write and nobody can set it
    has_stable_inodes: bool  # an inode number names one file for good
    granularity_ns: int  # two writes closer than this may carry the same time
    has_direct_io: bool
    is_remote: bool
    shows_mapped_writes: bool = True  # a store into a shared mapping moves mtime and ctime, if late


class RootIdentity(NamedTuple):
    """What a root is recognised by (R5): never a device number, which changes from boot to boot."""

    fs_id: str  # the surest name of the file system; see same_place.py
    folder_inode: int  # or the number of its path, where inodes do not last; see same_place.py
    fs_type: str
    mount_point: bytes
    names: tuple[str, ...] = ()  # all that can be seen now, so no part of a comparison; empty for a recorded one

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RootIdentity) and self[:4] == other[:4]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:4])


class SeenVersion(NamedTuple):
    """
    What one version of a backup has of a file.

    Attributes:
        copy: name of the backup.
        name: of the version.
        taken_at: when it was made.
        content: against the record; a word of ``CopyVote``.
        is_silent: it differs, with the recorded size and time.
    """

    copy: str
    name: str
    taken_at: int
    content: str
    is_silent: bool


class Finding(NamedTuple):
    """A verdict that somebody should know of."""

    id: FindingId
    kind: FindingKind
    state: FindingState
    root: bytes  # the root's absolute path
    path: bytes | None  # relative to the root; None when the finding is about the root
    message: str
    opened_at: int
    updated_at: int
    certainty: Certainty | None = None
    blocks: tuple[int, ...] = ()
    block_size_bytes: int | None = None
    ranges: tuple[ByteRange, ...] = ()
    confirmed_reads: int = 0
    resolved_at: int | None = None
    resolution: str | None = None
    muted_until: int | None = None
    copy: str | None = None  # name of the copy that it is about
    step: str | None = None  # what to do next, where its kind alone does not tell
    command: str | None = None  # that does it
    opened_by: RunId | None = None  # None: no run did, or nobody knows
    incident: FindingId | None = None  # the finding about another name of the same file; None: this one stands first
    versions: tuple[SeenVersion, ...] | None = None  # of backups, the newest of each first; None: not looked at
    names: tuple[bytes, ...] = ()  # of an incident: the other names of the file, relative to the root

    @property
    def incident_id(self) -> FindingId:
        """The number that all findings about names of one file share."""
        return self.id if self.incident is None else self.incident


class Tally(StrEnum):
    """The one thing that a run says of each name (R8)."""

    VERIFIED = "verified"
    NEW = "new"
    CHANGED = "changed"
    DAMAGED = "damaged"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    UNSTABLE = "unstable"
    SKIPPED = "skipped"
    NOT_DUE = "not_due"


@dataclass(slots=True, repr=False, match_args=False)
class RunCounts:
    """
    What a run covered: each known name in exactly one of the nine tallies (R8), and some "of which".

    The one record that is not frozen: a run adds to it as it goes.
    """

    verified: int = 0
    new: int = 0
    changed: int = 0
    damaged: int = 0
    missing: int = 0
    unreadable: int = 0
    unstable: int = 0
    skipped: int = 0
    not_due: int = 0
    moved: int = 0
    bytes_read: int = 0
    findings_opened: int = 0
    findings_open: int = 0

    @property
    def known(self) -> int:
        """Sum up the nine tallies."""
        return sum(getattr(self, tally.value) for tally in Tally)

    def add(self, tally: Tally, count: int = 1) -> None:
        """Count ``count`` names under ``tally``; negative to take a former tally back."""
        setattr(self, tally.value, getattr(self, tally.value) + count)

    def __iadd__(self, other: "RunCounts") -> Self:
        """Add what another run covered, number by number."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))
        return self
