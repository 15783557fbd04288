"""``compare`` with a copy in an S3 store, against real servers: what is found, and what is asked for it."""

from __future__ import annotations

import base64
import hashlib
import os
import random
import shlex
import signal
import subprocess
import zlib
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import xxhash
from awscrt import checksums

from support import AnyPath
from support.bitrot import flip_bit
from support.cli import Box, Completed, make_command
from support.loopfs import LoopFS
from support.machine import need_programs
from support.packages import hide_package
from support.planted import age, plant
from support.proc import measure
from support.proxies import HttpProxy, Lie
from support.results import kinds_by_name, messages, tallies
from support.running import Running
from support.s3box import CLIENT_ENV, SECRET, S3Box, open_s3
from support.servers import SilentServer
from support.shapes import damage
from support.strangestore import Stated, StrangeStore

MIB = 1 << 20


class Pair:
    """A root and a bucket of its own: ``pair.put(...); pair.compare(expect=0)``."""

    def __init__(self, integrity: Box, server: S3Box, root: Path) -> None:
        self.integrity, self.server, self.root = integrity, server, root
        self.bucket = server.make_bucket()
        self.env = dict(CLIENT_ENV)
        root.mkdir(exist_ok=True)

    def make(self, name: str, size_bytes: int) -> bytes:
        """Make a file of the root."""
        data = random.Random(f"{name} {size_bytes}").randbytes(size_bytes)
        (self.root / name).write_bytes(data)
        return data

    def put(self, name: str, *, data: bytes | None = None, **options: str) -> None:
        """Upload a file of the root in one piece, or something else in its place."""
        self.server.put(
            self.bucket, f"backup/{name}", (self.root / name).read_bytes() if data is None else data, **options
        )

    def put_parts(self, name: str, sizes: list[int], **options: str) -> None:
        """Upload a file of the root in parts of these sizes."""
        data = (self.root / name).read_bytes()
        bounds = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
        assert bounds[-1] == len(data)
        self.server.put_parts(
            self.bucket, f"backup/{name}", [data[first:last] for first, last in pairwise(bounds)], **options
        )

    def put_all(self) -> None:
        """Upload all files, each in one piece."""
        for path in self.root.rglob("*"):
            if path.is_file():
                self.put(str(path.relative_to(self.root)))

    @property
    def url(self) -> str:
        """The copy."""
        return f"s3://{self.bucket}/backup"

    def compare(self, *options: AnyPath, expect: int) -> Completed:
        """Compare, and insist on an exit code."""
        command = ["--json", "compare", self.root, "--with", self.url, "--endpoint", self.server.endpoint, *options]
        return self.integrity.run(*command, expect=expect, env=self.env)

    def asked(self) -> Counter[str]:
        """Count what the server's log says was asked of the bucket."""
        return Counter(
            method if key or method != "GET" else "LIST" for method, key in self.server.find_questions(self.bucket)
        )


@pytest.fixture
def pair(integrity: Box, s3_server: S3Box, tmp_path: Path) -> Pair:
    """Make an empty root and an empty bucket, of each kind of server."""
    return Pair(integrity, s3_server, tmp_path / "root")


# -- nothing is downloaded --------------------------------------------------------------------------------------------

PARTS = {
    "5 MiB": [5 * MIB, 5 * MIB, 17],
    "8 MiB": [8 * MIB, 3 * MIB],
    "16 MiB": [16 * MIB, 1],
    "uneven": [5 * MIB, 7 * MIB + 3, 6 * MIB, 100],
    "as if even": [6 * MIB, 5 * MIB, 5 * MIB],
}


def test_uploads_of_all_kinds_are_compared_without_any_download(pair: Pair) -> None:
    """Objects in one piece by their listing, those in parts by two questions each; no object is asked for its bytes."""
    plant(pair.root, 30, size_bytes=3000)
    (pair.root / "empty").touch()
    pair.put_all()
    for name, sizes in PARTS.items():
        pair.make(name, sum(sizes))
        pair.put_parts(name, sizes)
    pair.integrity.run("scan", pair.root, expect=0)
    before = pair.asked()
    done = pair.compare(expect=0)
    asked = pair.asked() - before

    assert {"verified": 36} == tallies(done)
    assert (36, 0) == (done.summary["files_published"], done.summary["files_read"])
    assert [] == pair.server.find_reads(pair.bucket)
    if pair.server.kind == "versitygw":
        # It computes Amazon's CRC of each upload, and the catalog has that of each file.
        assert {"LIST": 2, "HEAD": 2 * len(PARTS)} == asked
        assert 0 == done.summary["bytes_read"]
    else:
        # Each file is read once here, twice if its parts look even and are not; of these each part's size is asked for.
        uneven = [PARTS[name] for name in ("uneven", "as if even")]
        assert {"LIST": 2, "HEAD": 2 * len(PARTS) + sum(2 + len(sizes) for sizes in uneven)} == asked
        assert sum(map(sum, [*PARTS.values(), *uneven])) == done.summary["bytes_read"]


