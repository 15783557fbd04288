"""``integrity sum``: options, and which of its four modes they mean."""

from __future__ import annotations

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.help import examples
from integrity.cli.output import OutputError, abandon_stdout
from integrity.cli.params import ALGORITHM, PATH, SIZE
from integrity.cli.session import Session
from integrity.cli.sum_options import SumOptions


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
@click.option("-r", "--recursive", is_flag=True, help="Digest all files below each DIR, sorted.")
@click.option("--tag", "style", flag_value="bsd", help="Write BSD lines: the default for several algorithms, and XXH3.")
@click.option("--untagged", "style", flag_value="gnu", help="Write the lines of md5sum: the default for all others.")
@click.option(
    "--hashdeep", "style", flag_value="hashdeep", help="Write a file of hashdeep, by default of MD5 and SHA-256."
)
@click.option("-z", "--zero", is_flag=True, help="End lines with NUL, and escape no names.")
@click.option("-b", "--binary", "mark", flag_value="*", help="Mark names by '*'; reading is always binary.")
@click.option("-t", "--text", "mark", flag_value=" ", help="Mark names by a space: the default.")
@click.option("--piecewise", type=SIZE, metavar="SIZE", help="Digest each file in pieces of this size.")
@click.option("-c", "--check", is_flag=True, help="Read digests of any form from FILEs, and check them.")
@click.option("--quiet", "told", flag_value="quiet", help="With -c: don't print OK.")
@click.option("--status", "told", flag_value="status", help="With -c: print nothing, the exit code tells.")
@click.option("-w", "--warn", "told", flag_value="warn", help="With -c: tell each line that can't be read.")
@click.option("--strict", is_flag=True, help="With -c: fail for lines that can't be read.")
@click.option("--ignore-missing", is_flag=True, help="With -c: don't fail for files that are not there.")
@click.option(
    "--match",
    "matches",
    type=PATH,
    multiple=True,
    metavar="FILE",
    help="Name the files whose content FILE lists; with --tag, --untagged or --hashdeep also their digests.",
)
@click.option(
    "--not-match",
    "excludes",
    type=PATH,
    multiple=True,
    metavar="FILE",
    help="Name the files whose content it does not.",
)
@click.option(
    "--audit",
    "audits",
    type=PATH,
    multiple=True,
    metavar="FILE",
    help="Tell which files match FILE, were moved, are new or missing.",
)
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Use N threads.")
@click.pass_obj
def sum_command(
    session: Session,
    names: tuple[bytes, ...],
    chosen: tuple[str, ...],
    words: tuple[str, ...],
    recursive: bool,
    style: str | None,
    zero: bool,
    mark: str | None,
    piecewise: int | None,
    check: bool,
    told: str | None,
    strict: bool,
    ignore_missing: bool,
    matches: tuple[bytes, ...],
    excludes: tuple[bytes, ...],
    audits: tuple[bytes, ...],
    jobs: int | None,
) -> int:
    """
    Compute or check digests of files without a catalog.

    Does what md5sum, md5deep, hashdeep, xxhsum, and b3sum do, and reads and writes their files. Without a name, or
    with -, standard input is read. Block devices may be named. Exits with 1 if anything could not be read or does
    not match, as md5sum does.
    """
    options = SumOptions(
        names=names or ((b".",) if recursive else (b"-",)),
        chosen=chosen + words,
        is_recursive=recursive,
        style=style,
        is_zero=zero,
        mark=mark,
        piece_bytes=piecewise,
        is_check=check,
        told=told,
        is_strict=strict,
        ignores_missing=ignore_missing,
        matches=matches,
        excludes=excludes,
        audits=audits,
        jobs=jobs,
    )
    options.validate()
    from integrity.cli.sum_run import SumRun

    try:
        with SumRun(session.output, options) as run:
            return run.run()
    except OutputError as error:
        abandon_stdout()
        session.output.complain("sum", f"write error: {error.reason}")
        return ExitCode.PROBLEM
