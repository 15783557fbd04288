"""Take an ``s3://`` URL apart."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, unquote_to_bytes

from integrity.errors import ConfigError, show_path

_FORM = "write s3://BUCKET/PREFIX, with ?endpoint=https://HOST behind it for a store that is not Amazon's"
_OPTIONS = frozenset({"endpoint", "region", "profile"})


class Address(NamedTuple):
    """
    Where a copy is that S3 reaches.

    Attributes:
        bucket: its name.
        prefix: what all keys of the copy begin with, in UTF-8: empty, or a folder's path with a slash at its end.
        endpoint: the address of a server that is not Amazon's; None leaves it to the AWS configuration.
        region: None leaves it to the AWS configuration.
        profile: of the AWS configuration; None takes the usual one.
    """

    bucket: str
    prefix: bytes
    endpoint: str | None
    region: str | None
    profile: str | None

    @property
    def shown(self) -> str:
        """Write the URL for people; there is nothing secret in it."""
        where = f" at {self.endpoint}" if self.endpoint else ""
        return f"s3://{self.bucket}/{show_path(self.prefix)}".rstrip("/") + where


def parse_address(url: str, endpoint: str | None = None) -> Address:
    """
    Take ``s3://BUCKET[/PREFIX][?endpoint=URL&region=NAME&profile=NAME]`` apart.

    Bytes that a URL cannot hold are written ``%XX``; so is a ``?`` of the prefix.

    Args:
        url: as above.
        endpoint: in the place of the URL's.

    Raises:
        ConfigError: it is no such URL, or there are credentials in it. The message holds nothing of the URL then.
    """
    rest, _, query = url.removeprefix("s3://").partition("?")
    bucket, _, folder = rest.partition("/")
    if "@" in bucket:
        raise ConfigError(
            "the s3:// URL of the copy has something before an @, where it can be read by others: take it out,"
            " and put credentials where AWS programs look for them (~/.aws/credentials, AWS_ACCESS_KEY_ID)"
        )
    if not url.startswith("s3://") or not bucket:
        raise ConfigError(f"the s3:// URL of the copy names no bucket; {_FORM}")
    options = _parse_options(query)
    endpoint = endpoint or options.get("endpoint")
    _check_endpoint(endpoint)
    return Address(bucket, _parse_prefix(folder), endpoint, options.get("region"), options.get("profile"))


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
        raise ConfigError("the endpoint of the s3:// copy is no address; write it as https://HOST or http://HOST:PORT")
    if "@" in host:
        raise ConfigError("the endpoint of the s3:// copy has something before an @: take the credentials out of it")


def _parse_prefix(folder: str) -> bytes:
    prefix = unquote_to_bytes(folder.encode("utf-8", "surrogateescape")).strip(b"/")
    try:
        prefix.decode()
    except UnicodeDecodeError as error:
        raise ConfigError("the prefix of the s3:// copy is not UTF-8, as all keys of S3 are; correct it") from error
    return prefix + b"/" if prefix else b""