def test_answer_that_ends_in_its_head_accuses_nobody(integrity: Box, moto: S3Box, tmp_path: Path) -> None:
    """A size of which the last digits are missing is no other size; and what is said of it is no traceback."""
    pair = Pair(integrity, moto, tmp_path / "root")
    pair.make("large", 6 * MIB)
    pair.put_parts("large", [5 * MIB, MIB])
    pair.integrity.run("scan", pair.root, expect=0)
    with HttpProxy(moto.endpoint) as proxy:
        for seed in range(4):
            proxy.tell(Lie("head ended early", nth=3, seed=seed))
            options = ["--endpoint", proxy.url]
            done = integrity.run("--json", "compare", pair.root, "--with", pair.url, *options, env=pair.env)
            assert proxy.told
            assert set(kinds_by_name(done).values()) <= {"copy_unreadable"}
            assert "Traceback" not in done.stderr


def test_parts_that_are_blocks_follow_from_the_catalog_alone(integrity: Box, moto: S3Box, tmp_path: Path) -> None:
    """Neither is the store asked more than its listing, nor is the file read."""
    integrity.configure('[defaults]\nblock_size = "8MiB"\n')
    pair = Pair(integrity, moto, tmp_path / "root")
    for number, sizes in enumerate([[8 * MIB, 3 * MIB], [8 * MIB, 8 * MIB], [8 * MIB], [5000]]):
        pair.make(f"{number}", sum(sizes))
        pair.put_parts(f"{number}", sizes)
    pair.integrity.run("scan", pair.root, expect=0)
    before = pair.asked()
    done = pair.compare(expect=0)

    assert {"verified": 4} == tallies(done)
    assert 4 == done.summary["files_published"]
    assert 0 == done.summary["bytes_read"]
    assert {"LIST": 2} == pair.asked() - before


def test_what_rclone_uploaded_is_compared(pair: Pair) -> None:
    """The real program's uploads in parts of 5 MiB, with what it notes of them, and those in one piece."""
    need_programs("rclone")
    pair.make("large", 11 * MIB)
    pair.make("small", 5000)
    remote = f":s3,provider=Other,env_auth=true,force_path_style=true,endpoint='{pair.server.endpoint}'"
    flags = ["--s3-upload-cutoff", "5Mi", "--s3-chunk-size", "5Mi", "--s3-no-check-bucket"]
    env = pair.integrity.environment | pair.env | {"RCLONE_CONFIG": os.devnull}
    command = ["rclone", "copy", *flags, str(pair.root), f"{remote}:{pair.bucket}/backup"]
    uploaded = subprocess.run(command, env=env, capture_output=True, check=False)
    assert 0 == uploaded.returncode, uploaded.stderr.decode()
    done = pair.compare(expect=0)

    assert {"verified": 2} == tallies(done)
    assert 2 == done.summary["files_published"]
    assert [] == pair.server.find_reads(pair.bucket)


def test_file_that_is_read_for_its_copy_is_verified_by_that(integrity: Box, moto: S3Box, tmp_path: Path) -> None:
    """The pass over a file whose parts are no blocks verifies the file as well; damage of it is found by it."""
    pair = Pair(integrity, moto, tmp_path / "root")
    pair.make("large", 11 * MIB)
    pair.put_parts("large", [5 * MIB, 6 * MIB])
    integrity.run("scan", pair.root, expect=0)
    assert integrity.run("--json", "explain", pair.root / "large").of_type("file")[0]["verified_at"] is None
    pair.compare(expect=0)
    assert integrity.run("--json", "explain", pair.root / "large").of_type("file")[0]["verified_at"] is not None


