"""A copy in an S3 store, against real servers."""

from __future__ import annotations

import base64
import hashlib
import os
import random
import re
import tracemalloc
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path

import pytest
from awscrt import checksums

from contract.copysuite import CopySuite, MakeCopy
from integrity.copies.filenames import find_fault
from integrity.copies.opening import open_copy
from integrity.copies.part_digests import PartsHasher
from integrity.copies.protocol import Copy, CopyEntry, Kind, Published, Trouble
from integrity.copies.s3.copy import S3Copy
from integrity.errors import ConfigError, CopyUnreachable, Unreadable, Unstable, Vanished
from support.proxies import HttpProxy, Lie
from support.s3box import ACCESS, SECRET, S3Box, open_s3
from support.servers import SILENCE, Answer, HttpServer, Request

MIB = 1 << 20
_NOT_UTF8 = re.compile("[\udc80-\udcff]")


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the AWS chain find the servers' credentials and nothing of this machine's."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def open_prefix(box: S3Box, bucket: str, prefix: str = "", **options: int) -> S3Copy:
    """Make the copy below a prefix."""
    return S3Copy(f"s3://{bucket}/{prefix}", endpoint=box.endpoint, **options)


class MotoCopy(S3Copy):
    """Know that moto's router finds no key with a line break in it."""

    def find_name_fault(self, path: bytes) -> str | None:
        return "has a line break in it" if b"\n" in path else super().find_name_fault(path)


def find_objects(folder: Path, uncarried: re.Pattern[str]) -> dict[str, bytes]:
    """Read all regular files that a store can carry, by their keys, as aws s3 sync does."""
    objects = {}
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            key = f"the copy/{path.relative_to(folder)}"
            if path.is_file() and not path.is_symlink() and not (_NOT_UTF8.search(key) or uncarried.search(key)):
                objects[key] = path.read_bytes()
    return objects


class S3Suite(CopySuite):
    published = frozenset({Kind.MD5})
    keeps_times = False
    kind: type[S3Copy] = S3Copy
    uncarried = re.compile(r"(?!)")

    @pytest.fixture
    def server(self) -> S3Box:
        raise NotImplementedError

    @pytest.fixture
    def make(self, server: S3Box) -> MakeCopy:
        def make(folder: Path) -> Copy:
            bucket = server.make_bucket()
            server.put(bucket, "another/file", b"no part of it")
            copy = self.kind(f"s3://{bucket}/the%20copy/?endpoint={server.endpoint}")
            server.put_all(bucket, find_objects(folder, self.uncarried))
            return copy

        return make

    @pytest.fixture
    def gone(self, server: S3Box) -> Copy:
        return S3Copy("s3://never-made/x", endpoint=server.endpoint)


class TestMoto(S3Suite):
    kind = MotoCopy
    uncarried = re.compile(r"\n")

    @pytest.fixture
    def server(self, moto: S3Box) -> S3Box:
        return moto


class TestVersitygw(S3Suite):
    uncarried = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")

    @pytest.fixture
    def server(self, versitygw: S3Box) -> S3Box:
        return versitygw

    def test_many_files_are_listed_once_each(self, versitygw: S3Box) -> None:
        """A hundred thousand objects in a bucket: each once, in constant memory, a question for 1,000."""
        bucket = versitygw.make_bucket()
        expected = 100_000
        plant_links(versitygw.objects / bucket, expected)
        with open_prefix(versitygw, bucket) as copy:
            seen = set()
            peak = 0
            for count, found in enumerate(copy.list(), 1):
                assert isinstance(found, CopyEntry)
                seen.add(int(found.path.rpartition(b"/")[2]))
                if count == 2_000:
                    tracemalloc.start()
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()

        assert set(range(expected)) == seen
        assert peak < 40 * MIB
        assert len(versitygw.find_questions(bucket)) < 110


