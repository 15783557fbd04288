"""
Small records that are kept as JSON objects in ``meta``, most of them by root, with the key ``NAME/ROOT_ID/ID``.

What the disks below a root reported, when it was moved, which repairs are in progress, what they left; imports; when
the service ran. Each import that recorded files has one row, instead of a column for each file: key
``import/ROOT_ID/FIRST_FILE_ID``, value the manifest's name. File ids rise and are never reused (I2 of ``schema.sql``),
and one job at a time works on a root, so an imported file belongs to the last import that began at or before its id.

I1  A service that ended without being asked to (crash, kill, power cut) leaves no time of a stop.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from integrity.catalog.db import Connection
from integrity.catalog.roots import RootRecord, count_files_until
from integrity.catalog.rows import FileRecord
from integrity.files.excludes import is_kept_by_repair
from integrity.model import FileId, RootId, Tally

if TYPE_CHECKING:
    from integrity.disks.report import DeviceReport


class RootMeta:
    """The objects of one kind, whose name is the first part of their keys."""

    def __init__(self, name: str) -> None:
        self._name = name

    def save(self, c: Connection, root: RootRecord, row_id: str, value: Mapping[str, object]) -> None:
        """Store an object, in place of the former one if there is one."""
        key = f"{self._name}/{root.id}/{row_id}"
        c.run("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", key, json.dumps(value))

    def find(self, c: Connection, root: RootRecord) -> list[tuple[str, dict[str, Any]]]:
        """Return id and object of each row of a root, in the order of the ids."""
        prefix = f"{self._name}/{root.id}"
        rows = c.rows("SELECT key, value FROM meta WHERE key > ? AND key < ? ORDER BY key", f"{prefix}/", f"{prefix}0")
        return [(key[len(prefix) + 1 :], json.loads(value)) for key, value in rows]  # "0" follows "/"

    def drop(self, c: Connection, root_id: RootId, row_id: str) -> None:
        """Delete an object."""
        c.run("DELETE FROM meta WHERE key = ?", f"{self._name}/{root_id}/{row_id}")


def keep_import(c: Connection, root_id: RootId, first_id: FileId, manifest: str) -> None:
    """Record the name of an imported manifest, in the transaction that records its first file, ``first_id``."""
    c.run("INSERT INTO meta (key, value) VALUES (?, ?)", f"import/{root_id}/{first_id}", manifest)


def find_import(c: Connection, root_id: RootId, file_id: FileId) -> str | None:
    """Return the manifest that an imported file came from; None if unknown. Call it for imported files only."""
    query = """
        SELECT value FROM meta WHERE key > ?1 AND key < ?2 AND CAST(substr(key, length(?1) + 1) AS INTEGER) <= ?3
        ORDER BY CAST(substr(key, length(?1) + 1) AS INTEGER) DESC LIMIT 1"""
    return c.value(query, f"import/{root_id}/", f"import/{root_id}0", file_id)  # "0" follows "/"


_REPORTS = RootMeta("disk")


def find_reports(c: Connection, root: RootRecord) -> "list[DeviceReport]":
    """Return the last report of each disk and array below a root."""
    found = (_read(value) for _, value in _REPORTS.find(c, root))
    return [report for report in found if report is not None]


def replace_reports(c: Connection, root: RootRecord, reports: "Sequence[DeviceReport]") -> None:
    """Record the reports of all disks and arrays below a root; the rows of others go."""
    from dataclasses import asdict

    for row_id, _ in _REPORTS.find(c, root):
        _REPORTS.drop(c, root.id, row_id)
    for report in reports:
        _REPORTS.save(c, root, f"{report.kind.value}:{report.name}", asdict(report))


def _read(value: dict[str, Any]) -> "DeviceReport | None":
    """Parse a row; None if another version wrote it."""
    from integrity.disks.report import Count, DeviceKind, DeviceReport, DeviceTrouble, Quantity

    try:
        counts = {Quantity(name): Count(**count) for name, count in value["counts"].items()}
        trouble = None if value["trouble"] is None else DeviceTrouble(value["trouble"])
        known = {name: value[name] for name in DeviceReport.__slots__}
        return DeviceReport(**known | {"kind": DeviceKind(value["kind"]), "counts": counts, "trouble": trouble})
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


_TAKEN_OVER_S = 8 * 86400  # a weekly scrub by cron may be late by a day


class PastService(NamedTuple):
    """The last service. ``seen_at``: when it was stopped, or, if it crashed, when it last began or ended a run."""

    seen_at: int
    has_crashed: bool


def note_service_started(c: Connection, pid: int, now: int) -> None:
    """Record that a service serves the catalog."""
    _save_service(c, {"pid": pid, "started_at": now, "stopped_at": None})


def note_service_stopped(c: Connection, now: int) -> None:
    """Record that the service was asked to stop."""
    _save_service(c, {**_load_service(c), "stopped_at": now})


def find_past_service(c: Connection, now: int) -> PastService | None:
    """Return the service that last served the catalog; None without one, or if commands took its place since."""
    known = _load_service(c)
    if not known:
        return None
    stopped_at = known["stopped_at"]
    if stopped_at is None:
        query = "SELECT max(coalesce(finished_at, started_at)) FROM run WHERE pid = ? AND started_at >= ?"
        return PastService(c.value(query, known["pid"], known["started_at"]) or known["started_at"], has_crashed=True)
    query = "SELECT max(started_at) FROM run WHERE job = 'scrub' AND started_at >= ? AND pid != ?"
    scrubbed_at = c.value(query, stopped_at, known["pid"])
    is_taken_over = scrubbed_at is not None and now - scrubbed_at < _TAKEN_OVER_S
    return None if is_taken_over else PastService(stopped_at, has_crashed=False)


def _load_service(c: Connection) -> dict[str, Any]:
    value = c.value("SELECT value FROM meta WHERE key = 'service'")
    return {} if value is None else json.loads(value)


def _save_service(c: Connection, record: dict[str, Any]) -> None:
    c.run("INSERT OR REPLACE INTO meta (key, value) VALUES ('service', ?)", json.dumps(record))


_MOVES = RootMeta("moved")
_ID = "last"
_RUNS_LOOKED_AT = 100


class RootMove(NamedTuple):
    """The last move of a root: when, and the start of the last run that had looked at every file before. Seconds."""

    moved_at: int
    scanned_at: int

    def covers(self, checked_at: int) -> bool:
        """Return whether a file that was last recorded or verified then has not been seen at the new place."""
        return checked_at <= self.moved_at

    def covers_file(self, record: FileRecord) -> bool:
        """Return whether a file has not been seen at the new place."""
        return self.covers(max(record.recorded_at, record.verified_at or 0))

    def is_unwritten(self, record: FileRecord, mtime_ns: int) -> bool:
        """
        Return whether the time of a changed file shows no write: it went back when the root was moved.

        A later time than the recorded one is that of a version which was put here since, with its own time (rsync -a).
        """
        is_older = mtime_ns < min(record.witness.mtime_ns, self.scanned_at * 10**9)
        return is_older and self.covers_file(record)


def save_move(c: Connection, root: RootRecord, now: int) -> None:
    """Record that a root is moved."""
    _MOVES.save(c, root, _ID, {"moved_at": now, "scanned_at": _find_last_scan(c, root, now)})


def find_move(c: Connection, root: RootRecord) -> RootMove | None:
    """Return the last move of a root; None if it was never moved."""
    return next((RootMove(value["moved_at"], value["scanned_at"]) for _, value in _MOVES.find(c, root)), None)


def _find_last_scan(c: Connection, root: RootRecord, now: int) -> int:
    """Return the start of the last run that counted each file of a root; 0: there is none, or it is long ago."""
    query = f"""
        SELECT started_at, coalesce(last_file_id, 0), {" + ".join(Tally)} - skipped FROM run
        WHERE root_id = ? AND job IN ('scan', 'scrub') AND outcome IS NOT NULL
            AND started_at <= ? -- not one under a clock that was ahead
        ORDER BY id DESC LIMIT {_RUNS_LOOKED_AT}"""
    rows = c.rows(query, root.id, now)
    for started_at, last_file_id, count in rows:
        if count and count >= count_files_until(c, root.id, last_file_id):
            return int(started_at)
    return 0


REPAIRS = RootMeta("repair")
KEPT_FILES = RootMeta("kept")


class JournalPlace(NamedTuple):
    """One name of a file that is being repaired; all three names are in one folder."""

    folder: bytes  # relative to the root; empty for the root itself
    name: bytes
    made: bytes  # name of the new file until it is complete
    kept: bytes  # name that the damaged file is kept under

    @property
    def path(self) -> bytes:
        """Return the path of the file, relative to the root."""
        return self.beside(self.name)

    def beside(self, name: bytes) -> bytes:
        """Return the path of another name in the folder, relative to the root."""
        return self.folder + b"/" + name if self.folder else name


class Repair(NamedTuple):
    """A repair in progress."""

    id: str  # random; part of the names
    places: tuple[JournalPlace, ...]  # all names of the file
    resolution: str  # of its findings when the repair is done
    judged: tuple[int, int, int] | None  # size, mtime, and inode of the damaged file; None: the file was missing


def save_repair(c: Connection, root: RootRecord, repair: Repair) -> None:
    """Write a repair to the journal."""
    places = [_encode_place(place) for place in repair.places]
    REPAIRS.save(c, root, repair.id, {"places": places, "resolution": repair.resolution, "judged": repair.judged})


def find_repairs(c: Connection, root: RootRecord) -> list[Repair]:
    """Return the unfinished repairs of a root."""
    found = (
        Repair(
            *(repair_id, tuple(map(_decode_place, value["places"])), value["resolution"]),
            value["judged"] and tuple(value["judged"]),
        )
        for repair_id, value in REPAIRS.find(c, root)
    )
    return [repair for repair in found if all(map(_is_sound, repair.places))]


class KeptFile(NamedTuple):
    """A damaged file that a repair left."""

    id: str  # of the repair
    place: JournalPlace  # its name and that of the repaired file
    stamps: tuple[int, int, int]  # its size, mtime, and inode when the repair was recorded
    kept_at: int  # when that was, seconds UTC

    @property
    def path(self) -> bytes:
        """Return its path, relative to the root."""
        return self.place.beside(self.place.kept)


def save_kept(c: Connection, root: RootRecord, kept: KeptFile) -> None:
    """Record a file that a repair left."""
    place = _encode_place(kept.place)
    KEPT_FILES.save(c, root, kept.id, {"place": place, "stamps": kept.stamps, "kept_at": kept.kept_at})


def find_kept(c: Connection, root: RootRecord) -> list[KeptFile]:
    """Return the files that repairs in a root left, the oldest first."""
    found = (
        KeptFile(kept_id, _decode_place(value["place"]), tuple(value["stamps"]), value["kept_at"])
        for kept_id, value in KEPT_FILES.find(c, root)
    )
    return sorted((one for one in found if _is_sound(one.place)), key=lambda kept: (kept.kept_at, kept.path))


def _encode_place(place: JournalPlace) -> list[str]:
    from base64 import b64encode  # here, for `status` repairs nothing

    return [b64encode(part).decode() for part in place]


def _decode_place(parts: list[str]) -> JournalPlace:
    from base64 import b64decode

    return JournalPlace(*map(b64decode, parts))


def _is_sound(place: JournalPlace) -> bool:
    """Return whether the names are ones that a repair uses: another machine may have made the catalog."""
    is_name = b"/" not in place.name and b"\0" not in place.name and place.name not in (b"", b".", b"..")
    return is_name and all(b"/" not in name and is_kept_by_repair(name) for name in (place.made, place.kept))