@pytest.mark.root
def test_rot_is_found_by_reading_a_file_for_its_copy(integrity: Box, moto: S3Box, ext4: LoopFS) -> None:
    """The copy can't be judged then, as what it should state is not to be had; the file's damage is told."""
    pair = Pair(integrity, moto, Path(os.fsdecode(ext4.folder)) / "root")
    pair.make("large", 11 * MIB)
    pair.put_parts("large", [5 * MIB, 6 * MIB])
    integrity.run("scan", pair.root, expect=0)
    flip_bit(pair.root / "large", 7 * MIB)
    done = pair.compare(expect=1)

    assert {"rot", "copy_not_comparable"} == {each["kind"] for each in done.findings}


# -- checksums and ETags ----------------------------------------------------------------------------------------------


def b64(data: bytes) -> str:
    """Write a checksum as S3 does."""
    return base64.b64encode(data).decode()


CHECKSUMS: dict[str, Callable[[bytes], bytes]] = {
    "crc64nvme": lambda data: checksums.crc64nvme(data).to_bytes(8, "big"),
    "crc32": lambda data: zlib.crc32(data).to_bytes(4, "big"),
    "crc32c": lambda data: checksums.crc32c(data).to_bytes(4, "big"),
    "sha1": lambda data: hashlib.sha1(data).digest(),
    "sha256": lambda data: hashlib.sha256(data).digest(),
    "sha512": lambda data: hashlib.sha512(data).digest(),
    "xxhash64": xxhash.xxh64_digest,
    "xxhash128": xxhash.xxh3_128_digest,
}


def compare_strange(integrity: Box, root: Path, store: StrangeStore, env: dict[str, str], *, expect: int) -> Completed:
    """Compare with a store whose ETags are nothing."""
    command = ["--json", "compare", root, "--with", "s3://bucket/backup", "--endpoint", store.url]
    return integrity.run(*command, env=env, expect=expect)


@pytest.mark.parametrize("says_so", [True, False])
def test_checksum_outweighs_an_etag_that_is_none(integrity: Box, tmp_path: Path, says_so: bool) -> None:
    """Where objects are encrypted, said or in silence, ETags only look like MD5s: the checksums decide, all kinds."""
    header = {"x-amz-server-side-encryption": "aws:kms"} if says_so else {}
    root = tmp_path / "root"
    root.mkdir()
    objects = {}
    for kind, compute in CHECKSUMS.items():
        for name in (f"good {kind}", f"other {kind}"):
            data = name.encode() * 100
            (root / name).write_bytes(data)
            stored = data if "good" in name else data[::-1]
            stated = {f"x-amz-checksum-{kind}": b64(compute(stored))}
            etag = hashlib.md5(name.encode()).hexdigest()
            objects[f"backup/{name}"] = Stated(len(data), etag, header | stated, stored)
    with StrangeStore(objects) as store:
        done = compare_strange(integrity, root, store, CLIENT_ENV, expect=1)

    assert {f"other {kind}": "copy_conflict" for kind in CHECKSUMS} == kinds_by_name(done)
    assert {"verified": len(CHECKSUMS), "changed": len(CHECKSUMS)} == tallies(done)
    assert {key for key in objects if "other" in key} == store.read


def test_encrypted_object_without_checksum_is_not_comparable(integrity: Box, tmp_path: Path) -> None:
    """Neither good nor differing, in one piece or in parts: exit 3, and what would tell. What rclone notes does."""
    root = tmp_path / "root"
    root.mkdir()
    names = ("kms", "customer", "parts", "noted")
    for name in names:
        (root / name).write_bytes(name.encode() * 1000)
    kms = {"x-amz-server-side-encryption": "aws:kms"}
    noted = b64(hashlib.md5(b"noted" * 1000).digest())
    objects = {
        "backup/kms": Stated(3000, "0" * 32, kms),
        "backup/customer": Stated(8000, "1" * 32, {"x-amz-server-side-encryption-customer-algorithm": "AES256"}),
        "backup/parts": Stated(5000, "2" * 32 + "-2", kms),
        "backup/noted": Stated(5000, "3" * 32 + "-2", kms | {"x-amz-meta-md5chksum": noted}),
    }
    with StrangeStore(objects) as store:
        done = compare_strange(integrity, root, store, CLIENT_ENV, expect=3)

    assert 0 == store.asked["GET"]
    assert {"verified": 1, "skipped": 3} == tallies(done)
    (finding,) = done.findings
    assert "copy_not_comparable" == finding["kind"]
    assert "3 files could not be compared" in str(finding["message"])
    assert "add --read" in str(finding["message"])