def plant_links(folder: Path, count: int) -> None:
    """Put objects where versitygw serves them from, since uploading so many takes minutes; as links, for speed."""
    for number in range(count):
        place = bytes(folder / f"folder {number // 10_000}")
        if number % 10_000 == 0:
            os.mkdir(place)
            first = place + b"/%d" % number
            open(first, "xb").close()
        else:
            os.link(first, place + b"/%d" % number)


PARTS = {
    "5 MiB": [5 * MIB, 5 * MIB, 3 * MIB + 17],
    "8 MiB": [8 * MIB, 8 * MIB],
    "16 MiB": [16 * MIB, 1],
    "uneven": [5 * MIB, 9 * MIB + 3, 6 * MIB, 100],
    "uneven, as if even": [8 * MIB, 5 * MIB, 7 * MIB],
    "one part": [123],
}


def make_bytes(size_bytes: int) -> bytes:
    """Make bytes that are the same in each run."""
    return random.Random(size_bytes).randbytes(size_bytes)


@pytest.mark.parametrize("sizes", PARTS.values(), ids=PARTS.keys())
def test_upload_in_parts_is_told_without_reading_it(s3_server: S3Box, sizes: list[int]) -> None:
    """The ETag that follows from the file and the parts' sizes is the one that the store states; no GET is made."""
    bucket = s3_server.make_bucket()
    data = make_bytes(sum(sizes))
    bounds = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
    s3_server.put_parts(bucket, "parts", [data[first:last] for first, last in pairwise(bounds)])
    with open_prefix(s3_server, bucket) as copy:
        (listed,) = copy.list()
        closer = copy.look_closer(b"parts")
        closest = copy.look_closer(b"parts", every_part=True)
    assert isinstance(listed, CopyEntry)
    assert isinstance(closer, CopyEntry)
    assert isinstance(closest, CopyEntry)

    (tag,) = listed.published
    assert (Kind.MD5_OF_PARTS, len(sizes)) == (tag.kind, tag.parts)
    parts = find(closest, Kind.MD5_OF_PARTS).list_parts(len(data))
    assert tuple(sizes) == parts
    hasher = PartsHasher(sizes)
    hasher.update(data)
    assert tag.value == hasher.digest()
    if len(set(sizes[:-1])) <= 1:
        assert find(closer, Kind.MD5_OF_PARTS).list_parts(len(data)) == parts
    assert s3_server.find_reads(bucket) == []


def find(entry: CopyEntry, kind: Kind) -> Published:
    """Get the one digest of a kind."""
    (found,) = (published for published in entry.published if published.kind is kind)
    return found


def test_checksum_of_the_whole_object_is_told(s3_server: S3Box) -> None:
    """Amazon's default is there for an upload in one piece and for one in parts, and is that of the bytes."""
    bucket = s3_server.make_bucket()
    data = make_bytes(11 * MIB)
    s3_server.put(bucket, "one", data, ChecksumAlgorithm="CRC64NVME")
    pieces = [data[: 6 * MIB], data[6 * MIB :]]
    s3_server.put_parts(bucket, "parts", pieces, ChecksumAlgorithm="CRC64NVME", ChecksumType="FULL_OBJECT")
    with open_prefix(s3_server, bucket) as copy:
        for path in (b"one", b"parts"):
            closer = copy.look_closer(path)
            assert isinstance(closer, CopyEntry)
            expected = checksums.crc64nvme(data).to_bytes(8, "big")
            assert Published(Kind.CRC64NVME, expected) == find(closer, Kind.CRC64NVME)
    assert s3_server.find_reads(bucket) == []


def test_other_checksums_are_told(s3_server: S3Box) -> None:
    """What the uploader had the store check stands beside the ETag."""
    bucket = s3_server.make_bucket()
    s3_server.put(bucket, "sha", b"bytes", ChecksumAlgorithm="SHA256")
    with open_prefix(s3_server, bucket) as copy:
        closer = copy.look_closer(b"sha")
    assert isinstance(closer, CopyEntry)

    assert Published(Kind.SHA256, hashlib.sha256(b"bytes").digest()) == find(closer, Kind.SHA256)
    assert Published(Kind.MD5, hashlib.md5(b"bytes").digest()) == find(closer, Kind.MD5)


