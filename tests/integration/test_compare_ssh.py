"""``compare`` with a copy on another machine, by a real sshd: what is found, what it costs, what may go wrong."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from pathlib import Path

import pytest

from support import AnyPath
from support.cli import Box, Completed
from support.faultfs import FaultFS, Rule
from support.machine import need_programs
from support.packages import hide_package
from support.planted import plant
from support.proxies import LineProxy, LineRules
from support.results import kinds_by_name, tallies
from support.running import Running
from support.sshbox import SFTP_ONLY, SshBox, make_programs
from support.stored import query
from support.waiting import wait_until

ODD_NAMES = (b"new\nline", b"bad\xff\xfeutf8", b"-rf", b"back\\slash", b"it's", b"%41 %s", b" ends\n", "ä".encode())


class Pair:
    """
    A root and its copy behind an sshd: ``pair.compare("--read", expect=0)``.

    Attributes:
        root: the root.
        copy: a whole copy of it, made when the pair is.
    """

    def __init__(self, integrity: Box, server: SshBox, root: Path) -> None:
        self.integrity, self.server, self.root = integrity, server, root
        self.copy = root.with_name("copy")
        shutil.copytree(root, self.copy)

    @property
    def env(self) -> dict[str, str]:
        """Where the client finds its keys."""
        return {"HOME": str(self.server.home)}

    def command(self, *options: AnyPath, port: int | None = None) -> list[AnyPath]:
        """Write the command that compares."""
        return ["--json", "compare", self.root, "--with", self.server.url(self.copy, port=port), *options]

    def compare(self, *options: AnyPath, expect: int, port: int | None = None) -> Completed:
        """Compare, and insist on an exit code."""
        return self.integrity.run(*self.command(*options, port=port), expect=expect, env=self.env)


@pytest.fixture
def pair(integrity: Box, sshd: SshBox, tmp_path: Path) -> Pair:
    """Make a root of some files with all kinds of names."""
    return Pair(integrity, sshd, plant_odd(tmp_path / "root"))


def plant_odd(root: Path) -> Path:
    """Make files of all kinds of names, and a large one."""
    plant(root, 60, size_bytes=5000)
    for name in ODD_NAMES:
        with open(os.path.join(os.fsencode(root), name), "wb") as file:
            file.write(name * 100)
    (root / "empty").touch()
    (root / "large").write_bytes(b"0123456789abcdef" * 200_000)
    return root


# -- what is found ----------------------------------------------------------------------------------------------------


def test_copy_by_ssh_is_the_same(pair: Pair) -> None:
    """Digests that were computed over there cover every name, and none of the root's bytes is read for them."""
    done = pair.compare(expect=0)

    assert {"verified": 70} == tallies(done)
    assert (70, 0) == (done.summary["files_read"], done.summary["files_published"])
    again = pair.compare(expect=0).summary
    assert again["bytes_read"] == 0


def plant_differences(pair: Pair) -> dict[str, str]:
    """Make every kind of difference, five of most; return the findings that follow by the files' names."""
    expected = {}
    for number in range(5):
        folder = pair.copy / f"d{number}"
        stale, other = folder / f"{number + 7}.txt", folder / f"{number + 14}.txt"
        cut, gone = folder / f"{number + 21}.txt", folder / f"{number + 28}.txt"
        newer = pair.root / stale.relative_to(pair.copy)
        newer.write_bytes(b"newer " * 1000)
        data = bytearray(other.read_bytes())
        data[4321] ^= 4
        seen = other.stat()
        other.write_bytes(data)
        os.utime(other, ns=(seen.st_atime_ns, seen.st_mtime_ns))
        os.truncate(cut, 4000)
        gone.unlink()
        (folder / f"extra-{number}").write_bytes(b"extra")
        expected |= {stale.name: "copy_stale", other.name: "copy_conflict", cut.name: "copy_differs"}
        expected[gone.name] = "copy_missing"
    return expected