def test_crc32c_needs_its_package(integrity: Box, tmp_path: Path) -> None:
    """Without it such objects are not comparable, and what to install stands in the reason."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "x").write_bytes(b"x" * 5000)
    header = {
        "x-amz-server-side-encryption": "aws:kms",
        "x-amz-checksum-crc32c": b64(CHECKSUMS["crc32c"](b"x" * 5000)),
    }
    with StrangeStore({"backup/x": Stated(5000, "0" * 32, header)}) as store:
        done = compare_strange(integrity, root, store, CLIENT_ENV | hide_package(tmp_path, "google_crc32c"), expect=3)
        assert {"skipped": 1} == tallies(done)
        assert "[s3]" in messages(done)
        assert {"verified": 1} == tallies(compare_strange(integrity, root, store, CLIENT_ENV, expect=0))


def test_boto3_is_asked_for(integrity: Box, tmp_path: Path) -> None:
    """Without the extra nothing is done, and the command that installs it is told."""
    (tmp_path / "root").mkdir()
    command = ["compare", tmp_path / "root", "--with", "s3://bucket/backup"]
    done = integrity.run(*command, expect=2, env=hide_package(tmp_path, "boto3"))

    assert "-m pip install" in done.stderr


# -- what is found ----------------------------------------------------------------------------------------------------


def test_every_kind_of_difference_is_found_and_none_is_invented(pair: Pair) -> None:
    """Stale, other, cut, missing and extra objects are told apart; only those with other checksums are downloaded."""
    plant(pair.root, 40, size_bytes=3000)
    for name in ("good", "flipped", "cut", "older"):
        pair.make(name, 11 * MIB)
    pair.integrity.run("scan", pair.root, expect=0)
    pair.put_all()
    for name in ("good", "flipped", "cut", "older"):
        pair.put_parts(name, [5 * MIB, 6 * MIB])
    older = [f"d{number}/{number}.txt" for number in range(5)]
    for name in (*older, "older"):
        (pair.root / name).write_bytes(b"newer")
    pair.integrity.run("scan", pair.root, expect=0)
    flipped = [f"d{number}/{number + 7}.txt" for number in range(5)]
    for name in flipped:
        data = bytearray((pair.root / name).read_bytes())
        data[77] ^= 1
        pair.put(name, data=bytes(data))
    cut = [f"d{number}/{number + 14}.txt" for number in range(5)]
    for name in cut:
        pair.put(name, data=(pair.root / name).read_bytes()[:1000])
    gone = [f"d{number}/{number + 21}.txt" for number in range(5)]
    for name in gone:
        pair.server.client.delete_object(Bucket=pair.bucket, Key=f"backup/{name}")
    large = bytearray((pair.root / "flipped").read_bytes())
    large[9 * MIB] ^= 1
    pair.server.put_parts(pair.bucket, "backup/flipped", [bytes(large[: 5 * MIB]), bytes(large[5 * MIB :])])
    pair.server.put_parts(pair.bucket, "backup/cut", [bytes(large[: 5 * MIB]), bytes(large[5 * MIB : 6 * MIB])])
    pair.server.put(pair.bucket, "backup/extra", b"x")
    done = pair.compare(expect=1)

    expected = dict.fromkeys([*older, "older"], "copy_stale")
    if pair.server.kind == "moto":  # history keeps no digests of blocks, so only a CRC tells that parts are older
        expected["older"] = "copy_conflict"
    expected |= dict.fromkeys([*flipped, *cut, "flipped", "cut"], "copy_conflict") | dict.fromkeys(gone, "copy_missing")
    assert {os.path.basename(name): kind for name, kind in expected.items()} == kinds_by_name(done)
    stale = Counter(expected.values())["copy_stale"]
    assert {"verified": 21, "changed": 18, "missing": 5} == tallies(done)
    assert stale == done.summary["files_stale"]
    assert 1 == done.summary["files_extra"]
    accused = {*flipped, "flipped"}
    assert {f"backup/{name}" for name in accused} == set(pair.server.find_reads(pair.bucket))
    assert len(accused) == done.summary["files_read"]


def test_object_that_lost_its_data_has_no_other_files_content(pair: Pair) -> None:
    """What has another file's content is older, unless it is all zeros, which is what a store gives for lost data."""
    for name in ("lost", "swapped", "other"):
        pair.make(name, 5000)
    (pair.root / "sparse").write_bytes(bytes(5000))
    pair.integrity.run("scan", pair.root, expect=0)
    pair.put_all()
    pair.put("lost", data=bytes(5000))
    pair.put("swapped", data=(pair.root / "other").read_bytes())

    done = pair.compare(expect=1)

    assert {"lost": "copy_conflict", "swapped": "copy_stale"} == kinds_by_name(done)


