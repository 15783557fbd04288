"""``integrity sum``: options, which of its four modes they mean, and what can't be asked at the same time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.output import OutputError, abandon_stdout
from integrity.cli.params import ALGORITHM, PATH, SIZE, examples
from integrity.cli.session import Session

ONE_ALGORITHM = "lines of md5sum have one algorithm each: for several take --tag or --hashdeep"


@dataclass(frozen=True, slots=True)
class SumOptions:
    """
    The options, as they were given.

    Attributes:
        chosen: names of algorithms; empty for the default.
        style: "gnu", "bsd", "hashdeep", or None for the default.
        mark: of the mode, in GNU lines; None for the default.
        told: "quiet", "status", "warn", or None.
        matches: manifests of ``--match``; at most one of the three is given.
    """

    names: tuple[bytes, ...]
    chosen: tuple[str, ...]
    is_recursive: bool
    style: str | None
    is_zero: bool
    mark: str | None
    piece_bytes: int | None
    is_check: bool
    told: str | None
    is_strict: bool
    ignores_missing: bool
    matches: tuple[bytes, ...]
    excludes: tuple[bytes, ...]
    audits: tuple[bytes, ...]
    jobs: int | None

    @property
    def known(self) -> tuple[bytes, ...]:
        return self.matches or self.excludes or self.audits

    def validate(self) -> None:
        """
        Refuse options that contradict each other.

        Raises:
            click.UsageError: says which.
        """
        if sum((self.is_check, bool(self.matches), bool(self.excludes), bool(self.audits))) > 1:
            raise click.UsageError("--check, --match, --not-match and --audit exclude each other")
        self._refuse_without_check()
        if self.is_check or self.known:
            self._refuse_while_comparing()
        elif len(set(self.chosen)) > 1 and (self.style == "gnu" or self.mark is not None):
            raise click.UsageError(ONE_ALGORITHM)
        if self.style == "hashdeep" and self.is_zero:
            raise click.UsageError("--zero has no meaning in a file of hashdeep")
        if self.style in ("bsd", "hashdeep") and self.mark is not None:
            raise click.UsageError("--binary and --text have a meaning only in lines of md5sum")

    def _refuse_without_check(self) -> None:
        given = [(f"--{self.told}", self.told is not None), ("--strict", self.is_strict)]
        given.append(("--ignore-missing", self.ignores_missing))
        for option, is_given in given:
            if is_given and not self.is_check:
                raise click.UsageError(f"the {option} option is meaningful only when verifying checksums")

    def _refuse_while_comparing(self) -> None:
        given = [
            ("--tag, --untagged and --hashdeep", self.style is not None and not (self.matches or self.excludes)),
            ("--binary and --text", self.mark is not None),
            ("--piecewise", self.piece_bytes is not None),
            ("--recursive", self.is_check and self.is_recursive),
        ]
        for option, is_given in given:
            if is_given:
                raise click.UsageError(f"{option}: meaningless when files are held against digests")


@click.command(
    name="sum",
    epilog=examples(
        ("integrity sum -r /srv/photos > photos.md5", "checksums of all files, as md5sum writes them"),
        ("integrity sum -c photos.md5", "check them"),
        ("integrity sum --blake3 a.iso", "another algorithm"),
    ),
)
@click.argument("names", nargs=-1, type=PATH, metavar="[FILE|DIR]...")
@click.option("--md5", "chosen", flag_value="md5", multiple=True, help="MD5; the default.")
@click.option("--xxh3", "chosen", flag_value="xxh3", multiple=True, help="XXH3 with 64 bits.")
@click.option("--xxh64", "chosen", flag_value="xxh64", multiple=True, help="XXH64.")
@click.option("--xxh128", "chosen", flag_value="xxh128", multiple=True, help="XXH3 with 128 bits.")
@click.option("--blake3", "chosen", flag_value="blake3", multiple=True, help="BLAKE3.")
@click.option("--sha1", "chosen", flag_value="sha1", multiple=True, help="SHA-1.")
@click.option("--sha256", "chosen", flag_value="sha256", multiple=True, help="SHA-256.")
@click.option("--sha512", "chosen", flag_value="sha512", multiple=True, help="SHA-512.")
@click.option("--algorithm", "words", type=ALGORITHM, multiple=True, metavar="NAME", help="Others, such as sha3-256.")
@click.option("-r", "--recursive", "is_recursive", is_flag=True, help="Digest all files below each DIR, sorted.")
@click.option("--tag", "style", flag_value="bsd", help="Write BSD lines: the default for several algorithms, and XXH3.")
@click.option("--untagged", "style", flag_value="gnu", help="Write the lines of md5sum: the default for all others.")
@click.option(
    "--hashdeep", "style", flag_value="hashdeep", help="Write a file of hashdeep, by default of MD5 and SHA-256."
)
@click.option("-z", "--zero", "is_zero", is_flag=True, help="End lines with NUL, and escape no names.")
@click.option("-b", "--binary", "mark", flag_value="*", help="Mark names by '*'; reading is always binary.")
@click.option("-t", "--text", "mark", flag_value=" ", help="Mark names by a space: the default.")
@click.option("--piecewise", "piece_bytes", type=SIZE, metavar="SIZE", help="Digest each file in pieces of this size.")
@click.option("-c", "--check", "is_check", is_flag=True, help="Read digests of any form from FILEs, and check them.")
@click.option("--quiet", "told", flag_value="quiet", help="With -c: don't print OK.")
@click.option("--status", "told", flag_value="status", help="With -c: print nothing, the exit code tells.")
@click.option("-w", "--warn", "told", flag_value="warn", help="With -c: tell each line that can't be read.")
@click.option("--strict", "is_strict", is_flag=True, help="With -c: fail for lines that can't be read.")
@click.option(
    "--ignore-missing", "ignores_missing", is_flag=True, help="With -c: don't fail for files that are not there."
)
@click.option(
    "--match", "matches", type=PATH, multiple=True, metavar="FILE",
    help="Name the files whose content FILE lists; with --tag, --untagged or --hashdeep also their digests.",
)  # fmt: skip
@click.option(
    "--not-match", "excludes", type=PATH, multiple=True, metavar="FILE",
    help="Name the files whose content it does not.",
)  # fmt: skip
@click.option(
    "--audit", "audits", type=PATH, multiple=True, metavar="FILE",
    help="Tell which files match FILE, were moved, are new or missing.",
)  # fmt: skip
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Use N threads.")
@click.pass_obj
def sum_command(session: Session, /, names: tuple[bytes, ...], words: tuple[str, ...], **given: Any) -> int:
    """
    Compute or check digests of files without a catalog.

    Does what md5sum, md5deep, hashdeep, xxhsum, and b3sum do, and reads and writes their files. Without a name, or
    with -, standard input is read. Block devices may be named. Exits with 1 if anything could not be read or does
    not match, as md5sum does.
    """
    given["chosen"] += words
    options = SumOptions(names or ((b".",) if given["is_recursive"] else (b"-",)), **given)
    options.validate()
    from integrity.cli.sum_run import SumRun

    try:
        with SumRun(session.output, options) as run:
            return run.run()
    except OutputError as error:
        abandon_stdout()
        session.output.complain("sum", f"write error: {error.reason}")
        return ExitCode.PROBLEM
