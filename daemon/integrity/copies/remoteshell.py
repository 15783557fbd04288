"""
The shell commands that list and digest on the other side; ``remoteanswers`` reads what they print. Knows no connection.

Each command is one ``sh -c`` with words that hold no quote, so that any login shell passes it on; folders stand in it
in octal, and the paths of files go through its standard input. Whatever a login script prints before, each answer
begins behind ``BEGIN`` and is whole only if ``END`` closes it: a connection that was cut and a program that was killed
would look like a listing of few files otherwise.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from integrity.copies.protocol import Kind

BEGIN: Final = b"integrity:begin"
END: Final = b"integrity:end"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-")


class Tool(NamedTuple):
    """
    A program that computes digests.

    Attributes:
        ends_with_nul: it ends its lines with NUL, so that every name can stand in them.
        of_abc: the digest of the three bytes "abc": what a program is asked before it is trusted.
    """

    kind: Kind
    words: str
    ends_with_nul: bool
    of_abc: str


_MD5 = "900150983cd24fb0d6963f7d28e17f72"
_SHA1 = "a9993e364706816aba3e25717850c26c9cd0d89d"
_SHA256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
_SHA512 = (
    "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
    "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
)
_XXH64 = "44bc2cf5ad770999"
_XXH3_128 = "06b05ab6733a618578af5f94892f3950"
_BLAKE3 = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"

TOOLS: Final = (
    Tool(Kind.MD5, "md5sum -z", True, _MD5),  # coreutils since 8.25
    Tool(Kind.MD5, "md5sum", False, _MD5),  # busybox
    Tool(Kind.SHA1, "sha1sum -z", True, _SHA1),
    Tool(Kind.SHA1, "sha1sum", False, _SHA1),
    Tool(Kind.SHA256, "sha256sum -z", True, _SHA256),
    Tool(Kind.SHA256, "sha256sum", False, _SHA256),
    Tool(Kind.SHA512, "sha512sum -z", True, _SHA512),
    Tool(Kind.SHA512, "sha512sum", False, _SHA512),
    Tool(Kind.XXH3_128, "xxh128sum", False, _XXH3_128),
    Tool(Kind.XXH3_128, "xxhsum -H2", False, _XXH3_128),
    Tool(Kind.XXH64, "xxh64sum", False, _XXH64),
    Tool(Kind.XXH64, "xxhsum -H1", False, _XXH64),
    Tool(Kind.BLAKE3, "b3sum", False, _BLAKE3),
)
"""What is looked for over there; of those for one kind the first that works is taken."""


# $1 is the folder, in the notation of printf %b. The x keeps newlines at the end of its name, which $(...) would cut.
_ENTER = 'LC_ALL=C; export LC_ALL; d=$(printf %b "$1"x); d=${d%x}; '
_OUT = f'printf "{BEGIN.decode()}\\0"; printf "{BEGIN.decode()}\\n" >&2; '

_PROBE = (
    _ENTER
    + _OUT
    + 'if cd "$d"; then s=ok; elif [ -d "$d" ]; then s=denied; elif [ -e "$d" ]; then s=no_folder; else s=missing; fi; '
    'printf "folder %s\\0" $s; cd /; '
    'find . -maxdepth 0 -type d -printf "find %s %T@ %p\\0"; '
    'printf "a\\0b\\0" | xargs -0 -r sh -c "printf \\"xargs %s,%s\\\\0\\" \\$0 \\$1"; '
    'i=0; for t do i=$((i+1)); [ $i = 1 ] || { printf "tool %d " $i; printf abc | $t; printf "\\0"; }; done; '
    f'printf "{END.decode()} 0\\0"'
)

# $2 is the path to begin at, $3 the folder that it lies in. Were that reached through a link, it would lie elsewhere;
# if it can't be reached at all, find says why not.
_LIST = (
    _ENTER + 'cd "$d" || exit 9; '
    'p=$(printf %b "$2"x); p=${p%x}; u=$(printf %b "$3"x); u=${u%x}; h=$(pwd -P); h=${h%/}; '
    'r=$(cd -P "./$u" 2>/dev/null && pwd -P); '
    + _OUT
    + 'if [ "$u" = . ] || [ -z "$r" ] || [ "$r" = "$(printf %s "$h/$u")" ]; '
    'then find "$p" -type d -printf "\\0" -o -type f -printf "%s %T@ %p\\0"; s=$?; else s=0; fi; '
    f'printf "{END.decode()} %d\\0" $s'
)

# Lets pass what is a regular file, reached through no link: md5sum follows links, and waits for ever at a FIFO.
_IS_FILE = (
    'l=.; k=1; is_file() { u=${1%/*}; if [ "$u" = "$l" ]; then :; else l=$u; k=1; '
    'until [ "$u" = . ]; do if [ -L "$u" ]; then k=0; fi; u=${u%/*}; done; fi; '
    'if [ $k = 1 ] && [ -f "$1" ]; then if [ -L "$1" ]; then false; fi; else false; fi; }; '
)
_FILTER = _IS_FILE + 'for f do if is_file "$f"; then printf "%s\\0" "$f"; fi; done'
_EACH = (
    "t=$1; shift; " + _IS_FILE + 'for f do if is_file "$f" && [ -r "$f" ]; then $t <"$f" || echo; else echo; fi; done'
)

# $2 is the program, $3 the filter.
_DIGEST = (
    _ENTER + 'cd "$d" || exit 9; ' + _OUT + 'xargs -0 -r sh -c "$3" sh | xargs -0 -r $2; s=$?; '
    f'printf "{END.decode()} %d%b" $s "$4"'
)
_DIGEST_EACH = (
    _ENTER + 'cd "$d" || exit 9; ' + _OUT + f'xargs -0 -r sh -c "$3" sh "$2"; s=$?; printf "{END.decode()} %d\\n" $s'
)


def make_probe(folder: bytes) -> str:
    """Ask what is there."""
    return _command(_PROBE, _octal(_entered(folder)), *(tool.words for tool in TOOLS))


def make_list(folder: bytes, prefix: bytes) -> str:
    """List what is below the prefix, or all."""
    above, _, _ = prefix.rpartition(b"/")
    start = b"./" + prefix if prefix else b"."
    return _command(_LIST, _octal(_entered(folder)), _octal(start), _octal(above or b"."))


def make_digest(folder: bytes, tool: Tool, *, is_each: bool) -> str:
    """
    Compute digests of the paths that come through standard input, each ``./path`` NUL.

    Args:
        folder: of the copy.
        tool: that computes.
        is_each: one line for each path, with a digest or empty, in their order: for names that the tool's own lines
            can't carry. Otherwise the tool's lines.
    """
    place = _octal(_entered(folder))
    if is_each:
        return _command(_DIGEST_EACH, place, tool.words, _EACH)
    return _command(_DIGEST, place, tool.words, _FILTER, "\\000" if tool.ends_with_nul else "\\n")


def _command(script: str, *words: str) -> str:
    assert not any("'" in word for word in (script, *words)), "a quote would end the word"
    return " ".join(["sh", "-c", *(f"'{word}'" for word in (script, "sh", *words))])


def _entered(folder: bytes) -> bytes:
    """Write a folder so that cd takes it for one: not for an option, nor for the one it came from."""
    return folder if folder.startswith(b"/") else b"./" + folder


def _octal(path: bytes) -> str:
    return "".join(chr(byte) if byte in _PLAIN else f"\\0{byte:03o}" for byte in path)


def make_single(tool: Tool) -> Tool:
    """Make the tool that is asked for one file at a time."""
    return tool._replace(words=tool.words.removesuffix(" -z"), ends_with_nul=False)


def needs_each(path: bytes, tool: Tool) -> bool:
    """Say whether the tool's lines can't carry a name: with newlines or backslashes, or where it is no UTF-8."""
    if tool.ends_with_nul:
        return False
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return "\\" in text or any(ord(char) < 32 for char in text)
