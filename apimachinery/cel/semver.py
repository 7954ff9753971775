"""Semantic versions as blang/semver, which Kubernetes' CEL library uses, reads and orders them."""

import re
from dataclasses import dataclass
from functools import total_ordering

_SUFFIX = frozenset("+-")
_IDENTIFIER = re.compile(r"^[0-9A-Za-z-]+$")


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A version; `build` takes no part in comparisons."""

    major: int
    minor: int
    patch: int
    pre: tuple[str, ...] = ()
    build: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Semver":
        """Parses a version; raises ValueError with blang's text."""
        if not text:
            raise ValueError("Version string empty")
        parts = text.split(".", 2)
        if len(parts) != 3:
            raise ValueError("No Major.Minor.Patch elements found")
        patch, build = _cut(parts[2], "+")
        patch, pre = _cut(patch, "-")
        return cls(
            _number(parts[0], "major number"),
            _number(parts[1], "minor number"),
            _number(patch, "patch number"),
            _identifiers(pre, numeric_checked=True),
            _identifiers(build, numeric_checked=False),
        )

    @classmethod
    def parse_normalized(cls, text: str) -> "Semver":
        """Parses a version like `parse`, after adding missing parts and removing a `v` and leading zeros."""
        parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
        if len(parts) < 3 and not _SUFFIX.isdisjoint(parts[-1]):
            raise ValueError("short version cannot contain PreRelease/Build meta data")
        return cls.parse(".".join(parts + ["0"] * (3 - len(parts))))

    @classmethod
    def parse_prefixed(cls, text: str) -> "Semver":
        """Parses a version like `parse` that may begin with a `v`."""
        return cls.parse(text.removeprefix("v"))

    def compare(self, other: "Semver") -> int:
        mine, theirs = self.core, other.core
        if mine != theirs:
            return -1 if mine < theirs else 1
        return _compare_pre(self.pre, other.pre)

    @property
    def core(self) -> tuple[int, int, int]:
        return (self.major, self.minor, self.patch)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.compare(other) == 0

    def __hash__(self) -> int:
        return hash((*self.core, self.pre))

    def __lt__(self, other: "Semver") -> bool:
        return self.compare(other) < 0


def _cut(text: str, separator: str) -> tuple[str, str | None]:
    head, found, tail = text.partition(separator)
    return head, tail if found else None


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    rest = part.lstrip("0")
    return rest if rest and rest[0] in "0123456789" else f"0{rest}"


def _number(text: str, what: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError(f'Invalid character(s) found in {what} "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise ValueError(f'{what.capitalize()} must not contain leading zeroes "{text}"')
    return int(text)


def _identifiers(text: str | None, *, numeric_checked: bool) -> tuple[str, ...]:
    if text is None:
        return ()
    kind = "prerelease" if numeric_checked else "build meta data"
    parts = tuple(text.split("."))
    for part in parts:
        if not part:
            raise ValueError("Prerelease is empty" if numeric_checked else "Build meta data is empty")
        if not _IDENTIFIER.match(part):
            raise ValueError(f'Invalid character(s) found in {kind} "{part}"')
        if numeric_checked and part.isdigit() and len(part) > 1 and part[0] == "0":
            raise ValueError(f'Numeric PreRelease version must not contain leading zeroes "{part}"')
    return parts


def _compare_pre(left: tuple[str, ...], right: tuple[str, ...]) -> int:
    if not left or not right:
        return (not left) - (not right)
    mine = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in left]
    theirs = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in right]
    return (mine > theirs) - (mine < theirs)
