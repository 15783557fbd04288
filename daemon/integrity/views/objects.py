"""The JSON objects of ``--json``: their fields are pinned, so programs can rely on them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from integrity.alerts.wording import next_steps
from integrity.errors import show_path
from integrity.model import Digests, Finding, SeenVersion
from integrity.paths import absolute, path_fields

if TYPE_CHECKING:
    from integrity.jobs.report import Compared, Note, Summary

JsonObject = dict[str, object]


def iso_time(seconds: int | None) -> str | None:
    """Write a time: UTC, ISO 8601; None for what no calendar has."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return None


def digest_fields(digests: Digests) -> JsonObject:
    """Write digests in lower-case hex; None where one was not computed."""
    values = {
        "md5": digests.md5,
        "xxh3_128": digests.xxh3_128,
        "blake3": digests.blake3,
        "crc64nvme": digests.crc64nvme,
    }
    return {name: None if value is None else value.hex() for name, value in values.items()}


def seen_version_object(seen: SeenVersion) -> JsonObject:
    """Write what one version of a backup has of a file."""
    return {**seen._asdict(), "taken_at": iso_time(seen.taken_at)}


def finding_object(finding: Finding) -> JsonObject:
    """Write a finding."""
    return {
        "id": finding.id,
        "kind": finding.kind.value,
        "certainty": finding.certainty.value if finding.certainty else None,
        **path_fields("path", absolute(finding.root, finding.path)),
        **path_fields("root", finding.root),
        "names": [show_path(absolute(finding.root, name)) for name in finding.names],
        "opened_at": iso_time(finding.opened_at),
        "updated_at": iso_time(finding.updated_at),
        "state": finding.state.value,
        "blocks": list(finding.blocks),
        "block_size_bytes": finding.block_size_bytes,
        "ranges": [list(each) for each in finding.ranges],
        "confirmed_reads": finding.confirmed_reads,
        "resolved_at": iso_time(finding.resolved_at),
        "resolution": finding.resolution,
        "muted_until": iso_time(finding.muted_until),
        "copy": finding.copy,
        "message": finding.message,
        "versions": None if finding.versions is None else [seen_version_object(one) for one in finding.versions],
        "next_steps": [{"words": step.words, "command": step.command} for step in next_steps(finding)],
    }


def note_object(note: Note) -> JsonObject:
    """Write a note."""
    return {
        "kind": note.kind.value,
        **path_fields("path", absolute(note.root, note.path)),
        **path_fields("root", note.root),
        "message": note.message,
    }


def summary_object(summary: Summary) -> JsonObject:
    """Write a summary: each known name in exactly one tally, and some "of which"."""
    counts = summary.counts
    return {
        "job": summary.job.value,
        "started_at": iso_time(summary.started_at),
        "finished_at": iso_time(summary.finished_at),
        "outcome": summary.outcome.value,
        "files_known": counts.known,
        "files_verified": counts.verified,
        "files_new": counts.new,
        "files_changed": counts.changed,
        "files_damaged": counts.damaged,
        "files_missing": counts.missing,
        "files_unreadable": counts.unreadable,
        "files_unstable": counts.unstable,
        "files_skipped": counts.skipped,
        "files_not_due": counts.not_due,
        "files_moved": counts.moved,
        "bytes_read": counts.bytes_read,
        "duration_s": round(summary.duration_s, 3),
        "findings_opened": counts.findings_opened,
        "findings_open": counts.findings_open,
        **({} if summary.compared is None else _compared_fields(summary.compared)),
    }


def _compared_fields(compared: Compared) -> JsonObject:
    """Write what a comparison found, and how it looked: what the copy states, or its bytes."""
    return {
        "copy": compared.copy,
        "url": compared.shown,
        "files_published": compared.published,
        "files_read": compared.read,
        "files_cached": compared.cached,
        "files_listed": compared.listed,
        "files_read_here": compared.read_here,
        "files_known_by_record": compared.known_by_record,
        "oldest_record_at": None if compared.oldest_record_at is None else iso_time(compared.oldest_record_at),
        "files_extra": compared.extra,
        "files_differing": compared.differing,
        "files_conflicting": compared.conflicting,
        "files_newer": compared.newer,
        "files_stale": compared.stale,
        "files_shared": compared.shared,
        "files_renamed": compared.renamed,
        "files_behind": compared.behind,
        "files_repairable": compared.repairable,
        "files_not_comparable": compared.not_comparable,
        "files_left_out": compared.left_out,
    }
