"""
Requests to an S3 store: parse ``s3://`` URLs, send the three requests that a copy needs, explain failures.

This is the only user of boto3: answers are typed here, and everything else in them is dropped. Credentials come from
where AWS programs look for them. No message contains them: of botocore's errors only the code and the store's own words
are shown.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import datetime
from typing import Final, NamedTuple, NoReturn, Protocol, TypeVar, cast
from urllib.parse import parse_qsl, unquote_to_bytes

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
)
from botocore.parsers import ResponseParserError

from integrity.config.copy_urls import Scheme
from integrity.copies.s3.checksums import StatedChecksums, unquote_etag
from integrity.errors import ConfigError, CopyUnreachable, Unreadable, Unstable, Vanished, show_path
from integrity.threads import BackgroundCall

_T = TypeVar("_T")

_FORM = "write s3://BUCKET/PREFIX, with ?endpoint=https://HOST behind it for a store that is not Amazon's"
_OPTIONS = frozenset({"endpoint", "region", "profile"})


class S3Address(NamedTuple):
    """
    The address of a copy in S3.

    Attributes:
        bucket: its name.
        prefix: the beginning of all keys of the copy, in UTF-8: empty, or the path of a folder with a slash at its end.
        endpoint: the address of a server other than Amazon's; None takes it from the AWS configuration.
        region: None takes it from the AWS configuration.
        profile: of the AWS configuration; None takes the default one.
    """

    bucket: str
    prefix: bytes
    endpoint: str | None
    region: str | None
    profile: str | None

    @property
    def shown(self) -> str:
        """Return the URL for people; it contains no secret."""
        where = f" at {self.endpoint}" if self.endpoint else ""
        return f"{Scheme.S3.prefix}{self.bucket}/{show_path(self.prefix)}".rstrip("/") + where


def parse_address(url: str, endpoint: str | None = None) -> S3Address:
    """
    Parse ``s3://BUCKET[/PREFIX][?endpoint=URL&region=NAME&profile=NAME]``; ``endpoint`` replaces that of the URL.

    Bytes that a URL can't contain are written ``%XX``; so is a ``?`` of the prefix.

    Raises:
        ConfigError: the URL is malformed or contains credentials. The message does not quote it.
    """
    rest, _, query = url.removeprefix(Scheme.S3.prefix).partition("?")
    bucket, _, folder = rest.partition("/")
    if "@" in bucket:
        raise ConfigError(
            "the s3:// URL of the copy has something before an @, where it can be read by others: take it out,"
            " and put credentials where AWS programs look for them (~/.aws/credentials, AWS_ACCESS_KEY_ID)"
        )
    if not url.startswith(Scheme.S3.prefix) or not bucket:
        raise ConfigError(f"the s3:// URL of the copy names no bucket; {_FORM}")
    options = _parse_options(query)
    endpoint = endpoint or options.get("endpoint")
    _check_endpoint(endpoint)
    return S3Address(bucket, _parse_prefix(folder), endpoint, options.get("region"), options.get("profile"))


def _parse_options(query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = set(options) - _OPTIONS
    if unknown or (query and not options):
        raise ConfigError(
            f"the s3:// URL of the copy has an option behind its ? that is none of {', '.join(sorted(_OPTIONS))};"
            " write a ? that belongs to the prefix as %3F"
        )
    return options


def _check_endpoint(endpoint: str | None) -> None:
    if endpoint is None:
        return
    host = endpoint.partition("://")[2].partition("/")[0]
    if not endpoint.startswith(("http://", "https://")) or not host:
        raise ConfigError(
            "the endpoint of the s3:// copy is not an address; write it as https://HOST or http://HOST:PORT"
        )
    if "@" in host:
        raise ConfigError("the endpoint of the s3:// copy has something before an @: take the credentials out of it")


def _parse_prefix(folder: str) -> bytes:
    prefix = unquote_to_bytes(folder.encode("utf-8", "surrogateescape")).strip(b"/")
    try:
        prefix.decode()
    except UnicodeDecodeError as error:
        raise ConfigError("the prefix of the s3:// copy is not UTF-8, as all keys of S3 are; correct it") from error
    return prefix + b"/" if prefix else b""


TIMEOUT_S: Final = 30.0
ATTEMPTS: Final = 4
PAGE_KEYS: Final = 1000  # the most that S3 returns in one answer

# botocore raises ValueError for malformed numbers and times.
_FAILURES = (BotoCoreError, ClientError, ResponseParserError, ValueError)
_DENIED = frozenset({"403", "AccessDenied", "AllAccessDisabled", "AccountProblem"})
_BAD_CREDENTIALS = frozenset(
    {
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "ExpiredToken",
        "InvalidToken",
        "TokenRefreshRequired",
        "XAdminUserNotFound",  # versitygw
    }
)
_GONE = frozenset({"404", "NoSuchKey"})
_ADVICE_CREDENTIALS = (
    "put valid credentials where AWS programs look for them (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY,"
    " ~/.aws/credentials, ?profile=NAME behind the URL)"
)


class Listed(NamedTuple):
    """One object of a listing; the key as bytes, whatever they are."""

    key: bytes
    size_bytes: int
    etag: str
    mtime_ns: int | None


class Page(NamedTuple):
    """A page of a listing; ``token`` requests the next one, None: it was the last."""

    objects: list[Listed]
    token: str | None


class _Body(Protocol):
    def read(self, amt: int) -> bytes: ...
    def close(self) -> None: ...


_Answer = Mapping[str, object]


class _Client(Protocol):
    """The part of boto3's client that is used; boto3 has no types."""

    def list_objects_v2(self, **options: str | int) -> _Answer: ...
    def head_object(self, **options: str | int) -> _Answer: ...
    def get_object(self, **options: str | int) -> _Answer: ...
    def close(self) -> None: ...