@pytest.mark.long
@pytest.mark.parametrize(
    ("server", "options"), [((), ()), ((), ("--read",)), ((SFTP_ONLY,), ("--read",))], ids=["shell", "read", "sftp"]
)
def test_every_kind_of_difference_is_found_and_none_is_invented(
    pair: Pair, server: tuple[str, ...], options: tuple[str, ...]
) -> None:
    """Stale, flipped, cut, missing and extra files are told apart, with digests from there and with bytes."""
    pair.server.restart(*server)
    pair.integrity.run("scan", pair.root, expect=0)
    expected = plant_differences(pair)
    done = pair.compare(*options, expect=1)

    assert expected == kinds_by_name(done)
    assert {"verified": 50, "changed": 10, "damaged": 5, "missing": 5} == tallies(done)
    assert 5 == done.summary["files_extra"]
    for path in expected:
        number = int(path.partition(".")[0])
        shutil.copy2(pair.root / f"d{number % 7}" / path, pair.copy / f"d{number % 7}" / path)
    after = pair.compare(*options, expect=0)
    assert [] == after.findings
    assert 0 == after.summary["findings_open"]


@pytest.mark.long
def test_account_without_shell_is_not_comparable_until_it_is_read(pair: Pair) -> None:
    """SFTP states nothing of the content: not good, not bad, exit 3 and what to do; sizes that differ still tell."""
    pair.server.restart(SFTP_ONLY)
    done = pair.compare(expect=3)
    assert {"skipped": 70} == tallies(done)
    assert 70 == done.summary["files_not_comparable"]
    (finding,) = done.findings
    assert "copy_not_comparable" == finding["kind"]
    assert "--read" in str(finding["message"])

    os.truncate(pair.copy / "large", 100)
    later = (pair.root / "large").stat().st_mtime + 60
    os.utime(pair.copy / "large", (later, later))
    assert {"large": "copy_newer"} == {
        name: kind for name, kind in kinds_by_name(pair.compare(expect=1)).items() if kind != "copy_not_comparable"
    }
    shutil.copy2(pair.root / "large", pair.copy / "large")

    read = pair.compare("--read", expect=0)
    assert {"verified": 70} == tallies(read)
    assert 70 == read.summary["files_read"]
    assert [] == read.findings
    assert 0 == read.summary["findings_open"]


@pytest.mark.parametrize(
    ("programs", "reads_here"), [(["xxh128sum"], False), (["xxhsum"], False), (["b3sum"], True), (["sha256sum"], True)]
)
def test_other_programs_than_md5sum_will_do(pair: Pair, tmp_path: Path, programs: list[str], reads_here: bool) -> None:
    """Whatever there is over there; digests that are not kept take one pass over the files here."""
    need_programs(*programs)
    pair.integrity.run("scan", pair.root, expect=0)
    pair.server.restart(make_programs(tmp_path / "bin", "find", "xargs", *programs))
    with open(pair.copy / "large", "r+b") as file:
        file.seek(1_500_000)
        file.write(b"!")
    done = pair.compare(expect=1)

    assert {"large": "copy_newer"} == kinds_by_name(done)
    assert {"verified": 69, "changed": 1} == tallies(done)
    total = sum(path.stat().st_size for path in pair.root.rglob("*") if path.is_file())
    large = (pair.root / "large").stat().st_size
    assert done.summary["bytes_read"] >= total if reads_here else int(str(done.summary["bytes_read"])) <= 3 * large


@pytest.mark.root("xxhsum")
@pytest.mark.parametrize("program", ["md5sum", "xxhsum"])
def test_file_that_the_other_side_can_not_read_is_unreadable(
    pair: Pair, faulty: FaultFS, tmp_path: Path, program: str
) -> None:
    """An error of the disk over there is a gap, no difference; a folder that can't be listed takes its files along."""
    shutil.copytree(pair.root, tmp_path / "source", dirs_exist_ok=True)
    pair.copy = faulty.folder
    pair.server.restart(make_programs(tmp_path / "bin", "find", "xargs", program))
    faulty.add(Rule("read", path="*/d0/7.txt", errno=errno.EIO))
    faulty.add(Rule("read", path="*/d6/13.txt", errno=errno.EIO))
    faulty.add(Rule("readdir", path="*d3*", errno=errno.EIO))
    done = pair.compare(expect=3)

    unreadable = {"7.txt", "13.txt", *(f"{number}.txt" for number in range(3, 60, 7))}
    assert dict.fromkeys(unreadable, "copy_unreadable") == kinds_by_name(done)
    assert {"verified": 70 - len(unreadable), "unreadable": len(unreadable)} == tallies(done)
    reasons = {os.path.basename(str(each["path"])): str(each["message"]) for each in done.findings}
    named = unreadable if program == "md5sum" else unreadable - {"7.txt", "13.txt"}  # xxhsum names no file
    assert all("Input/output error" in reasons[name] for name in named)


