"""The JSON objects of a hub's ``/api/v1``: their fields are pinned, so programs can rely on them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from integrity.hub.audit import AuditEntry
from integrity.hub.box_reports import BoxEvent, BoxFindingRecord
from integrity.hub.findings import HubFinding
from integrity.hub.fleet import BoxRoot, BoxStatus, OpenFindings, SetStatus, describe_agreement
from integrity.hub.shards.promise import TreePromise
from integrity.hub.shared_trees import ShardView
from integrity.paths import absolute, path_fields
from integrity.views.sentence import Sentence
from integrity.words.text import JsonObject, iso_time


def sentence_object(sentence: Sentence) -> JsonObject:
    """Write the sentence of a page: how bad it is, and what it says."""
    return {"gravity": sentence.gravity.name.lower(), "sentence": sentence.text, "more": list(sentence.more)}


def box_object(one: BoxStatus) -> JsonObject:
    return {
        "name": one.name,
        "health": one.health.value,
        "is_silent": one.is_silent,
        "created_at": iso_time(one.created_at),
        "revoked_at": iso_time(one.revoked_at),
        "seen_at": iso_time(one.seen_at),
        "worked_at": iso_time(one.worked_at),
        "clock_ahead_s": one.clock_ahead_s,
        "hostname": one.hostname,
        "version": one.version,
        "state": one.state,
        "sentence": one.sentence,
        "files": one.files,
        "bytes": one.bytes,
        "oldest_verified_at": iso_time(one.oldest_at),
        "findings_open": one.finding_count,
        "hub_findings_open": open_findings_object(one.hub_found),
        "roots": [box_root_object(root) for root in one.roots],
    }


def box_root_object(root: BoxRoot) -> JsonObject:
    return {
        "root_id": root.root_id,
        "box": root.box_name,
        **path_fields("path", root.path),
        "set": root.set_name,
        "url": root.url,
        "policy": root.policy,
        "verify_every_s": root.verify_every_s,
        "files": root.file_count,
        "bytes": root.byte_count,
        "oldest_verified_at": iso_time(root.oldest_at),
        "age": root.age,
        "is_complete": root.is_complete,
        "settled_at": iso_time(root.settled_at),
    }


def set_object(one: SetStatus) -> JsonObject:
    return {
        "name": one.name,
        "created_at": iso_time(one.created_at),
        "voted_at": iso_time(one.voted_at),
        "vote_ms": one.vote_ms,
        "findings_open": open_findings_object(one.found),
        "agreement": describe_agreement(one).text,
        "members": [box_root_object(root) for root in one.members],
    }


def tree_object(promise: TreePromise, now: int) -> JsonObject:
    return {
        "name": promise.name,
        "sentence": promise.describe(now),
        "is_kept": promise.is_kept,
        "verify_every_s": promise.verify_every_s,
        "files": promise.files,
        "bytes": promise.bytes,
        "oldest_verified_at": iso_time(promise.oldest_at),
        "shards": promise.shards,
        "shards_unread": promise.unread_shards,
        "shards_overdue": promise.overdue_shards,
        "workers": promise.workers,
    }


def shard_object(one: ShardView) -> JsonObject:
    """Write a shard; ``folders``: the first ones."""
    return {
        "id": one.id,
        "folders": [path_fields("path", path) for path in one.folders.first],
        "folder_count": one.folders.total,
        "files": one.file_count,
        "bytes": one.byte_count,
        "oldest_verified_at": iso_time(one.oldest_at),
        "visited_at": iso_time(one.visited_at),
        "due_at": iso_time(one.due_at),
        "worker": one.worker,
        "trouble": one.trouble,
    }


def hub_finding_object(finding: HubFinding) -> JsonObject:
    """Write a finding of the hub, with the evidence of each member."""
    return {
        "id": finding.id,
        "kind": finding.kind.value,
        "certainty": finding.certainty.value,
        "set": finding.set_name,
        "tree": finding.tree_name,
        "box": finding.box_name,
        **path_fields("path", finding.path),
        "state": finding.state.value,
        "opened_at": iso_time(finding.opened_at),
        "updated_at": iso_time(finding.updated_at),
        "resolved_at": iso_time(finding.resolved_at),
        "resolution": finding.resolution,
        "muted_until": iso_time(finding.muted_until),
        "headline": finding.headline,
        "explanation": finding.explanation,
        "command": finding.command,
        "command_box": finding.command_box_name,
        "evidence": finding.objects,
    }


def box_finding_object(finding: BoxFindingRecord) -> JsonObject:
    """Write a finding of a box; ``body``: the object that the box sent."""
    return {
        "number": finding.number,
        "kind": finding.kind,
        "certainty": finding.certainty,
        **path_fields("path", absolute(finding.root or b"", finding.path)),
        "state": finding.state,
        "opened_at": iso_time(finding.opened_at),
        "resolved_at": iso_time(finding.resolved_at),
        "body": _write_body(finding.body),
    }


def event_object(event: BoxEvent) -> JsonObject:
    """Write an event of a box; ``body``: the object that the box sent."""
    return {
        "id": event.id,
        "at": iso_time(event.at),
        "kind": event.kind,
        **({} if event.root is None else path_fields("root", event.root)),
        "body": _write_body(event.body),
    }


def _write_body(body: Mapping[str, object]) -> JsonObject:
    """Return what a box sent; an empty object if it is none that can be sent on: infinite numbers, bottomless lists."""
    try:
        json.dumps([[[[body]]]], allow_nan=False)
    except (ValueError, RecursionError):
        return {}
    return dict(body)


def audit_object(entry: AuditEntry) -> JsonObject:
    return {**entry._asdict(), "at": iso_time(entry.at)}


def open_findings_object(found: OpenFindings) -> JsonObject:
    """Write how many findings there are of each kind."""
    return {kind.value: number for kind, number in sorted(found.findings.items())}