def test_etag_of_an_encrypted_object_is_no_digest(moto: S3Box) -> None:
    """Only asking for the object tells that its key is the owner's; then its ETag is not taken for an MD5."""
    bucket = moto.make_bucket()
    moto.put(bucket, "kms", b"bytes", ServerSideEncryption="aws:kms")
    moto.put(bucket, "plain", b"bytes")
    with open_prefix(moto, bucket) as copy:
        encrypted, plain = copy.look_closer(b"kms"), copy.look_closer(b"plain")
    assert isinstance(encrypted, CopyEntry)
    assert isinstance(plain, CopyEntry)

    assert Kind.MD5 not in {published.kind for published in encrypted.published}
    assert Kind.MD5 in {published.kind for published in plain.published}


def test_md5_that_rclone_notes_is_told(s3_server: S3Box) -> None:
    """What rclone keeps is the MD5 of the whole file, beside an upload in parts."""
    bucket = s3_server.make_bucket()
    noted = base64.b64encode(hashlib.md5(b"bytes").digest()).decode()
    client = s3_server.client
    upload = client.create_multipart_upload(Bucket=bucket, Key="x", Metadata={"md5chksum": noted})["UploadId"]
    tag = client.upload_part(Bucket=bucket, Key="x", UploadId=upload, PartNumber=1, Body=b"bytes")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": tag}]}
    client.complete_multipart_upload(Bucket=bucket, Key="x", UploadId=upload, MultipartUpload=parts)
    with open_prefix(s3_server, bucket) as copy:
        closer = copy.look_closer(b"x")
    assert isinstance(closer, CopyEntry)

    assert Published(Kind.MD5, hashlib.md5(b"bytes").digest()) == find(closer, Kind.MD5)


def test_keys_that_are_no_paths_are_trouble(moto: S3Box) -> None:
    """Nothing of this is left out in silence, and nothing of it is a file."""
    bucket = moto.make_bucket()
    keys = ["a//b", "../up", "a/../../up", "./a", "content/", "good"]
    moto.put_all(bucket, {f"p/{key}": b"bytes" for key in keys})
    moto.put(bucket, "p//etc/passwd", b"bytes")
    with open_prefix(moto, bucket, "p") as copy:
        found = list(copy.list())
        for entry in found:
            if isinstance(entry, Trouble) and find_fault(entry.path):
                with pytest.raises(Unreadable):
                    copy.open(entry.path)

    assert [b"good"] == [entry.path for entry in found if isinstance(entry, CopyEntry)]
    expected = {b"a//b", b"../up", b"a/../../up", b"./a", b"content/", b"/etc/passwd"}
    assert expected == {entry.path for entry in found if isinstance(entry, Trouble)}


def test_empty_objects_that_stand_for_folders_are_left_out(s3_server: S3Box) -> None:
    """Consoles make one for each folder, also for the copy's own."""
    bucket = s3_server.make_bucket()
    for key in ("p/", "p/folder/", "p/folder/deep/"):
        s3_server.put(bucket, key)
    s3_server.put(bucket, "p/folder/file", b"")
    with open_prefix(s3_server, bucket, "p") as copy:
        assert [b"folder/file"] == [entry.path for entry in copy.list()]


def test_key_that_a_listing_can_not_show_is_trouble(versitygw: S3Box) -> None:
    """What lists keys as they are shows those that XML can't hold as others: never taken for a file's name."""
    bucket = versitygw.make_bucket()
    folder = versitygw.objects / bucket
    for name in (b"bad\xff", b"control\x01", b"good"):
        (folder / os.fsdecode(name)).write_bytes(b"bytes")
    with open_prefix(versitygw, bucket) as copy:
        found = list(copy.list())
        assert copy.find_name_fault(b"control\x01") is not None

    assert [b"good"] == [entry.path for entry in found if isinstance(entry, CopyEntry)]
    assert sum(isinstance(entry, Trouble) for entry in found) == 2