# -- the wire ---------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_wire_carries_at_most_300_bytes_for_each_file(integrity: Box, sshd: SshBox, tmp_path: Path) -> None:
    """Names go there and back; the content of 2,000 files does not."""
    files = 2000
    pair = Pair(integrity, sshd, plant(tmp_path / "root", files, size_bytes=20_000))
    names = sum(len(os.fsencode(path.relative_to(pair.root))) for path in pair.root.rglob("*.txt"))
    with LineProxy(sshd.port) as proxy:
        done = pair.compare(expect=0, port=proxy.port)
        on_wire = proxy.sent + proxy.received

    assert files == done.summary["files_verified"]
    assert on_wire <= 300 * files + names


# -- bad days ---------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_line_that_is_cut_keeps_what_was_said_until_then(integrity: Box, sshd: SshBox, tmp_path: Path) -> None:
    """In mid-listing nothing is concluded; in mid-digest what has come stands, and the next comparison has the rest."""
    files = 3000
    pair = Pair(integrity, sshd, plant(tmp_path / "root", files))
    (pair.copy / "d0" / "0.txt").write_bytes(b"other\n")
    with LineProxy(sshd.port) as proxy:
        whole = pair.compare(expect=1, port=proxy.port)
        received = proxy.received
        assert {"0.txt": "copy_newer"} == kinds_by_name(whole)

        proxy.rules = LineRules(cut_after=received // 4)
        listing = pair.compare(expect=3, port=proxy.port)
        assert ["copy_unreadable"] == [each["kind"] for each in listing.findings]
        assert {"not_due": files} == tallies(listing)

        proxy.rules = LineRules(cut_after=received - 10_000)
        digests = pair.compare(expect=1, port=proxy.port)
        assert {"0.txt": "copy_newer"}.items() <= kinds_by_name(digests).items()
        assert {"verified", "changed", "not_due"} == set(tallies(digests))
        (lost,) = (each for each in digests.findings if each["kind"] == "copy_unreadable")
        assert "was lost after 2," in str(lost["message"])
        proxy.rules = LineRules()
        after = pair.compare(expect=1, port=proxy.port)
    assert {"0.txt": "copy_newer"} == kinds_by_name(after)
    assert {"verified": files - 1, "changed": 1} == tallies(after)
    assert 1 == after.summary["findings_open"]


def test_comparison_that_is_asked_to_end_does_not_wait_for_a_digest(pair: Pair, tmp_path: Path) -> None:
    """A digest over there may take hours: SIGTERM ends it at once, and what was said before is kept."""
    md5sum, sleep = shutil.which("md5sum"), shutil.which("sleep")
    script = f'[ $# -lt 3 ] && exec {md5sum} "$@"\n{md5sum} -z "$2"\necho >{tmp_path}/sleeping\nexec {sleep} 600'
    pair.integrity.run("scan", pair.root, expect=0)
    pair.server.restart(make_programs(tmp_path / "bin", "find", "xargs", md5sum=script))
    with Running(pair.integrity, *pair.command(), env=pair.env) as running:
        wait_until((tmp_path / "sleeping").exists, "the other side computes")
        running.signal(signal.SIGTERM)
        done = running.finish(10)

    assert 130 == done.code
    assert {"verified": 1, "not_due": 69} == tallies(done)
    assert [(1,)] == query(pair.integrity, "SELECT count(*) FROM copy_file")


def test_asyncssh_is_asked_for(integrity: Box, tmp_path: Path) -> None:
    """Without the extra nothing is done, and the command that installs it is told."""
    (tmp_path / "root").mkdir()
    command = ["compare", tmp_path / "root", "--with", "ssh://host/copy"]
    done = integrity.run(*command, expect=2, env=hide_package(tmp_path, "asyncssh"))

    assert "-m pip install" in done.stderr
