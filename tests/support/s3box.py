"""
Real S3 servers on this machine: versitygw and gofakes3 where they are installed, moto from PyPI everywhere.

versitygw keeps objects as plain files, so that tests can plant many and flip bits in them; the others have them in
memory. gofakes3 is what ``rclone serve s3`` is made of: it knows no checksums but ETags, and checks no signatures.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from support.servers import free_port
from support.waiting import wait_until

ACCESS, SECRET = "test-access", "test-secret-never-shown"
CLIENT_ENV = {
    "AWS_ACCESS_KEY_ID": ACCESS,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""Lets the AWS chain find the servers' credentials and nothing of this machine's."""

_numbers = itertools.count()


class S3Box:
    """One running server."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self._log = folder / "output"
        self.objects = folder / "objects"
        self.objects.mkdir()
        self.port = port = free_port()
        self.endpoint = f"http://127.0.0.1:{port}"
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                self._make_command(port), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        wait_until(self._answers, f"{kind} answers")
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=ACCESS,
            aws_secret_access_key=SECRET,
            config=Config(
                s3={"addressing_style": "path"}, max_pool_connections=8, request_checksum_calculation="when_required"
            ),
        )

    def _make_command(self, port: int) -> list[str]:
        if self.kind == "moto":
            return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        program = shutil.which(self.kind)
        assert program is not None
        if self.kind == "gofakes3":
            return [program, "-host", f"127.0.0.1:{port}", "-backend", "memory"]
        options = ["--port", f"127.0.0.1:{port}", "--access", ACCESS, "--secret", SECRET]
        return [program, *options, "posix", str(self.objects)]

    def _answers(self) -> bool:
        assert self._process.poll() is None, self._log.read_text(errors="replace")
        try:
            urllib.request.urlopen(self.endpoint, timeout=5).close()
        except urllib.error.HTTPError as error:
            error.close()
            return True
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """End the server, as a crash would."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self.client.close()

    def make_bucket(self) -> str:
        """Make one that nobody else uses."""
        bucket = f"bucket-{os.getpid()}-{next(_numbers)}"
        self.client.create_bucket(Bucket=bucket)
        return bucket

    def put(self, bucket: str, key: str, data: bytes = b"", **options: str | Mapping[str, str]) -> None:
        """Upload one object in one piece."""
        self.client.put_object(Bucket=bucket, Key=key, Body=data, **options)

    def put_all(self, bucket: str, objects: Mapping[str, bytes]) -> None:
        """Upload many."""
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda item: self.put(bucket, *item), objects.items()))

    def put_parts(self, bucket: str, key: str, parts: list[bytes], **options: str) -> None:
        """Upload one object in parts of these sizes."""
        client = self.client
        upload = client.create_multipart_upload(Bucket=bucket, Key=key, **options)["UploadId"]
        done = []
        for number, data in enumerate(parts, 1):
            answer = client.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=data)
            checksums = {name: value for name, value in answer.items() if name.startswith("Checksum")}
            checksums.pop("ChecksumType", None)
            done.append({"PartNumber": number, "ETag": answer["ETag"], **checksums})
        extra = {name: value for name, value in options.items() if name == "ChecksumType"}
        client.complete_multipart_upload(
            Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": done}, **extra
        )

    def find_questions(self, bucket: str) -> list[tuple[str, str]]:
        """List what the server's log says was asked of a bucket: method and key, which is empty for a listing."""
        log = self._log.read_text(errors="replace")
        asked = re.findall(rf"([A-Z]+)[ |]+/{re.escape(bucket)}(?:/([^ ?]*))?[ ?]", log)
        return [(str(method), str(key)) for method, key in asked]

    def find_reads(self, bucket: str) -> list[str]:
        """List the keys of which the server's log says that bytes were asked for."""
        return [key for method, key in self.find_questions(bucket) if method == "GET" and key]


_MODULES = {
    "versitygw": "github.com/versity/versitygw/cmd/versitygw@v1.8.0",
    "gofakes3": "github.com/johannesboyne/gofakes3/cmd/gofakes3@latest",
}
"""Servers that Go builds. Not asked for in CI: versitygw takes two minutes."""


@contextmanager
def open_s3(kind: str) -> Iterator[S3Box]:
    """Run a server of this kind; skip where there is none."""
    if kind in _MODULES and shutil.which(kind) is None:
        pytest.skip(f"missing here: {kind} (GOBIN=/usr/local/bin go install {_MODULES[kind]})")
    with tempfile.TemporaryDirectory(prefix="s3box-") as folder:
        box = S3Box(kind, Path(folder))
        try:
            yield box
        finally:
            box.stop()
