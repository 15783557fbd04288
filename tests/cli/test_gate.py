"""``gate`` as a hook and its author see it: exit codes, silence, objects, what closes it and what opens it again."""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from integrity.catalog import findings, roots
from integrity.catalog.connection import Catalog
from integrity.catalog.findings import NewFinding
from integrity.catalog.roots import RootRecord
from integrity.jobs.lock import lock_root
from integrity.model import FindingKind, Job
from support.cli import Box
from support.documents import encrypt, make_documents
from support.planted import age, plant, plant_path
from support.privileges import let_in, run_as_nobody
from support.running import Running
from support.shapes import damage, put
from support.stored import query


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with 30 files."""
    return plant(tmp_path / "data", 30)


@pytest.fixture
def home(tmp_path: Path, integrity: Box) -> Path:
    """A folder of documents that the gate let through; ransomware came to too few of them for a scan to hold back."""
    files = make_documents(tmp_path / "home", 200)
    integrity.run("-q", "gate", tmp_path / "home", expect=0)
    encrypt(files[:16])
    return tmp_path / "home"


def open_by_hand(integrity: Box, kind: FindingKind, path: bytes | None = None, copy: str | None = None) -> None:
    """Open a finding in the one root, as a job would."""
    with Catalog.open(str(integrity.catalog), writes=True) as catalog, catalog.transaction() as c:
        [root] = roots.find_roots(c)
        new = NewFinding(kind, root.id, None, path, "a test says so", copy=copy)
        findings.open_finding(c, new, now=int(time.time()), run_id=None)


def find_root(integrity: Box) -> RootRecord:
    """Find the one root."""
    with Catalog.open(str(integrity.catalog), writes=False) as catalog, catalog.read() as c:
        [root] = roots.find_roots(c)
        return root


def test_new_folder_is_recorded_and_said_to_be_the_starting_point(integrity: Box, data: Path) -> None:
    """What is in it is not known to be good, and nothing was there to hold it against."""
    done = integrity.run("gate", data, expect=0)

    assert "first check: the present content is the starting point" in done.stdout
    assert [(30,)] == query(integrity, "SELECT count(*) FROM file")
    assert "of 30 files" in integrity.run("gate", data, expect=0).stdout


def test_quiet_gate_is_silent_while_it_is_open(integrity: Box, data: Path) -> None:
    """A hook's output becomes a mail."""
    for _ in range(2):
        done = integrity.run("-q", "gate", data, expect=0)
        assert ("", "") == (done.stdout, done.stderr.replace(f"A new catalog was made: {integrity.catalog}\n", ""))


def test_verdict_is_an_object(integrity: Box, data: Path) -> None:
    """A gate and the summary of its scan; all counts are there."""
    integrity.run("gate", data, expect=0)
    put(data / "new.txt")
    plant_path(data, 1).write_text("edited")
    plant_path(data, 2).unlink()

    verdict, summary = integrity.json("gate", data, expect=0)

    assert ("gate", "summary", "scan") == (verdict["type"], summary["type"], summary["job"])
    assert ("open", True, False) == (verdict["verdict"], verdict["may_pass"], verdict["is_first"])
    counts = [verdict[f"files_{name}"] for name in ("known_before", "rewritten", "removed", "new", "looked_into")]
    assert [30, 1, 1, 1, 0] == counts
    assert (str(data), [], []) == (verdict["path"], verdict["signs"], verdict["reasons"])


def test_open_finding_closes_the_gate_until_it_is_settled(integrity: Box, data: Path) -> None:
    """Also one that was acknowledged: the damage would be copied all the same."""
    age(plant_path(data, 3))
    integrity.run("gate", data, expect=0)
    damage(plant_path(data, 3))
    integrity.run("scrub", data, expect=1)

    done = integrity.run("gate", data, expect=1)

    assert "gate: CLOSED: do not back up" in done.stdout
    assert "1 finding open (1 damaged file)" in done.stdout
    assert "integrity accept" in done.stdout
    integrity.run("ack", "1", expect=0)
    assert "Content changed, modification time did not" in integrity.run("-q", "gate", data, expect=1).stdout
    integrity.run("accept", plant_path(data, 3), "--reason", "me", expect=0)
    integrity.run("gate", data, expect=0)


def test_file_rewritten_under_its_old_time_is_found_by_the_gate_itself(integrity: Box, data: Path) -> None:
    """A scan would leave it to the next scrub; a backup would have copied it by then."""
    age(plant_path(data, 3))
    integrity.run("gate", data, expect=0)
    damage(plant_path(data, 3))

    [finding] = integrity.findings("gate", data, expect=1)

    assert ("silent_rewrite", str(plant_path(data, 3))) == (finding["kind"], finding["path"])