class Store:
    """
    A bucket; the first request connects.

    Args:
        timeout_s: how long the store may be silent.
        attempts: how often a request is sent if the store is overloaded or a connection breaks.
        must_stop: ends all waiting when it returns true; every request then raises ReadInterrupted.

    Attributes:
        encodes_keys: listings can contain all keys. Some stores ignore the request to encode them, and replace what XML
            can't contain.
    """

    def __init__(
        self,
        address: S3Address,
        *,
        timeout_s: float = TIMEOUT_S,
        attempts: int = ATTEMPTS,
        must_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._address = address
        self._shown = address.shown
        self.encodes_keys = True
        # At DEBUG botocore logs headers with session tokens; at INFO where it found credentials.
        logging.getLogger("botocore").setLevel(logging.WARNING)
        # At WARNING it logs a traceback for each answer that ends in its headers; the failure itself is raised.
        logging.getLogger("urllib3").setLevel(logging.ERROR)
        try:
            self._client = _make_client(address, timeout_s, attempts)
        except ProfileNotFound as error:
            raise CopyUnreachable(f"{self._shown}: the AWS configuration has no such profile; correct it") from error
        except (BotoCoreError, ValueError) as error:
            raise CopyUnreachable(f"{self._shown}: {_say(error)}; correct the URL or the AWS configuration") from error
        self._must_stop = must_stop

    def close(self) -> None:
        """Close all connections; may be called twice."""
        self._client.close()

    def _ask(self, question: Callable[[], _T]) -> _T:
        """Call botocore, which can't be interrupted, in a thread; one request at a time."""
        return BackgroundCall("s3", question).result(self._must_stop)

    def list_page(self, prefix: bytes, token: str | None = None, *, most: int = PAGE_KEYS) -> Page:
        """
        List up to ``most`` objects whose keys begin with a prefix in UTF-8, ordered by key.

        Raises:
            CopyUnreachable: the request failed.
        """
        options: dict[str, str | int] = {
            "Bucket": self._address.bucket,
            "Prefix": prefix.decode(),
            "MaxKeys": most,
            # Set explicitly: botocore would decode the keys to text and replace what is not UTF-8.
            "EncodingType": "url",
        }
        if token is not None:
            options["ContinuationToken"] = token
        try:
            answer = self._ask(lambda: self._client.list_objects_v2(**options))
        except _FAILURES as error:
            self._refuse_all(error)
        self.encodes_keys = answer.get("EncodingType") == "url"
        listed = [
            _make_listed(each, is_encoded=self.encodes_keys)
            for each in cast("list[_Answer]", answer.get("Contents") or [])
        ]
        following = answer.get("NextContinuationToken") if answer.get("IsTruncated") else None
        return Page(listed, None if following is None else str(following))

    def head(self, key: bytes, *, part: int | None = None) -> StatedChecksums:
        """
        Request the headers of one object, or of one part of it.

        Raises:
            ReadError: Vanished, Unreadable.
            CopyUnreachable: the store failed, not only the object.
        """
        options: dict[str, str | int] = {"Bucket": self._address.bucket, "Key": key.decode(), "ChecksumMode": "ENABLED"}
        if part is not None:
            options["PartNumber"] = part
        try:
            answer = self._ask(lambda: self._client.head_object(**options))
        except _FAILURES as error:
            self._refuse_one(key, error)
        return _make_stated(answer)

    def get(self, key: bytes, etag: str, offset: int, length: int) -> bytes:
        """
        Read bytes of the version that has this ETag.

        Raises:
            ReadError: Vanished, Unreadable; Unstable if the object has another version now.
            CopyUnreachable: the store failed, not only the object.
        """
        options: dict[str, str | int] = {
            "Bucket": self._address.bucket,
            "Key": key.decode(),
            "Range": f"bytes={offset}-{offset + length - 1}",
        }
        if etag and not etag.startswith("W/"):
            options["IfMatch"] = etag  # no server matches a weak one (RFC 9110 section 13.1.1)
        try:
            # Reading one byte more detects a store that ignores ranges.
            data, found = self._ask(lambda: self._read(options, length + 1))
        except _FAILURES as error:
            self._refuse_one(key, error)
        if found is not None and unquote_etag(found) != unquote_etag(etag):  # not every store knows IfMatch
            raise self._make_replaced(key)
        if len(data) != length:
            given = f"only {len(data):,}" if len(data) < length else f"more than {length:,}"
            raise Unreadable(
                f"{self._show(key)}: the store gives {given} bytes where {length:,} were asked for;"
                " its listing and its content contradict each other",
                errno=errno.EIO,
            )
        return data

    def _read(self, options: Mapping[str, str | int], length: int) -> tuple[bytes, str | None]:
        """Return bytes, and the ETag of the version that they are from."""
        answer = self._client.get_object(**options)
        with closing(cast("_Body", answer["Body"])) as body:
            return body.read(length), cast("str | None", answer.get("ETag"))

    def _make_replaced(self, key: bytes) -> Unstable:
        return Unstable(f"{self._show(key)}: it was replaced while it was read; compare it again")

    def _show(self, key: bytes) -> str:
        return f"{self._shown}: {show_path(key)}"

    def _refuse_one(self, key: bytes, error: Exception) -> NoReturn:
        """Raise the error of one object; if the store failed, that of the whole copy."""
        code = _find_code(error)
        if code in _GONE:
            raise Vanished(f"{self._show(key)}: there is no such object (any more)") from error
        if code in ("412", "PreconditionFailed"):
            raise self._make_replaced(key) from error
        if code in ("416", "InvalidRange"):
            raise Unstable(f"{self._show(key)}: it is shorter than a moment ago; compare it again") from error
        if code == "InvalidObjectState":
            raise Unreadable(
                f"{self._show(key)}: it is in an archive class; restore it first", errno=errno.EAGAIN
            ) from error
        if code in _DENIED:
            raise Unreadable(
                f"{self._show(key)}: the store refuses to show it; these credentials need s3:GetObject for it,"
                " and kms:Decrypt if its key is one of KMS",
                errno=errno.EACCES,
            ) from error
        if code in ("400", "BadRequest", "InvalidRequest"):
            raise Unreadable(
                f"{self._show(key)}: the store can't show it: {_say(error)}; an object that was encrypted with a key"
                " of the uploader's (SSE-C) can't be read here",
                errno=errno.EINVAL,
            ) from error
        self._refuse_all(error)

    def _refuse_all(self, error: Exception) -> NoReturn:
        """Raise why the copy as a whole can't be reached."""
        code = _find_code(error)
        if isinstance(error, NoCredentialsError | PartialCredentialsError | CredentialRetrievalError):
            message = f"there are no credentials for it; {_ADVICE_CREDENTIALS}"
        elif code in _BAD_CREDENTIALS:
            message = f"the store does not accept the credentials ({code}); {_ADVICE_CREDENTIALS}"
        elif code == "RequestTimeTooSkewed":
            message = "the store's clock and this machine's differ by too much; set the clock"
        elif code in _DENIED:
            message = "the store refuses; these credentials need s3:ListBucket for the bucket and s3:GetObject"
        elif code in ("NoSuchBucket", "404"):
            message = "there is no such bucket; correct the URL, or its endpoint"
        else:
            message = f"{_say(error)}; look after the store and the network, then compare again"
        raise CopyUnreachable(f"{self._shown}: {message}") from error


def _make_client(address: S3Address, timeout_s: float, attempts: int) -> _Client:
    session = boto3.session.Session(profile_name=address.profile)
    config = Config(
        connect_timeout=timeout_s,
        read_timeout=timeout_s,
        retries={"mode": "standard", "total_max_attempts": attempts},
        # Few stores except Amazon's have a DNS name for each bucket.
        s3={"addressing_style": "path" if address.endpoint else "auto"},
        response_checksum_validation="when_required",
    )
    region = address.region or session.region_name or "us-east-1"
    client = session.client("s3", endpoint_url=address.endpoint, region_name=region, config=config)
    return cast("_Client", client)


def _find_code(error: Exception) -> str:
    if not isinstance(error, ClientError):
        return ""
    return str(cast("Mapping[str, Mapping[str, object]]", error.response).get("Error", {}).get("Code", ""))


def _say(error: Exception) -> str:
    """Write an error in one line."""
    if isinstance(error, ClientError):
        words = cast("Mapping[str, Mapping[str, object]]", error.response).get("Error", {})
        return show_path(f"{words.get('Code')}: {words.get('Message')}".encode("utf-8", "surrogateescape"))[:300]
    if not isinstance(error, BotoCoreError):
        return "what answers there does not speak S3"
    return show_path(str(error).encode("utf-8", "surrogateescape"))[:300]


def _make_listed(answer: _Answer, *, is_encoded: bool) -> Listed:
    text = str(answer.get("Key", ""))
    key = unquote_to_bytes(text.replace("+", " ")) if is_encoded else text.encode("utf-8", "surrogateescape")
    size = answer.get("Size")
    size_bytes = size if isinstance(size, int) else -1
    return Listed(key, size_bytes, str(answer.get("ETag", "")), _read_time(answer.get("LastModified")))


def _read_time(value: object) -> int | None:
    if not isinstance(value, datetime):
        return None
    return int(value.timestamp()) * 1_000_000_000 + value.microsecond * 1000


def _make_stated(answer: _Answer) -> StatedChecksums:
    size, parts = answer.get("ContentLength"), answer.get("PartsCount")
    checksums = {
        name.removeprefix("Checksum"): str(value)
        for name, value in answer.items()
        if name.startswith("Checksum") and name != "ChecksumType"
    }
    notes = cast("Mapping[str, str]", answer.get("Metadata") or {})
    encryption = str(answer.get("ServerSideEncryption", ""))
    return StatedChecksums(
        size_bytes=size if isinstance(size, int) else -1,
        etag=str(answer.get("ETag", "")),
        has_own_keys=encryption in ("aws:kms", "aws:kms:dsse") or "SSECustomerAlgorithm" in answer,
        checksums=checksums,
        is_composite=answer.get("ChecksumType") == "COMPOSITE",
        uploader_md5=notes.get("md5chksum", ""),
        parts=parts if isinstance(parts, int) else 0,
        encryption=encryption,
        mtime_ns=_read_time(answer.get("LastModified")),
    )