def test_reading_on_asks_for_large_pieces(s3_server: S3Box) -> None:
    """A file of 20 MiB that is read by the MiB takes a few questions, not twenty; a jump asks for what it needs."""
    bucket = s3_server.make_bucket()
    data = make_bytes(20 * MIB)
    s3_server.put(bucket, "large", data)
    with open_prefix(s3_server, bucket) as copy:
        file = copy.open(b"large")
        assert data == b"".join(file.read(at * MIB, MIB) for at in range(20))
        asked = len(s3_server.find_reads(bucket))
        assert data[5 * MIB : 5 * MIB + 9] == file.read(5 * MIB, 9)
        file.close()

    assert asked == 4
    assert len(s3_server.find_reads(bucket)) == 5


def test_object_that_is_replaced_while_it_is_read_is_unstable(s3_server: S3Box) -> None:
    """No bytes of two versions are ever mixed."""
    bucket = s3_server.make_bucket()
    s3_server.put(bucket, "x", b"old bytes")
    with open_prefix(s3_server, bucket) as copy:
        file = copy.open(b"x")
        assert file.read(0, 3) == b"old"
        s3_server.put(bucket, "x", b"new bytes")
        with pytest.raises(Unstable, match="replaced"):
            file.read(3, 3)
        s3_server.client.delete_object(Bucket=bucket, Key="x")
        with pytest.raises(Vanished, match="no such object"):
            file.read(3, 3)
        file.close()


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong-and-secret"}, "does not accept the credentials"),
        ({"AWS_ACCESS_KEY_ID": "nobody"}, "does not accept the credentials"),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "no credentials"),
        ({"AWS_PROFILE": "no-such"}, "no such profile"),
    ],
)
def test_wrong_credentials_are_an_error_that_names_none(
    versitygw: S3Box,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    variables: dict[str, str],
    said: str,
) -> None:
    """The copy is unreachable, the message says what to do, and neither it nor the log holds the secret."""
    bucket = versitygw.make_bucket()
    versitygw.put(bucket, "x")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    caplog.set_level("DEBUG")

    with pytest.raises(CopyUnreachable, match=said) as caught, open_prefix(versitygw, bucket):
        pass

    assert ";" in str(caught.value)
    for secret in (SECRET, "wrong-and-secret"):
        assert secret not in str(caught.value) + caplog.text


def test_session_token_is_not_logged(
    moto: S3Box, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also not where everything is logged."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-never-shown")
    caplog.set_level("DEBUG")
    bucket = moto.make_bucket()
    moto.put(bucket, "x", b"bytes")
    caplog.clear()
    with open_prefix(moto, bucket) as copy:
        list(copy.list())
        copy.open(b"x").read(0, 5)

    assert "token-never-shown" not in caplog.text
    assert SECRET not in caplog.text


def test_server_that_goes_away_ends_the_listing_with_an_error() -> None:
    """What was listed stands; the end is never taken for the end of the listing, nor a file for missing."""
    with open_s3("moto") as box, HttpProxy(box.endpoint) as proxy:
        bucket = box.make_bucket()
        box.put_all(bucket, {f"{number}": b"x" for number in range(9)})
        with S3Copy(f"s3://{bucket}/", endpoint=proxy.url, attempts=1) as copy:
            file = copy.open(b"5")
            proxy.tell(Lie("endless pages"))
            listing = copy.list()
            assert isinstance(next(listing), CopyEntry)
            assert 1 == proxy.told
            box.stop()
            with pytest.raises(CopyUnreachable, match="network"):
                list(listing)
            with pytest.raises(CopyUnreachable):
                file.read(0, 1)
            with pytest.raises(CopyUnreachable):
                copy.look_closer(b"5")
        with pytest.raises(CopyUnreachable), open_prefix(box, bucket, attempts=1):
            pass


