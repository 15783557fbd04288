"""``status --prometheus``: the metrics that the status has, as Prometheus and its tools read them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.cli import Box
from support.planted import plant_path
from support.shapes import damage

COUNT = 10
CONTRIB = Path(__file__).parents[2] / "contrib"
pytestmark = pytest.mark.files(COUNT, is_aged=True, is_recorded=True)

Labels = frozenset[tuple[str, str]]


def measure(box: Box, *paths: Path) -> dict[str, dict[Labels, float]]:
    """Return the value of each sample, by name and labels."""
    text = box.run("status", "--prometheus", *paths, expect=0).stdout
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def labels(**values: object) -> Labels:
    return frozenset((name, str(value)) for name, value in values.items())


def require_promtool() -> str:
    """Return the program, or skip; in CI it has to be there."""
    found = shutil.which("promtool")
    if found is None and not os.environ.get("CI"):
        pytest.skip("promtool is not installed (Debian package prometheus)")
    assert found is not None, "promtool is missing"
    return found


def test_values_are_those_of_the_status(integrity: Box, root: Path) -> None:
    """Files, bytes, ages, findings, runs, and bytes read agree with the JSON object of the root."""
    began_at = time.time()
    integrity.run("scrub", root, expect=0)
    status = integrity.get_object("root", "status")
    found = measure(integrity)

    here = labels(root=root)
    assert status["files"] == found["integrity_root_files"][here] == COUNT
    assert status["bytes"] == found["integrity_root_bytes"][here]
    assert 1 == found["integrity_promise_kept"][here] == found["integrity_root_active"][here]
    assert status["bytes"] == found["integrity_verified_bytes"][labels(root=root, within="1d")]
    assert began_at - 2 <= found["integrity_oldest_verification_timestamp_seconds"][here] <= time.time()
    last = found["integrity_run_last_timestamp_seconds"][labels(root=root, job="scrub", outcome="clean")]
    assert began_at - 2 <= last <= time.time()
    assert status["bytes"] <= found["integrity_read_bytes_total"][labels(root=root, job="scrub")]
    assert {} == found.get("integrity_findings_open", {})
    assert 0 == found["integrity_service_up"][labels()]
    assert found["integrity_catalog_bytes"][labels()] >= integrity.catalog.stat().st_size
    assert [1.0] == list(found["integrity_build_info"].values())


def test_damage_shows_and_no_file_is_named(integrity: Box, root: Path) -> None:
    """Findings are counted by kind; a name of a file is in no line, whatever is wrong with the file."""
    path = plant_path(root, 3)
    damage(path)
    integrity.run("scrub", root, expect=1)
    found = measure(integrity)

    assert {labels(root=root, kind="silent_rewrite"): 1} == found["integrity_findings_open"]
    assert path.name not in integrity.run("status", "--prometheus", expect=0).stdout


def test_odd_paths_of_roots_are_labels_that_can_be_read(integrity: Box, tmp_path: Path) -> None:
    """Quotes, backslashes, newlines and bytes that are no text; an empty root has no time of verification."""
    odd = os.fsencode(tmp_path) + b'/a"b\\c\nd\xff'
    os.mkdir(odd)
    integrity.run("scan", os.fsdecode(odd), expect=0)
    found = measure(integrity)

    (name,) = (dict(one)["root"] for one in found["integrity_root_files"] if 'a"b' in dict(one)["root"])
    assert 0 == found["integrity_root_files"][labels(root=name)]
    assert labels(root=name) not in found.get("integrity_oldest_verification_timestamp_seconds", {})


def test_other_formats_are_refused_beside_it(integrity: Box, root: Path) -> None:
    """One call prints one format."""
    assert "exclude each other" in integrity.run("status", root, "--prometheus", "--nagios", expect=2).stderr
    assert "exclude each other" in integrity.run("--json", "status", root, "--prometheus", expect=2).stderr


def test_promtool_finds_nothing_wrong(integrity: Box, root: Path) -> None:
    """Names, units, help texts, and types are as Prometheus wants them."""
    text = integrity.run("status", root, "--prometheus", expect=0).stdout
    checked = subprocess.run(
        [require_promtool(), "check", "metrics"], input=text, capture_output=True, text=True, timeout=60
    )
    assert (0, "") == (checked.returncode, checked.stderr + checked.stdout)


def test_rules_and_dashboard_use_metrics_that_exist(integrity: Box, root: Path) -> None:
    """Promtool reads the rules; each metric in rules and dashboard is one that the program writes."""
    rules = CONTRIB / "prometheus-rules.yml"
    subprocess.run([require_promtool(), "check", "rules", rules], check=True, capture_output=True, timeout=60)
    dashboard = json.loads((CONTRIB / "grafana-dashboard.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]

    text = integrity.run("status", root, "--prometheus", expect=0).stdout
    written = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)) | {"integrity_watch_blind"}
    used = set(re.findall(r"integrity_\w+", rules.read_text() + "\n".join(expressions)))
    assert set() == used - written - {"integrity_rules"}