def test_findings_elsewhere_do_not_close_it(integrity: Box, data: Path) -> None:
    """Those of another folder of the root, and those about copies."""
    integrity.run("gate", data, expect=0)
    open_by_hand(integrity, FindingKind.ROT, b"d1/1.txt")
    open_by_hand(integrity, FindingKind.COPY_STALE, b"d2/2.txt", "nightly")
    open_by_hand(integrity, FindingKind.COPY_UNREADABLE, None, "nightly")
    open_by_hand(integrity, FindingKind.OVERDUE)

    integrity.run("gate", data, expect=1)
    integrity.run("gate", data / "d1", expect=1)
    integrity.run("gate", data / "d1" / "1.txt", expect=1)
    for place in (data / "d2", data / "d1" / "8.txt"):
        integrity.run("gate", place, expect=0)


@pytest.mark.parametrize("kind", [FindingKind.DEVICE_FAILING, FindingKind.DEVICE_STALLED])
def test_gaps_are_another_exit_code(integrity: Box, data: Path, kind: FindingKind) -> None:
    """What could not be looked at is no damage that is known."""
    integrity.run("gate", data, expect=0)
    open_by_hand(integrity, kind)

    for place in (data, data / "d3"):
        assert "gate: not open: do not back up" in integrity.run("gate", place, expect=3).stdout


def test_unreadable_file_is_a_gap(integrity: Box, data: Path) -> None:
    """The backup would be without it."""
    let_in(data.parent)
    os.makedirs(integrity.environment["HOME"], exist_ok=True)
    integrity.home.chmod(0o777)
    assert 0 == run_as_nobody(integrity, "gate", data).code
    put(data / "d1" / "secret")
    (data / "d1" / "secret").chmod(0)

    done = run_as_nobody(integrity, "gate", data)

    assert (3, True) == (done.code, "1 finding open (1 file unreadable)" in done.stdout)
    assert 0 == run_as_nobody(integrity, "gate", data / "d2").code


def test_root_that_is_not_itself_is_not_backed_up(integrity: Box, data: Path) -> None:
    """A disk that is not mounted would be an empty backup."""
    integrity.run("gate", data, expect=0)
    shutil.move(data, data.with_name("away"))
    data.mkdir()

    done = integrity.run("gate", data, expect=3)

    assert "1 folder not being checked" in done.stdout
    assert "incomplete" == integrity.run("--json", "gate", data, expect=3).of_type("gate")[0]["verdict"]


@pytest.mark.parametrize("part", ["d1", "d1/1.txt"])
def test_part_that_is_gone_is_not_let_through(integrity: Box, data: Path, part: str) -> None:
    """Its backup would be empty: whether it was moved or not mounted, it was recorded, and each time that is said."""
    integrity.run("gate", data, expect=0)
    integrity.run("gate", data / part, expect=0)
    shutil.move(data / part, data.with_name("away"))

    for _ in range(2):
        done = integrity.run("gate", data / part, expect=3)

        assert "it is recorded, but not there" in done.stdout
        assert f"integrity gate {(data / part).parent}" in done.stdout
        verdict, summary = integrity.json("gate", data / part, expect=3)
        assert ("incomplete", True, False) == (verdict["verdict"], verdict["is_gone"], verdict["may_pass"])
        assert "summary" == summary["type"]
    integrity.run("gate", data, expect=0)
    shutil.move(data.with_name("away"), data / part)
    integrity.run("gate", data / part, expect=0)


def test_part_that_is_gone_hides_nothing_of_the_others(integrity: Box, data: Path) -> None:
    """They are looked at as ever; all are let through or none."""
    age(plant_path(data, 3))
    integrity.run("gate", data, expect=0)
    integrity.run("gate", data / "d1", data / "d3", expect=0)
    shutil.rmtree(data / "d1")
    integrity.run("gate", data / "d1", expect=3)
    done = integrity.run("gate", data / "d1", data / "d3", expect=3)
    assert f"do not back up {data / 'd3'}: another of the given folders has a problem" in done.stdout
    damage(data / "d3" / plant_path(data, 3).name)

    integrity.run("gate", data / "d1", data / "d3", expect=1)