def test_bit_that_flips_in_the_store_is_found_by_reading_only(integrity: Box, versitygw: S3Box, tmp_path: Path) -> None:
    """What a store publishes is what was uploaded; --read reads what it holds. Each report says which it was."""
    pair = Pair(integrity, versitygw, tmp_path / "root")
    for name in ("large", "small"):
        pair.make(name, 5 * MIB if name == "large" else 5000)
        pair.put(name)
    with (versitygw.objects / pair.bucket / "backup" / "large").open("r+b") as stored:
        stored.seek(2 * MIB + 5)
        byte = stored.read(1)
        stored.seek(2 * MIB + 5)
        stored.write(bytes([byte[0] ^ 16]))

    published = pair.compare(expect=0)
    assert {"verified": 2} == tallies(published)
    assert (2, 0) == (published.summary["files_published"], published.summary["files_read"])
    assert [] == versitygw.find_reads(pair.bucket)
    words = integrity.run("compare", pair.root, "--with", str(published.summary["copy"]), env=pair.env, expect=0)
    assert "2 compared by the checksum the copy stores" in words.stdout

    read = pair.compare("--read", expect=1)
    assert {"large": "copy_differs"} == kinds_by_name(read)
    assert [2] == read.findings[0]["blocks"]
    assert "its data was read back" in messages(read)
    assert (0, 2) == (read.summary["files_published"], read.summary["files_read"])
    assert {"large", "small"} == {key.removeprefix("backup/") for key in versitygw.find_reads(pair.bucket)}

    # What bytes told is asked of bytes again: of that file alone, until they are right.
    again = pair.compare(expect=1)
    assert {"large": "copy_differs"} == kinds_by_name(again)
    assert (1, 1) == (again.summary["files_published"], again.summary["files_read"])
    pair.put("large")
    mended = pair.compare(expect=0)
    assert (1, 1) == (mended.summary["files_published"], mended.summary["files_read"])
    integrity.run("findings", expect=0)
    assert 2 == pair.compare(expect=0).summary["files_published"]


# -- bad days ---------------------------------------------------------------------------------------------------------


def assert_no_secret(pair: Pair, *runs: Completed) -> None:
    """Insist that no credentials are in what was printed, nor in the catalog."""
    secrets = {SECRET, "wrong-and-secret", "token-never-shown"}
    texts = [text for run in runs for text in (run.stdout, run.stderr)]
    texts += [path.read_bytes().decode("latin-1") for path in pair.integrity.home.iterdir() if path.is_file()]
    assert [] == [secret for secret in secrets for text in texts if secret in text]


def test_store_that_can_not_be_asked_makes_nothing_missing(pair: Pair) -> None:
    """Wrong credentials, none at all, the bucket gone, emptied, the server down: exit 3 and what to do."""
    plant(pair.root, 20)
    pair.put_all()
    first = Pair(pair.integrity, pair.server, pair.root)
    nothing = first.compare(expect=3)
    assert "nothing is stored there" in nothing.stderr
    pair.compare(expect=0)
    runs = [nothing]

    def assert_unreachable(said: str) -> None:
        done = pair.compare(expect=3)
        runs.append(done)
        (finding,) = done.findings
        assert "copy_unreadable" == finding["kind"]
        assert said in str(finding["message"])
        assert {"not_due": 20} == tallies(done)

    good = dict(pair.env)
    if pair.server.kind == "versitygw":  # moto believes everybody
        pair.env["AWS_SECRET_ACCESS_KEY"] = "wrong-and-secret"
        assert_unreachable("does not accept the credentials")
    del pair.env["AWS_ACCESS_KEY_ID"], pair.env["AWS_SECRET_ACCESS_KEY"]
    assert_unreachable("there are no credentials")
    pair.env = good | {"AWS_SESSION_TOKEN": "token-never-shown"} if pair.server.kind == "moto" else good
    pair.compare(expect=0)
    for path in pair.root.rglob("*.txt"):
        pair.server.client.delete_object(Bucket=pair.bucket, Key=f"backup/{path.relative_to(pair.root)}")
    assert_unreachable("nothing is stored there")
    pair.server.client.delete_bucket(Bucket=pair.bucket)
    assert_unreachable("no such bucket")
    assert_no_secret(pair, *runs)


