"""Build constraints of Go files: an import reads what a control plane on Linux is built of.

Source: the Go command's documentation, "Build constraints" (https://pkg.go.dev/cmd/go), Go 1.26.
"""

import re
from collections.abc import Iterator
from pathlib import PurePath

_SATISFIED = frozenset({"amd64", "cgo", "gc", "linux", "unix"})
_OTHER_PLATFORMS = frozenset(
    {
        *("aix", "android", "darwin", "dragonfly", "freebsd", "illumos", "ios", "js", "netbsd", "openbsd"),
        *("plan9", "solaris", "wasip1", "windows", "zos"),
        *("386", "arm", "arm64", "loong64", "mips", "mips64", "mips64le", "mipsle", "ppc64", "ppc64le"),
        *("riscv64", "s390x", "wasm"),
    }
)
_RELEASE = re.compile(r"go1\.\d+$")
_CONSTRAINT = re.compile(r"//go:build\s+(.+?)\s*$")
_CLAUSE = re.compile(r"package\s")
_TOKEN = re.compile(r"\|\||&&|[!()]|[\w.]+")


def is_built(name: str, text: str) -> bool:
    """True for a file whose name and constraint a build for Linux satisfies."""
    ends = PurePath(name).stem.split("_")[1:][-2:]
    if not _OTHER_PLATFORMS.isdisjoint(ends[-1:]) or (
        ends[-1:] == ["amd64"] and not _OTHER_PLATFORMS.isdisjoint(ends)
    ):
        return False
    for line in text.splitlines():
        if _CLAUSE.match(line):
            break
        if found := _CONSTRAINT.match(line):
            return _any(iter([*_TOKEN.findall(found[1]), ""]))[0]
    return True


def _any(tokens: Iterator[str]) -> tuple[bool, str]:
    """The value of an expression, and the token behind it."""
    value, following = _all(tokens)
    while following == "||":
        other, following = _all(tokens)
        value = value or other
    return value, following


def _all(tokens: Iterator[str]) -> tuple[bool, str]:
    value, following = _one(tokens), next(tokens, "")
    while following == "&&":
        other, following = _one(tokens), next(tokens, "")
        value = value and other
    return value, following


def _one(tokens: Iterator[str]) -> bool:
    word = next(tokens, "")
    if word == "!":
        return not _one(tokens)
    if word == "(":
        return _any(tokens)[0]
    return word in _SATISFIED or _RELEASE.match(word) is not None