def test_part_that_never_was_there_is_a_slip_of_the_pen(integrity: Box, data: Path) -> None:
    """Nothing is known of it."""
    integrity.run("gate", data, expect=0)

    assert "was never recorded" in integrity.run("gate", data / "d1" / "nope", expect=2).stderr


def test_healthy_folder_is_not_said_to_be_the_one_that_is_not_covered(
    integrity: Box, data: Path, tmp_path: Path
) -> None:
    """It waits for another one, which says what is wrong with it."""
    other = plant(tmp_path / "other", 5)
    integrity.run("gate", data, other, expect=0)
    shutil.move(other, tmp_path / "away")
    other.mkdir()

    lines = integrity.run("gate", data, other, expect=3).stdout.splitlines()

    [healthy] = [line for line in lines if f"do not back up {data}:" in line]
    assert healthy.endswith(": another of the given folders has a problem")
    [missing] = [line for line in lines if f"do not back up {other}:" in line]
    assert "1 folder not being checked" in missing


def test_closed_gate_says_what_changed_and_how_to_open_it(integrity: Box, home: Path) -> None:
    """For people; status and findings know of it, too."""
    done = integrity.run("gate", home, expect=1)

    assert "This looks like ransomware" in done.stdout
    assert f"integrity gate {home} --release --reason WHY" in done.stdout
    assert "16 files rewritten, 0 gone, 0 new, of 200 files" in done.stdout
    assert str(home / "d0") not in done.stdout  # examples are relative to what is named
    assert "    d0/0.jpg\n" in done.stdout
    assert "1 backup blocked by suspicious changes" in integrity.run("status", expect=1).stdout
    [finding] = integrity.findings("findings", expect=1)
    assert f"integrity gate {home}" in str(finding["next_steps"])


def test_gate_stays_closed_until_it_is_released(integrity: Box, home: Path) -> None:
    """Each time it tells the same finding, and the reason of its end is kept."""
    for _ in range(2):
        [finding] = integrity.findings("gate", home, expect=1)
        assert 1 == finding["id"]
    integrity.run("scan", home, expect=0)
    integrity.run("scrub", home, expect=0)
    integrity.run("gate", home, expect=1)

    assert "released" in integrity.run("gate", home, "--release", "--reason", "I did it", expect=0).stdout

    [finding] = integrity.findings("findings", "--all", expect=0)
    assert ("resolved", "released: I did it") == (finding["state"], finding["resolution"])
    assert "0 files rewritten" in integrity.run("gate", home, expect=0).stdout


def test_release_leaves_other_findings_alone(integrity: Box, home: Path) -> None:
    """Each has its own way to be settled; until then the gate stays closed."""
    integrity.run("gate", home, expect=1)
    open_by_hand(integrity, FindingKind.ROT, b"d1/1.txt")

    [verdict] = integrity.json("gate", home, "--release", "--reason", "me", expect=1)

    assert ("released", 1) == (verdict["verdict"], verdict["findings_open"])
    integrity.run("gate", home, expect=1)


def test_release_without_need_is_refused(integrity: Box, data: Path) -> None:
    """It would take changes as seen that nobody has looked at."""
    integrity.run("gate", data, expect=0)

    assert "nothing to release" in integrity.run("gate", data, "--release", "--reason", "x", expect=2).stderr


def test_release_of_several_folders_releases_all_or_none(integrity: Box, data: Path, home: Path) -> None:
    """One that is not closed is a slip of the pen, and nothing is done."""
    integrity.run("gate", data, expect=0)
    integrity.run("gate", home, expect=1)
    before = query(integrity, "SELECT * FROM gate ORDER BY root_id")

    done = integrity.run("gate", home, data, "--release", "--reason", "x", expect=2)

    assert ("", True) == (done.stdout, "nothing to release" in done.stderr)
    assert before == query(integrity, "SELECT * FROM gate ORDER BY root_id")
    [finding] = integrity.findings("findings", expect=1)
    assert ("suspicious_change", "open") == (finding["kind"], finding["state"])


def test_release_names_the_folder_that_is_closed(integrity: Box, home: Path) -> None:
    """Parts of a root are asked about by themselves."""
    integrity.run("gate", home, expect=1)

    done = integrity.run("gate", home / "d0", "--release", "--reason", "x", expect=2)

    assert f"that of {home} is" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "PATH"),
        (["--release", "x"], "--reason"),
        (["--release", "--reason", " ", "x"], "--reason"),
        (["--reason", "y", "x"], "--release"),
        (["nowhere"], "no such folder"),
    ],
)
def test_wrong_usage_is_2(integrity: Box, tmp_path: Path, words: list[str], message: str) -> None:
    """And nothing is done."""
    done = integrity.run("gate", *words, cwd=tmp_path, expect=2)

    assert message in done.stderr
    assert not integrity.catalog.exists()