@pytest.mark.parametrize(
    "command", [["compare", "{root}", "--with"], ["repair", "{root}/x", "--from"]], ids=["compare", "repair"]
)
def test_store_that_says_nothing_holds_up_nobody_who_wants_to_end(
    integrity: Box, tmp_path: Path, command: list[str]
) -> None:
    """It is waited for, for minutes; SIGTERM ends that at once, and leaves the file as it was."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "x").write_bytes(bytes(5000))
    age(root / "x")
    integrity.run("scan", root, expect=0)
    damage(root / "x", 1234)
    integrity.run("scrub", root, expect=1)
    before = (root / "x").read_bytes()
    with SilentServer() as server:
        words = [word.format(root=root) for word in command]
        url = f"s3://bucket/backup?endpoint=http://127.0.0.1:{server.port}"
        with Running(integrity, *words, url, env=CLIENT_ENV) as running:
            server.wait_for_client()
            running.signal(signal.SIGTERM)
            done = running.finish(10)

    assert 130 == done.code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert before == (root / "x").read_bytes()


def test_server_that_is_down_is_a_finding_until_it_is_back(integrity: Box, tmp_path: Path) -> None:
    """And the command that the findings give works as it stands: the endpoint is kept with the copy."""
    with open_s3("moto") as server:
        pair = Pair(integrity, server, plant(tmp_path / "root", 20))
        pair.put_all()
        (pair.root / "d0" / "0.txt").write_bytes(b"changed after the backup")
        pair.compare(expect=1)
        stale = pair.compare(expect=1)
        (finding,) = stale.findings
        steps = finding["next_steps"]
        assert isinstance(steps, list)
        command = next(step["command"] for step in steps if " compare " in step["command"])
        words = [word for word in shlex.split(command) if word != "--blocks"]
        assert "integrity" == words[0]
        again = integrity.run("--json", *words[1:], env=pair.env, expect=1)
        assert {"0.txt": "copy_conflict"} == kinds_by_name(again)
        pair.put("d0/0.txt")
        integrity.run(*words[1:], env=pair.env, expect=0)
    down = integrity.run("--json", *words[1:], env=pair.env, expect=3)
    assert ["copy_unreadable"] == [each["kind"] for each in down.findings]
    assert {"not_due": 1} == tallies(down)


def test_good_bytes_come_back_from_a_store_that_was_compared(integrity: Box, versitygw: S3Box, tmp_path: Path) -> None:
    """``repair`` finds by itself where the copy is, endpoint and all."""
    pair = Pair(integrity, versitygw, tmp_path / "root")
    pair.make("x", 3 * MIB)
    pair.put("x")
    pair.compare(expect=0)
    whole = (pair.root / "x").read_bytes()
    damage(pair.root / "x")
    integrity.run("scrub", pair.root, expect=1)
    done = pair.compare(expect=1)
    assert 1 == done.summary["files_repairable"]
    integrity.run("repair", pair.root / "x", "--apply", env=pair.env, expect=0)
    assert whole == (pair.root / "x").read_bytes()


# -- many -------------------------------------------------------------------------------------------------------------


@pytest.mark.root
def test_memory_does_not_grow_with_the_bucket(integrity: Box, tmp_path: Path) -> None:
    """Fifty thousand objects cost a question for a thousand, and no memory."""
    root = plant(tmp_path / "root", 1000)
    recorded = {
        f"backup/{path.relative_to(root)}": Stated(path.stat().st_size, hashlib.md5(path.read_bytes()).hexdigest())
        for path in root.rglob("*.txt")
    }
    other = {f"backup/other/{number:06}": Stated(number, "0" * 32) for number in range(49_000)}
    integrity.run("scan", root, expect=0)
    costs = []
    for objects in (recorded, recorded | other):
        with StrangeStore(objects) as store:
            command = ["--json", "compare", root, "--with", "s3://bucket/backup", "--endpoint", store.url]
            cost = measure(make_command(*command), env=integrity.environment | CLIENT_ENV)
            assert 0 == cost.code
            costs.append(cost)
    assert -(-len(objects) // 1000) + 1 == store.asked["LIST"]
    assert {"LIST"} == set(store.asked)
    assert costs[1].peak_rss_bytes - costs[0].peak_rss_bytes < 4 * MIB
