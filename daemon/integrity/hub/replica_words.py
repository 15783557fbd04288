"""
Write the findings of a vote: what happened on which box, why the hub thinks so, and the command that mends it.

I1  No name is trusted: each is put on one line with special characters escaped.
I2  What a box reports is text of anybody who has its token, and commands are run on other boxes: a URL that could name
    a program to run, or a host that is none, is not repeated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote_from_bytes, unquote, unquote_to_bytes, urlsplit

from integrity import program
from integrity.config.copy_urls import Scheme, find_local_path, find_password, find_scheme, has_backend_options
from integrity.errors import printable, show_path
from integrity.hub.box_reports import JsonObject, find_places, read_certainty, write_box_finding
from integrity.hub.kinds import FOUND_BY_BOX, HUB_KINDS, HubCertainty, HubFindingKind
from integrity.hub.renames import Rename
from integrity.hub.replica_rows import DisputedFile, SetMember, join_key
from integrity.hub.replica_verdict import Holding, MemberVote, ReplicaAdvice, ReplicaView, Standing, do_differ
from integrity.kinds import GRAVITY, REPAIRABLE, headline
from integrity.paths import absolute, path_fields, shell_word
from integrity.reporting.digest_tree import READ_HOWS, ReportedFile
from integrity.words.text import iso_time, utc_time

_LONGEST_URL = 4096
_is_host = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.+-]*@)?[A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\]").fullmatch


def repair_command(damaged: SetMember, source: SetMember, path: bytes) -> str | None:
    """Return the command that repairs a file from another member; None if it is not known how to reach that."""
    url = find_url(source)
    if url is None:
        return None
    return program.stored_command("repair", absolute(damaged.path, path), "--from", shell_word(url))


def scrub_command(one: SetMember, path: bytes) -> str:
    return program.stored_command("scrub", absolute(one.path, path))


def copy_command(to: SetMember, source: SetMember, path: bytes) -> str | None:
    """Return the command that copies a file from another member over SSH or a mount; None if neither reaches it."""
    url = find_url(source)
    if url is None:
        return None
    way, there = [], find_local_path(url)
    if there is None:
        if find_scheme(url) is not Scheme.SSH:
            return None
        parts = urlsplit(url)
        way = ["-e", shell_word(f"ssh -p {parts.port}")] if parts.port else []
        host = unquote(parts.netloc.rpartition(":")[0] if parts.port else parts.netloc)
        there = host.encode() + b":" + unquote_to_bytes(parts.path)
    # -s: the shell of the other machine does not read the name.
    words = ["rsync", "-a", "-s", "--mkpath", *way, shell_word(absolute(there, path))]
    return " ".join([*words, shell_word(absolute(to.path, path))])


def find_url(one: SetMember) -> str | None:
    """Return where other boxes can read a member; None if it says nothing that can be repeated."""
    if not one.url:
        guess = f"ssh://{one.hostname}{quote_from_bytes(one.path)}"
        return guess if _is_host(one.hostname) else None
    return one.url if _is_harmless(one.url) else None


def _is_harmless(url: str) -> bool:
    if len(url) > _LONGEST_URL or not url.isprintable() or find_password(url) or has_backend_options(url):
        return False
    if find_local_path(url) is not None or find_scheme(url) in (Scheme.S3, Scheme.RCLONE):
        return True
    if find_scheme(url) is not Scheme.SSH:
        return False
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition(":")[0] if parts.port else parts.netloc
    except ValueError:
        return False
    return _is_host(unquote(host)) is not None


_NAMES_SHOWN = 5
_MANY = (
    "So many at once usually have one cause: a disk that is not mounted, a replication that did not run or ran the"
    " wrong way, or a folder that was moved."
)


class Draft(NamedTuple):
    """
    A finding as the hub should have it now.

    Attributes:
        box_id: the box whose side is wrong, or that is silent; None: undecided.
        path: relative to the root; empty for a whole member, or for a box.
        command_box_id: the box to run the command on.
        evidence: JSON.
        subjects: how many files it stands for; 1 for a box or a tree.
    """

    kind: HubFindingKind
    certainty: HubCertainty
    headline: str
    explanation: str
    set_id: int | None = None
    tree_id: int | None = None
    box_id: int | None = None
    path: bytes = b""
    command: str | None = None
    command_box_id: int | None = None
    evidence: str = "[]"
    subjects: int = 1


@dataclass(frozen=True, slots=True)
class JudgedFile:
    """A file with what the vote says of each member; ``member``: index of the one that the finding names, if any."""

    file: DisputedFile
    votes: tuple[MemberVote, ...]
    kind: HubFindingKind
    member: int | None


@dataclass(frozen=True, slots=True)
class SetWords:
    """Write the findings of one set. ``bodies``: of findings as boxes reported them, by box and number."""

    set_id: int
    set_name: str
    members: Sequence[SetMember]
    bodies: Mapping[tuple[int, int], JsonObject]

    def describe(self, judged: JudgedFile) -> Draft:
        index = judged.member if judged.member is not None else self._pick_spokesman(judged)
        vote = judged.votes[index]
        command, runs_on = self._find_command(judged.file.path, index, vote)
        box = None if judged.member is None else self.members[judged.member]
        name = "" if box is None else printable(box.box_name)
        return Draft(
            kind=judged.kind,
            certainty=vote.certainty,
            set_id=self.set_id,
            box_id=None if box is None else box.box_id,
            path=judged.file.path,
            headline=f"{self._tell_what(judged, name)}: {show_path(judged.file.path)}",
            explanation=self._explain(judged, index, vote),
            command=command,
            command_box_id=None if command is None or runs_on is None else runs_on.box_id,
            evidence=json.dumps([self._write_member(judged, at) for at in range(len(self.members))]),
        )

    def describe_many(
        self, kind: HubFindingKind, index: int | None, count: int, above: bytes, examples: Sequence[bytes]
    ) -> Draft:
        """Return the one finding that stands for many files. ``above``: the folder that all of them lie in."""
        box = None if index is None else self.members[index]
        of_many = HUB_KINDS[kind].of_many.format(box="some boxes" if box is None else printable(box.box_name))
        where = f" All of them are in {show_path(above)}." if above else ""
        such = ", ".join(show_path(path) for path in examples)
        evidence = {
            "files": count,
            **path_fields("folder", above),
            "examples": [path_fields("path", path) for path in examples],
        }
        return Draft(
            kind=kind,
            certainty=HubCertainty.UNDECIDED if index is None else HubCertainty.LIKELY,
            set_id=self.set_id,
            box_id=None if box is None else box.box_id,
            headline=f"{count:,} files of {printable(self.set_name)} {of_many}",
            explanation=f"{_MANY}{where} Such as: {such}.",
            evidence=json.dumps([evidence]),
            subjects=count,
        )

    def describe_rename(self, one: Rename) -> Draft:
        box = None if one.renamed_on_one is None else self.members[one.renamed_on_one]
        old, new, count = show_path(one.old), show_path(one.new), len(one.files)
        have_old, have_new = self._name(sorted(one.having_old)), self._name(sorted(one.having_new))
        files = f" ({count:,} files)" if count > 1 else ""
        if one.renamed_on:
            what = f"{old} is now {new}{files}" if one.are_all_from_old else f"{count:,} files are now in {new}"
            headline = f"Renamed on {self._name(sorted(one.renamed_on))}: {what}"
            where = f"{have_old} {_have(one.having_old)} the old name{'s' if count > 1 else ''}"
        else:
            headline = f"Different names on {have_old} and {have_new}: {old} and {new}{files}"
            where = f"{have_old} {_have(one.having_old)} {old}, {have_new} {_have(one.having_new)} {new}"
        return Draft(
            kind=HubFindingKind.REPLICA_RENAMED,
            certainty=HubCertainty.PROVEN if one.renamed_on else HubCertainty.UNDECIDED,
            set_id=self.set_id,
            box_id=None if box is None else box.box_id,
            path=one.new,
            headline=headline,
            explanation=(
                f"{where}, with the same content: nothing is missing. Rename it on {have_old} as well, or back on"
                f" {have_new}; a replication would copy it once more."
            ),
            evidence=json.dumps([self._write_names(one)]),
            subjects=count,
        )

    def _write_names(self, one: Rename) -> JsonObject:
        """Write who has which name, for programs; and a few of the files, for the page."""
        examples = [path_fields("path", join_key(pair.other.key)) for pair in one.files[:_NAMES_SHOWN]]
        return {
            "files": len(one.files),
            **path_fields("old", one.old),
            **path_fields("new", one.new),
            "boxes_with_old": [self.members[at].box_name for at in sorted(one.having_old)],
            "boxes_with_new": [self.members[at].box_name for at in sorted(one.having_new)],
            **({"examples": examples} if len(one.files) > 1 else {}),
        }

    def _tell_what(self, judged: JudgedFile, name: str) -> str:
        """Return what happened: of what the box found itself, as it calls its gravest finding."""
        if judged.kind not in FOUND_BY_BOX or judged.member is None:
            return HUB_KINDS[judged.kind].headline.format(box=name)
        here = self.members[judged.member]
        mine = [one for one in judged.file.findings if one.member_id == here.id and one.kind in REPAIRABLE]
        gravest = min(mine, key=lambda one: GRAVITY[one.kind])
        found = headline(gravest.kind, read_certainty(self.bodies.get((here.box_id, gravest.number), {})))
        return f"{found}, on {name}" if "," in found else f"{found} on {name}"

    def _pick_spokesman(self, judged: JudgedFile) -> int:
        """Return the member whose advice is that of an undecided file: the first one that should verify its content."""
        mine = [at for at, vote in enumerate(judged.votes) if _is_undecided(vote)]
        return next((at for at in mine if judged.votes[at].ruling.advice is ReplicaAdvice.VERIFY_HERE), mine[0])

    def _find_command(self, path: bytes, index: int, vote: MemberVote) -> tuple[str | None, SetMember | None]:
        here, sources = self.members[index], [self.members[at] for at in vote.sources]
        advice = vote.ruling.advice
        if advice in (ReplicaAdvice.REPAIR, ReplicaAdvice.PUT_BACK):
            commands = (repair_command(here, source, path) for source in sources)
            return next((one for one in commands if one is not None), None), here
        if advice is ReplicaAdvice.VERIFY_SOURCE:
            return scrub_command(sources[0], path), sources[0]
        if advice is ReplicaAdvice.VERIFY_HERE:
            return scrub_command(here, path), here
        if advice in (ReplicaAdvice.REPLICATE, ReplicaAdvice.TAKE_NEWER):
            commands = (copy_command(here, source, path) for source in sources)
            return next((one for one in commands if one is not None), None), here
        return None, None

    def _explain(self, judged: JudgedFile, index: int, vote: MemberVote) -> str:
        if judged.kind in FOUND_BY_BOX:
            return f"{self._tell_damage(judged.file, index)} {self._advise_damaged(judged, index, vote)}"
        if judged.kind is HubFindingKind.REPLICA_MISSING:
            return self._explain_missing(judged, index, vote)
        if judged.kind is HubFindingKind.REPLICA_STALE:
            return self._explain_stale(judged, index, vote)
        return self._explain_undecided(judged, index, vote)

    def _tell_damage(self, file: DisputedFile, index: int) -> str:
        here, name = self.members[index], printable(self.members[index].box_name)
        parts = []
        for finding in file.findings:
            if finding.member_id != here.id:
                continue
            body = self.bodies.get((here.box_id, finding.number), {})
            places = find_places(body)
            found = f"{headline(finding.kind, read_certainty(body))} [finding {finding.number} there]"
            parts.append(found + (f", damaged: {places}" if places else ""))
        return f"Found on {name}: {'; '.join(parts)}."

    def _advise_damaged(self, judged: JudgedFile, index: int, vote: MemberVote) -> str:
        others, advice = self._name(vote.sources), vote.ruling.advice
        have = _have(vote.sources)
        if advice is ReplicaAdvice.REPAIR:
            return f"{self._name_verified(judged, vote)} {have} the recorded content."
        if advice is ReplicaAdvice.PUT_BACK:
            return (
                f"Somebody wrote to the file. If that was not meant, put back the recorded content, which"
                f" {self._name_verified(judged, vote)} {have}."
            )
        if advice is ReplicaAdvice.VERIFY_SOURCE:
            return (
                f"{others} recorded the same content but did not verify it since. Verify it there first, then repair."
            )
        if advice is ReplicaAdvice.TAKE_NEWER:
            return f"No other box has the recorded content; {others} {have} a newer version."
        what = self._list_others(judged, index)
        return f"No other box has the recorded content undamaged: restore it from a backup. {what}"

    def _explain_missing(self, judged: JudgedFile, index: int, vote: MemberVote) -> str:
        name, have = printable(self.members[index].box_name), _have(vote.sources)
        since = utc_time(min(judged.file.views[at].recorded_at for at in vote.sources))
        told = utc_time(judged.file.views[index].reported_at)
        if vote.ruling.advice is ReplicaAdvice.DO_NOT_REPLICATE:
            return f"Only {self._name(vote.sources)} {have} it, damaged: do not replicate it; restore it from a backup."
        return (
            f"{self._name(vote.sources)} {have} it, recorded {since}; {name} reported {told} without it. Run the"
            " replication again; if the file was deleted on purpose, delete it on the other boxes."
        )

    def _explain_stale(self, judged: JudgedFile, index: int, vote: MemberVote) -> str:
        views, name = judged.file.views, printable(self.members[index].box_name)
        newer = self._name(vote.sources)
        have = _have(vote.sources)
        if vote.ruling.advice is ReplicaAdvice.DO_NOT_REPLICATE:
            return f"Only {newer} {have} the newer version, damaged: do not replicate it."
        if vote.certainty is HubCertainty.PROVEN:
            return f"{newer} had the content of {name} before, and replaced it. Run the replication again."
        times = f"{_tell_mtime(views[index])} on {name}, {_tell_mtime(views[vote.sources[0]])} on {newer}"
        return (
            f"The content differs, and {newer} {have} the later modification time: {times}. Run the replication again."
        )

    def _explain_undecided(self, judged: JudgedFile, index: int, vote: MemberVote) -> str:
        views = judged.file.views
        mine = [at for at, one in enumerate(judged.votes) if _is_undecided(one)]
        what = [f"{printable(self.members[at].box_name)} {_tell_version(views[at])}" for at in mine]
        text = f"The content differs: {'; '.join(what[:_NAMES_SHOWN])}."
        if judged.kind is HubFindingKind.REPLICA_CONFLICT:
            text += " All of them replaced what they had in common: keep one, or all under different names."
        elif majority := self._find_majority(views, mine):
            text += f" {majority}"
        if vote.ruling.advice is ReplicaAdvice.VERIFY_HERE:
            name = printable(self.members[index].box_name)
            text += f" {name} has not verified its content since it was recorded: verify it there first."
        elif judged.kind is HubFindingKind.REPLICA_DIFFERS:
            text += f" {_advise_undecided([views[at] for at in mine])}"
        return text

    def _find_majority(self, views: Sequence[ReplicaView], mine: Sequence[int]) -> str:
        """Return which boxes are more than half of at least three and have the same content; empty: none are."""
        if len(mine) < 3:
            return ""
        for at in mine:
            same = [other for other in mine if not _do_views_differ(views[at], views[other])]
            if len(same) * 2 > len(mine):
                return f"{len(same)} of {len(mine)} boxes have the same content ({self._name(same)}); that is no proof."
        return ""

    def _list_others(self, judged: JudgedFile, index: int) -> str:
        words = [
            f"{printable(one.box_name)}: {_tell_holding(view.holding, vote.standing)}"
            for at, (one, view, vote) in enumerate(zip(self.members, judged.file.views, judged.votes, strict=True))
            if at != index
        ]
        return f"{'; '.join(words[:_NAMES_SHOWN])}."

    def _name(self, indexes: Iterable[int]) -> str:
        return join_some([printable(self.members[at].box_name) for at in indexes])

    def _name_verified(self, judged: JudgedFile, vote: MemberVote) -> str:
        """Name the boxes that have the right content, and when the first of them read it from its disk."""
        at = judged.file.views[vote.sources[0]].verified_at
        return f"{self._name(vote.sources)} (verified from disk {utc_time(at or 0)})"

    def _write_member(self, judged: JudgedFile, at: int) -> JsonObject:
        """Write what one member has, for programs and for the page."""
        one, view, row = self.members[at], judged.file.views[at], judged.file.rows[at]
        findings = [
            write_box_finding(finding.number, finding.kind.value, self.bodies.get((one.box_id, finding.number), {}))
            for finding in judged.file.findings
            if finding.member_id == one.id
        ]
        return {
            "box": one.box_name,
            "box_id": one.box_id,
            **path_fields("path", absolute(one.path, judged.file.path)),
            "url": find_url(one),
            "holding": view.holding.value,
            "is_source": judged.member is not None and at in judged.votes[judged.member].sources,
            **({} if row is None else _write_row(row, view)),
            "reported_at": iso_time(view.reported_at),
            "findings": findings,
        }


def join_some(names: Sequence[str], total: int = 0) -> str:
    """Write "a", "a and b", "a, b and 3 more". ``total``: of all, if there are more than ``names``."""
    shown, total = list(names[:_NAMES_SHOWN]), max(total, len(names))
    if total > _NAMES_SHOWN:
        return f"{', '.join(shown)} and {total - _NAMES_SHOWN:,} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _have(members: Collection[int]) -> str:
    return "has" if len(members) == 1 else "have"


def _advise_undecided(views: Sequence[ReplicaView]) -> str:
    """Return what a person can do where neither records nor times say which content is right."""
    look = "open the files, and copy the right one over the others"
    if len({(one.version.size_bytes, one.mtime_ns) for one in views if one.version is not None}) == 1:
        return f"Sizes and times are equal, so one was probably damaged before it was recorded: {look}."
    return f"Nothing tells which is right: {look}."


def _is_undecided(vote: MemberVote) -> bool:
    return vote.certainty is HubCertainty.UNDECIDED


def _do_views_differ(one: ReplicaView, other: ReplicaView) -> bool:
    return one.version is None or other.version is None or do_differ(one.version, other.version)


def _tell_version(view: ReplicaView) -> str:
    size = 0 if view.version is None else view.version.size_bytes
    return f"{size:,} bytes, modified {_tell_mtime(view)}"


def _tell_mtime(view: ReplicaView) -> str:
    return utc_time(view.mtime_ns // 10**9) if abs(view.mtime_ns) < 4 * 10**18 else "an impossible time"


_HOLDINGS = {
    Holding.GOOD: "has other content",
    Holding.DOUBTFUL: "what it has is in doubt",
    Holding.DAMAGED: "also damaged",
    Holding.CONTESTED: "also changed",
    Holding.LOST: "also unreadable or gone",
    Holding.ABSENT: "does not have the file",
    Holding.EXCLUDED: "excludes the file",
}


def _tell_holding(holding: Holding, standing: Standing) -> str:
    if holding is Holding.GOOD and standing is Standing.BEHIND:
        return "has an older version"
    return _HOLDINGS[holding]


def _write_row(row: ReportedFile, view: ReplicaView) -> JsonObject:
    how = READ_HOWS[row.read_how]
    return {
        "size_bytes": row.size_bytes,
        "mtime_ns": row.mtime_ns,
        "md5": row.md5.hex() if row.md5 else None,
        "xxh3_128": row.xxh3_128.hex() if row.xxh3_128 else None,
        "recorded_at": iso_time(view.recorded_at),
        "verified_at": None if row.verified_at is None else iso_time(row.verified_at - view.clock_ahead_s),
        "read_how": how.value if how else None,
    }