def test_prefix_without_objects_is_unreachable(s3_server: S3Box) -> None:
    """A prefix that is mistyped does not make every file missing."""
    bucket = s3_server.make_bucket()
    s3_server.put(bucket, "here/x")
    with pytest.raises(CopyUnreachable, match="nothing is stored there"), open_prefix(s3_server, bucket, "her"):
        pass


_ETAG = '"0123456789abcdef0123456789abcdef"'


def _answer_as_a_stranger(request: Request) -> Answer:
    """Answer as a hostile or a broken store would, by the bucket's name."""
    bucket = request.path.split("/")[1].split("?")[0]
    if request.method == "HEAD":
        return Answer(headers=(("ETag", _ETAG),), stated_bytes=10)
    if bucket == "silent":
        return SILENCE
    if "list-type" in request.path:
        return Answer(body=_LISTINGS[bucket])
    if bucket == "replaced":
        return Answer(body=b"abc", headers=(("ETag", '"fedcba9876543210fedcba9876543210"'),))
    return Answer(body=b"ab" if bucket == "short" else b"more bytes than anybody asked for")


def _write_listing(*contents: str, more: str = "<IsTruncated>false</IsTruncated>") -> bytes:
    inner = "".join(f"<Contents>{content}</Contents>" for content in contents)
    start = '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    return f"{start}<EncodingType>url</EncodingType>{more}{inner}</ListBucketResult>".encode()


_FILE = '<Key>{}</Key><Size>{}</Size><ETag>"0123456789abcdef0123456789abcdef{}"</ETag>'
_LISTINGS = {
    "circle": _write_listing(
        _FILE.format("p/x", 1, ""),
        more="<IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>",
    ),
    "replaced": _write_listing(_FILE.format("p/x", 10, "")),
    "short": _write_listing(_FILE.format("p/x", 10, "")),
    "page": b"<html>Welcome to nginx!</html>",
    "no-sense": b"<html>Welcome to nginx!</html",
    "word": _write_listing("<Key>p/x</Key><Size>large</Size>"),
    "laughs": b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "ha">'
    + b"".join(b'<!ENTITY %c "%s">' % (98 + at, b"&%c;" % (97 + at) * 10) for at in range(12))
    + b"]><ListBucketResult><Contents><Key>&m;</Key></Contents></ListBucketResult>",
    "hostile": _write_listing(
        _FILE.format("p/negative", -5, ""),
        _FILE.format("elsewhere/x", 1, ""),
        _FILE.format("p/nul%00", 1, ""),
        _FILE.format("p/bad%FF", 1, ""),
        _FILE.format("p/twice", 1, ""),
        _FILE.format("p/twice", 1, ""),
        _FILE.format("p/parts", 10, "-999999"),
        _FILE.format("p/large", 10**15, "-3"),
        "<Key>p/bare</Key>",
    ),
}


@pytest.fixture(scope="module")
def stranger() -> Iterator[str]:
    """Run a server that is no S3 store; give its address."""
    with HttpServer(_answer_as_a_stranger) as server:
        yield server.url


def test_hostile_listing_is_refused_object_by_object(stranger: str) -> None:
    """Sizes that are none, keys from elsewhere, NULs, numbers of parts that can't be: trouble, or no digest."""
    with S3Copy("s3://hostile/p", endpoint=stranger) as copy:
        found = list(copy.list())

    entries = [entry for entry in found if isinstance(entry, CopyEntry)]
    troubles = {entry.path for entry in found if isinstance(entry, Trouble)}
    assert [b"twice", b"twice", b"parts", b"large"] == [entry.path for entry in entries]
    assert troubles == {b"negative", b"elsewhere/x", b"nul\0", b"bad\xff", b"bare"}
    assert entries[2].published == ()