def test_one_closed_folder_holds_all_back(integrity: Box, data: Path, home: Path) -> None:
    """One backup is made of all of them or none; where a gate was passed moves for none."""
    integrity.run("gate", data, expect=0)
    before = query(integrity, "SELECT * FROM gate ORDER BY root_id")
    put(data / "new.txt")

    done = integrity.run("--json", "gate", data, home, expect=1)

    assert [True, False] == [one["may_pass"] for one in done.of_type("gate")]
    assert ["closed", "closed"] == [one["verdict"] for one in done.of_type("gate")]
    assert before == query(integrity, "SELECT * FROM gate ORDER BY root_id")
    assert "another of the given folders" in integrity.run("gate", data, home, expect=1).stdout


def test_part_and_whole_are_released_each_by_itself(integrity: Box, home: Path) -> None:
    """The closed gate of a part is a finding in the whole, as any other is."""
    integrity.run("gate", home, expect=1)
    integrity.run("gate", home / "d0", expect=1)
    integrity.run("gate", home, "--release", "--reason", "x", expect=1)

    assert "1 backup blocked by suspicious changes" in integrity.run("gate", home, expect=1).stdout
    integrity.run("gate", home / "d0", "--release", "--reason", "x", expect=0)
    integrity.run("gate", home, expect=0)


def test_first_gate_takes_what_is_there_whatever_it_is(integrity: Box, tmp_path: Path) -> None:
    """A vault, or an encrypted remote: nothing is known of what its files were before."""
    files = make_documents(tmp_path / "home", 100)
    encrypt(files)

    assert "the starting point" in integrity.run("gate", tmp_path / "home", expect=0).stdout
    encrypt(files)
    integrity.run("gate", tmp_path / "home", expect=1)


def test_names_are_any_bytes(integrity: Box, tmp_path: Path) -> None:
    """Also those that are no text, in a file's place as in a folder's."""
    folder = os.fsencode(tmp_path) + b"/d\xff"
    os.mkdir(folder)
    for number in range(30):
        with open(folder + b"/\xfe\n%d.txt" % number, "wb") as file:
            file.write(b"a line of text\n" * 20)
    integrity.run("gate", folder, expect=0)
    for name in os.listdir(folder):
        with open(folder + b"/" + name, "wb") as file:
            file.write(os.urandom(5000))

    verdict = integrity.run("--json", "gate", folder, expect=1).of_type("gate")[0]

    assert verdict["looks_like_ransomware"]
    assert "\\xff" in integrity.run("gate", folder, expect=1).stdout


def test_gate_waits_for_another_job(integrity: Box, data: Path) -> None:
    """A scrub that cron began at the same time is no reason to fail."""
    integrity.run("gate", data, expect=0)
    with ExitStack() as stack:
        with lock_root(bytes(integrity.catalog), find_root(integrity).id, bytes(data), Job.SCRUB, now=0):
            running = stack.enter_context(Running(integrity, "gate", data))
            line = running.read_error()
            assert not running.has_ended
        done = running.finish()

    assert "a scrub of it is running" in line
    assert "the gate waits for it, 10 min at most" in line
    assert (0, "gate: open") == (done.code, done.stdout[:10])


def test_gate_that_is_stopped_while_it_waits_was_interrupted(integrity: Box, data: Path) -> None:
    """That somebody else was at work is not why it ends."""
    integrity.run("gate", data, expect=0)
    lock = lock_root(bytes(integrity.catalog), find_root(integrity).id, bytes(data), Job.SCRUB, now=0)
    with lock, Running(integrity, "gate", data) as running:
        running.read_error()
        running.signal(signal.SIGTERM)
        done = running.finish()

    assert (130, "gate: interrupted") == (done.code, done.stdout[:17])


def test_gate_that_waited_too_long_says_for_whom(integrity: Box, data: Path) -> None:
    """Exit 4, as for every job that meets another one."""
    integrity.run("gate", data, expect=0)
    with lock_root(bytes(integrity.catalog), find_root(integrity).id, bytes(data), Job.SCRUB, now=0):
        done = integrity.run("-q", "gate", data, "--wait", "1s", expect=4)

    assert f"a scrub of it is running (process {os.getpid()})" in done.stderr
    integrity.run("gate", data, expect=0)
