"""``integrity explain``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from integrity import program
from integrity.arbitration import CopyVote
from integrity.errors import printable, show_path
from integrity.kinds import REPAIRABLE
from integrity.model import BaselineReason
from integrity.paths import absolute, path_fields, shell_word
from integrity.units import format_size, spell_size
from integrity.views.copies import join_seen
from integrity.words.card import Row, write_rows, write_terminal
from integrity.words.findings import finding_object, list_lines, make_card
from integrity.words.text import JsonObject, exact_time, iso_time, local_time

if TYPE_CHECKING:
    from integrity.catalog.copies import CopyState
    from integrity.catalog.rows import FileRecord
    from integrity.jobs.explain import FileStory
    from integrity.model import Digests
    from integrity.words.text import Styler


def digest_fields(digests: Digests) -> dict[str, str | None]:
    """Write digests in lower-case hex; None where one was not computed."""
    values = {
        "md5": digests.md5,
        "xxh3_128": digests.xxh3_128,
        "blake3": digests.blake3,
        "crc64nvme": digests.crc64nvme,
    }
    return {name: None if value is None else value.hex() for name, value in values.items()}


READ_HOW = {
    "direct": "from the disk, past the cache (O_DIRECT)",
    "dropped": "from the disk, after the cache was dropped",
    "cache_possible": "possibly from the cache, not from the disk",
}


def describe_story(story: FileStory, styler: Styler) -> Iterator[str]:
    rows = [("root", show_path(story.root))]
    if story.record is not None or not story.is_folder:
        rows += list_facts(story)
    resolved = list_lines([(one,) for one in story.findings if one not in story.open_findings])
    rows += [("resolved", line.strip()) for line in resolved]
    if not story.open_findings:
        rows.append(("", "no open findings"))
    yield show_path(absolute(story.root, story.path))
    yield from write_rows(rows, 11)
    for finding in story.open_findings:
        yield ""
        yield from write_terminal(make_card((finding,)), styler)
        for copy, spans in join_seen(finding.versions or ()).items():
            yield f"  versions of {printable(copy)}"
            yield from (f"    {span}" for span in spans)


def list_facts(story: FileStory) -> Iterator[Row]:
    """Yield what is known of a file, first of all how it is, without its findings."""
    damaged_at = [one.updated_at for one in story.open_findings if one.kind in REPAIRABLE and one.copy is None]
    yield "state", _describe_state(story, damaged_at)
    if story.record is not None:
        yield from _describe_record(story.record)
    if story.imported_from is not None:
        yield "manifest", f"it was equal to what {printable(story.imported_from)} says of it"
    if story.candidate is not None:
        seen = f"seen {local_time(story.candidate.recorded_at)}"
        size = format_size(story.candidate.witness.size_bytes)
        other = f"other content, {size} ({seen}), that did not replace the record"
        yield "waiting", f"the file was gone ({seen}); its record is kept" if story.candidate.is_gone else other
    yield from _describe_history(story)
    for copy in story.copies:
        where = copy.name if copy.name == copy.url else f"{copy.name} ({copy.url})"
        text = f"{printable(where)}: {describe_copy_state(copy.state, is_left_out=copy.is_left_out)}"
        vote = copy.state and copy.state.vote
        if copy.has_bytes and (vote in _OTHER_CONTENT or (damaged_at and vote is CopyVote.SAME)):
            words = "compare --blocks", absolute(story.root, story.path), f"--with {shell_word(copy.name)}"
            text += f"\nhow the two differ:  {program.command(*words)}"
        yield "copy", text
    if not story.copies:
        none = f"none known; to find intact ones:  {program.command('compare FOLDER --with COPY')}"
        yield "copy", none


def _describe_state(story: FileStory, damaged_at: list[int]) -> str:
    record = story.record
    if record is None:
        return "not recorded (any longer)"
    if damaged_at:
        intact = sum(copy.state is not None and copy.state.vote in _INTACT for copy in story.copies)
        known = f"copies known to be intact: {intact} of {len(story.copies)}" if story.copies else "no copy is known"
        return f"NOT INTACT, last found so {local_time(max(damaged_at))}; {known}"
    if record.verified_at is None:
        return "recorded, never verified by reading it from the disk"
    return f"intact when it was last read from the disk, {local_time(record.verified_at)}"


_VOTES = {
    CopyVote.SAME: "intact",
    CopyVote.OLDER: "an older version",
    CopyVote.RENAMED: "intact, under another name",
    CopyVote.DIFFERS: "not the recorded content",
    CopyVote.MISSING: "missing there",
    CopyVote.UNREADABLE: "unreadable",
    CopyVote.NOT_COMPARABLE: "not comparable",
}


_INTACT = (CopyVote.SAME, CopyVote.RENAMED)
_OTHER_CONTENT = (CopyVote.DIFFERS, CopyVote.OLDER)


def describe_copy_state(state: CopyState | None, *, is_left_out: bool) -> str:
    if state is None and is_left_out:
        return "left out of this backup on purpose"
    if state is None:
        return "not compared since this content was recorded"
    read = "" if state.read_at is None else f"; data last read back {local_time(state.read_at)}"
    found = state.found
    witness = ""
    if state.vote not in _INTACT:
        witness = "; never found with a recorded content"
        if found is not None and found.recorded_at is not None:
            witness = f"; found with a recorded content {local_time(found.recorded_at)}"
    return f"{_VOTES[state.vote]}, compared {local_time(state.compared_at)}{read}{witness}"


def _describe_history(story: FileStory) -> Iterator[Row]:
    for one in story.history:
        if one.replaced_because is BaselineReason.REPAIRED:  # the baseline stayed: its bytes came back
            yield "repaired", f"{local_time(one.replaced_at)}: {printable(one.note or '')}"
            continue
        until = f"{local_time(one.recorded_at)} to {local_time(one.replaced_at)}"
        note = f" ({printable(one.note)})" if one.note else ""
        digest = one.digests.md5 or one.digests.xxh3_128
        name = "" if digest is None else f", {'MD5' if one.digests.md5 else 'XXH3'} {digest.hex()}"
        moved = f", as {show_path(one.path)}" if one.path != story.path else ""
        why = f"recorded because: {one.reason}; replaced because: {one.replaced_because}{note}"
        yield "formerly", f"{until}: {format_size(one.witness.size_bytes)}{name}{moved}\n{why}"


def _describe_record(record: FileRecord) -> Iterator[Row]:
    witness = record.witness
    yield "size", f"{format_size(witness.size_bytes)} ({witness.size_bytes:,} bytes)"
    yield "modified", exact_time(witness.mtime_ns)
    changed = f", changed {exact_time(witness.ctime_ns)}" if witness.ctime_ns else ""
    yield "inode", f"{witness.inode}{changed}"
    for name, value in digest_fields(record.digests).items():
        if value is not None:
            yield name, value
    if record.block_size_bytes is None:
        yield "blocks", "one (the whole file)"
    else:
        blocks = -(-witness.size_bytes // record.block_size_bytes)
        yield "blocks", f"{blocks:,} of {spell_size(record.block_size_bytes)}"
    yield "recorded", f"{local_time(record.recorded_at)}: {record.reason.value} (version {record.version})"
    yield "verified", "not since it was recorded" if record.verified_at is None else local_time(record.verified_at)
    if record.read_how is not None:
        yield "last read", READ_HOW[record.read_how.value]
    if record.witness.is_racy:
        yield "note", "a program may have been writing to it when it was recorded; it will be read again"
    if record.is_suspect and not record.is_frozen:
        yield "note", "it was replaced or touched (see inode), and not read since; the next scrub verifies it"
    if record.is_frozen:
        yield "note", "its record is kept until its open finding is resolved"


def file_object(story: FileStory) -> JsonObject:
    fields: JsonObject = {
        **path_fields("path", absolute(story.root, story.path)),
        **path_fields("root", story.root),
        "is_recorded": story.record is not None,
    }
    if story.record is not None:
        fields |= _record_fields(story, story.record)
    candidate = story.candidate
    return fields | {
        "candidate": None
        if candidate is None
        else {
            "kind": "removal" if candidate.is_gone else "change",
            "state": candidate.state.value,
            "verdict": candidate.verdict,
            "seen_at": iso_time(candidate.recorded_at),
            "digests": digest_fields(candidate.digests),
        },
        "history": [
            {
                **path_fields("path", absolute(story.root, one.path)),
                "size_bytes": one.witness.size_bytes,
                "mtime_ns": one.witness.mtime_ns,
                "digests": digest_fields(one.digests),
                "recorded_at": iso_time(one.recorded_at),
                "reason": one.reason,
                "replaced_at": iso_time(one.replaced_at),
                "because": one.replaced_because,
                "note": one.note,
            }
            for one in story.history
        ],
        "findings": [finding_object(one) for one in story.findings],
        "copies": [
            {
                "name": copy.name,
                "url": copy.url,
                "vote": copy.state and copy.state.vote.value,
                "compared_at": iso_time(copy.state and copy.state.compared_at),
                "read_at": iso_time(copy.state and copy.state.read_at),
                "found_at": iso_time(copy.state and copy.state.found and copy.state.found.found_at),
                "is_left_out": copy.is_left_out,
            }
            for copy in story.copies
        ],
    }


def _record_fields(story: FileStory, record: FileRecord) -> JsonObject:
    witness = record.witness
    block_size = record.block_size_bytes or story.block_size_bytes
    return {
        "size_bytes": witness.size_bytes,
        "mtime_ns": witness.mtime_ns,
        "ctime_ns": witness.ctime_ns,
        "inode": witness.inode,
        "is_racy": witness.is_racy,
        "digests": digest_fields(record.digests),
        "block_size_bytes": block_size,
        "blocks": max(1, -(-witness.size_bytes // block_size)),
        "version": record.version,
        "recorded_at": iso_time(record.recorded_at),
        "reason": record.reason.value,
        "imported_from": story.imported_from,
        "verified_at": iso_time(record.verified_at),
        "read_how": record.read_how.value if record.read_how else None,
        "is_suspect": record.is_suspect,
        "is_frozen": record.is_frozen,
    }