def test_store_that_sends_other_bytes_than_asked_for_is_not_believed(stranger: str) -> None:
    """A store that does not know ranges would give the wrong part of a file."""
    with S3Copy("s3://hostile/p", endpoint=stranger) as copy:
        file = copy.open(b"x")
        with pytest.raises(Unreadable, match="more than 3 bytes where 3 were asked for"):
            file.read(5, 3)
        file.close()
    with S3Copy("s3://short/p", endpoint=stranger) as copy:
        file = copy.open(b"x")
        with pytest.raises(Unreadable, match="only 2 bytes where 7 were asked for"):
            file.read(3, 7)
        file.close()


def test_store_that_ignores_which_version_is_wanted(stranger: str) -> None:
    """Bytes of another version are noticed by its ETag: gofakes3 and ``rclone serve s3`` ignore If-Match."""
    with S3Copy("s3://replaced/p", endpoint=stranger) as copy:
        file = copy.open(b"x")
        with pytest.raises(Unstable, match="was replaced while it was read"):
            file.read(0, 3)
        file.close()


@pytest.mark.parametrize(
    ("bucket", "said"),
    [
        ("circle", "over and over"),
        ("page", "nothing is stored there"),
        ("no-sense", "500"),
        ("word", "does not speak S3"),
        ("laughs", "500"),
        ("silent", "network"),
    ],
)
def test_server_that_is_no_store_is_unreachable(stranger: str, bucket: str, said: str) -> None:
    """It lists in a circle, answers with a page, or not at all: an error, in time, and nothing is missing."""
    with (
        pytest.raises(CopyUnreachable, match=said),
        S3Copy(f"s3://{bucket}/p", endpoint=stranger, timeout_s=3, attempts=1) as copy,
    ):
        list(copy.list())


@pytest.mark.long
@pytest.mark.parametrize("lie", ["endless pages", "endless empty pages", "one page for ever"])
def test_listing_without_an_end_is_refused(moto: S3Box, lie: str) -> None:
    """Each page names another one, which lists the same or nothing: an error instead of a run that never ends."""
    bucket = moto.make_bucket()
    moto.put_all(bucket, {f"p/{number}": b"x" for number in range(5)})
    with HttpProxy(moto.endpoint) as proxy, S3Copy(f"s3://{bucket}/p", endpoint=proxy.url) as copy:
        proxy.tell(Lie(lie, lasts=True))
        listing = islice(copy.list(), 100_000)
        with pytest.raises(CopyUnreachable, match="over and over"):
            list(listing)
        assert proxy.asked["LIST"] < 500


def test_copy_is_found_by_its_url(moto: S3Box) -> None:
    """The endpoint stands in the URL, or beside it."""
    bucket = moto.make_bucket()
    moto.put(bucket, "p/a?b", b"bytes")
    for copy in (
        open_copy(f"s3://{bucket}/p?endpoint={moto.endpoint}&region=eu-central-1"),
        open_copy(f"s3://{bucket}/p", endpoint=moto.endpoint),
    ):
        with copy:
            assert copy.shown == f"s3://{bucket}/p at {moto.endpoint}"
            assert [b"a?b"] == [entry.path for entry in copy.list()]
            assert copy.open(b"a?b").read(0, 9) == b"bytes"


@pytest.mark.parametrize(
    ("url", "endpoint", "said"),
    [
        ("s3://", None, "names no bucket"),
        ("s3:bucket", None, "names no bucket"),
        ("s3://key:secret@bucket/p", None, "before an @"),
        ("s3://bucket/p?endpint=http://x", None, "option"),
        ("s3://bucket/p?", "ftp://x", "is not an address"),
        ("s3://bucket/p", "http://", "is not an address"),
        ("s3://bucket/p?endpoint=https://key:secret@host", None, "before an @"),
        ("s3://bucket/p%FF", None, "UTF-8"),
    ],
)
def test_url_that_can_not_be_used_is_refused_without_being_shown(url: str, endpoint: str | None, said: str) -> None:
    """Credentials in a URL are refused, and the message does not repeat them."""
    with pytest.raises(ConfigError, match=said) as caught:
        S3Copy(url, endpoint=endpoint)

    assert "secret" not in str(caught.value)
