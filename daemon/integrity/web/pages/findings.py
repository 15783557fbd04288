"""The list of findings, and one finding with its evidence and the map of the file's blocks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.responses import Response

from integrity.arbitration import CopyVote
from integrity.catalog.findings import count_incidents, get_findings, page_incidents
from integrity.catalog.roots import find_roots
from integrity.jobs.admin.accept import identify_seen
from integrity.jobs.explain import explain
from integrity.kinds import GRAVITY, REPAIRABLE
from integrity.model import Finding, FindingId, FindingKind, FindingState, RootId
from integrity.paths import absolute
from integrity.views.copies import join_seen
from integrity.views.explain import READ_HOW, describe_copy_state, digest_fields
from integrity.web.drawings import BarPart, BlockMap, layout_bar, map_damage
from integrity.web.pages.actions import find_check
from integrity.web.pages.pictures import find_sides
from integrity.web.query import includes_resolved, read_number, read_word
from integrity.web.rendering import quote_path
from integrity.words.findings import damage, describe_names, gather, make_card, sort_by_gravity
from integrity.words.text import exact_time, local_time

if TYPE_CHECKING:
    from starlette.requests import Request

    from integrity.catalog.connection import Connection
    from integrity.jobs.explain import FileStory
    from integrity.model import Digests, Witness
    from integrity.web.site import Site

_PAGE = 100


def show_findings(site: Site, request: Request) -> Response:
    kind, root = read_word(request, "kind", FindingKind), read_number(request, "root")
    before = read_number(request, "before")
    copy, shows_all = request.query_params.get("copy") or None, includes_resolved(request)
    with site.open_catalog() as catalog, catalog.read() as connection:
        found = ask_findings(connection, request, copy, _PAGE + 1)
        counts, roots = count_incidents(connection), find_roots(connection)
    asked = {key: text for key, text in request.query_params.items() if key != "before"}
    more = f"?{urlencode(asked | {'before': str(found[_PAGE - 1].id)})}" if len(found) > _PAGE else ""
    listed = sort_by_gravity(found[:_PAGE])
    # What is resolved needs no command, and is no part of what is open.
    groups = [(one,) for one in listed] if shows_all else gather(listed)
    totals = Counter[FindingKind]()
    for (_, one, _), number in counts.items():
        totals[one] += number
    return site.render(
        request,
        "findings.html",
        title="Findings",
        entries=[(group, make_card(group)) for group in groups],
        listed=len(listed),
        total=totals.total(),
        totals=totals,
        kinds=sorted({*totals} | ({kind} if kind else set()), key=GRAVITY.__getitem__),
        copies=sorted({key[2] for key in counts if key[2]} | ({copy} if copy else set())),
        roots=roots,
        asked={"kind": kind, "root": root, "copy": copy, "all": shows_all, "before": before},
        more=more,
        query=f"?{urlencode(asked)}" if asked else "",
    )


def ask_findings(connection: Connection, request: Request, copy: str | None, limit: int) -> list[Finding]:
    """Return the findings that a query asks for, the newest first."""
    before, root = read_number(request, "before"), read_number(request, "root")
    return page_incidents(
        connection,
        before=None if before is None else FindingId(before),
        limit=limit,
        root_id=None if root is None else RootId(root),
        kind=read_word(request, "kind", FindingKind),
        copy=copy,
        include_resolved=includes_resolved(request),
    )


def show_finding(site: Site, request: Request) -> Response:
    number = FindingId(request.path_params["finding_id"])
    with site.open_catalog() as catalog:
        with catalog.read() as connection:
            found = get_findings(connection, [number])
        if not found:
            raise HTTPException(404)
        finding = found[0]
        story = explain(catalog, site.config, absolute(finding.root, finding.path)) if finding.path else None
    return site.render(
        request,
        "finding.html",
        title=f"Finding {finding.id}",
        finding=finding,
        card=make_card((finding,)),
        is_open=finding.state is not FindingState.RESOLVED,
        damage=damage(finding),
        names=describe_names(finding),
        is_missing=finding.kind is FindingKind.MISSING,
        is_checkable=find_check(finding) is not None,
        is_repairable=story is not None and not finding.copy and finding.kind in REPAIRABLE,
        story=story,
        seen="" if story is None else identify_seen(story.record, story.candidate),
        file_url=file_url(finding, story),
        blocks=map_blocks(finding, story),
        versions=draw_versions(finding),
        sides=find_sides(site, finding, story),
        evidence=[] if story is None else collect_evidence(story),
    )


def file_url(finding: Finding, story: FileStory | None) -> str:
    """Return the URL of the file that a finding is about; empty if nothing is recorded of it."""
    if story is None or story.record is None or not finding.path:
        return ""
    return f"/browse/{story.root_id}/{quote_path(finding.path)}"


class EvidenceColumn(NamedTuple):
    """What one side says of a file: the record, what was found instead, a copy, a former version."""

    who: str
    says: str
    size_bytes: int | None = None
    mtime: str = ""
    md5: str = ""
    xxh3: str = ""
    how: str = ""


_CLASSES: dict[str, str] = {
    CopyVote.SAME: "intact",
    CopyVote.OLDER: "week",
    CopyVote.DIFFERS: "overdue",
    CopyVote.MISSING: "nothing",
    CopyVote.UNREADABLE: "unreadable",
}


def draw_versions(finding: Finding) -> dict[str, list[BarPart]]:
    """Return, by copy, a bar of its versions with the oldest first, as they were when the finding was looked at."""
    return {
        copy: layout_bar(
            ("damaged" if one.is_silent else _CLASSES.get(one.content, "never"), str(one), one.versions)
            for one in reversed(spans)
        )
        for copy, spans in join_seen(finding.versions or ()).items()
    }


def collect_evidence(story: FileStory) -> list[EvidenceColumn]:
    """Put side by side what is recorded, what waits instead of it, each copy, and former versions."""
    rows = []
    if story.record is not None:
        record = story.record
        verified = record.verified_at
        checks = "not verified since" if verified is None else f"last verified {local_time(verified)}"
        how = "" if record.read_how is None else READ_HOW[record.read_how.value]
        says = f"recorded {local_time(record.recorded_at)}, {checks}"
        rows.append(_make_column("recorded", says, record.witness, record.digests)._replace(how=how))
    if story.candidate is not None:
        found = story.candidate
        says = f"{'the file was gone' if found.is_gone else 'other content'}, seen {local_time(found.recorded_at)}"
        rows.append(_make_column("found instead", says, None if found.is_gone else found.witness, found.digests))
    for copy in story.copies:
        says = describe_copy_state(copy.state, is_left_out=copy.is_left_out)
        rows.append(EvidenceColumn(f"copy {copy.name}", says, how=copy.url))
    return rows


def _make_column(who: str, says: str, witness: Witness | None, digests: Digests) -> EvidenceColumn:
    size, mtime = (None, "") if witness is None else (witness.size_bytes, exact_time(witness.mtime_ns))
    hexes = digest_fields(digests)
    return EvidenceColumn(who, says, size, mtime, str(hexes["md5"] or ""), str(hexes["xxh3_128"] or ""))


def map_blocks(finding: Finding, story: FileStory | None) -> BlockMap | None:
    """Lay out the blocks of a damaged file; None if nothing is known of them."""
    record = None if story is None else story.record
    if record is None or not finding.block_size_bytes or not (finding.blocks or finding.ranges):
        return None
    copies = () if story is None else story.copies
    return map_damage(
        record.witness.size_bytes,
        finding.block_size_bytes,
        finding.blocks,
        finding.ranges if finding.kind is FindingKind.UNREADABLE else (),
        is_elsewhere=any(copy.state is not None and copy.state.vote is CopyVote.SAME for copy in copies),
    )
