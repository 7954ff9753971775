"""A disk that remembers: what was written, truncated, synced, named and renamed, in order.

A history is a list of operations on files and directories, which are known by numbers as inodes are. A sync
covers what was done to its file before the sync began; names are covered by a sync of the directory that has
them. Everything else may be on the disk, or a part of it, in any order, when the power goes.
"""

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

ROOT = 0
Name = tuple[int, str]  # a directory's number, and a name in it


@dataclass(frozen=True, slots=True)
class Write:
    file: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    file: int
    size: int


@dataclass(frozen=True, slots=True)
class Sync:
    """`since` is the number of operations when the sync began; `file` may be a directory."""

    file: int
    since: int


@dataclass(frozen=True, slots=True)
class Link:
    """A file or directory is created, or gets a further name."""

    name: Name
    file: int


@dataclass(frozen=True, slots=True)
class Unlink:
    name: Name


@dataclass(frozen=True, slots=True)
class Rename:
    old: Name
    new: Name


Naming = Link | Unlink | Rename
Operation = Write | Truncate | Sync | Naming


def names_of(operation: Naming) -> tuple[Name, ...]:
    return (operation.old, operation.new) if isinstance(operation, Rename) else (operation.name,)


def apply_naming(names: dict[Name, int], operation: Naming) -> None:
    match operation:
        case Link(name, file):
            names[name] = file
        case Unlink(name):
            names.pop(name, None)
        case Rename(old, new):
            if old in names:
                names[new] = names.pop(old)


def apply_content(content: bytearray, operation: Write | Truncate) -> None:
    match operation:
        case Write(_, offset, data):
            if len(content) < offset:
                content.extend(bytes(offset - len(content)))
            content[offset : offset + len(data)] = data
        case Truncate(_, size):
            del content[size:]
            content.extend(bytes(size - len(content)))


@dataclass
class History:
    """`directories` are the numbers of those that are not files. `promises` are what callers were told, each
    with the number of operations after which they knew it.
    """

    operations: list[Operation] = field(default_factory=list)
    directories: set[int] = field(default_factory=lambda: {ROOT})
    names: dict[Name, int] = field(default_factory=dict)  # at the end
    contents: dict[int, bytearray] = field(default_factory=dict)  # at the end
    numbers: int = ROOT

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def add(self, operation: Operation) -> None:
        self.operations.append(operation)
        match operation:
            case Write(file) | Truncate(file):
                apply_content(self.contents.setdefault(file, bytearray()), operation)
            case Link() | Unlink() | Rename():
                apply_naming(self.names, operation)

    def place(self, path: Sequence[str]) -> Name | None:
        """None if the directory of the path is unknown."""
        directory = ROOT
        for part in path[:-1]:
            found = self.names.get((directory, part))
            if found is None:
                return None
            directory = found
        return directory, path[-1]

    def find(self, path: Sequence[str]) -> int | None:
        if not path:
            return ROOT
        place = self.place(path)
        return None if place is None else self.names.get(place)


@dataclass
class Chance:
    """Says how much of what was not synced a crash leaves; drawn per crash.

    `mode` is of the contents of each file: nothing, all, the first so many operations, or any sectors.
    `names` is the same of directories.
    """

    sector: int
    modes: Sequence[str]
    kept: float
    names: str
    extended: bool
    garbage: bool

    @classmethod
    def drawn(cls, random: Random) -> "Chance":
        some = ("nothing", "all", "first", "sectors", "sectors")
        modes = [random.choice(some)] if random.random() < 0.5 else some
        return cls(
            sector=random.choice((512, 512, 4096)),
            modes=modes,
            kept=random.choice((0.1, 0.5, 0.9)),
            names=random.choice(("nothing", "all", "first", "any")),
            extended=random.random() < 0.3,
            garbage=random.random() < 0.2,
        )


class Platter:
    """Knows what a disk is sure to have, and what it may have, as a history goes on."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.position = 0
        self._sure: dict[int, bytearray] = {}
        self._open: dict[int, list[tuple[int, Write | Truncate]]] = {}
        self._names: dict[Name, int] = {}
        self._open_names: list[tuple[int, Naming]] = []

    def advance(self, position: int) -> None:
        """Goes on to the moment after so many operations."""
        for number in range(self.position, position):
            self._take(number, self._history.operations[number])
        self.position = position

    def _take(self, number: int, operation: Operation) -> None:
        match operation:
            case Write(file) | Truncate(file):
                self._open.setdefault(file, []).append((number, operation))
            case Sync(file, since):
                if file in self._history.directories:
                    self._sync_names(file, since)
                else:
                    self._sync(file, since)
            case Link() | Unlink() | Rename():
                self._open_names.append((number, operation))

    def _sync(self, file: int, since: int) -> None:
        content = self._sure.setdefault(file, bytearray())
        left = []
        for number, operation in self._open.pop(file, ()):
            if number < since:
                apply_content(content, operation)
            else:
                left.append((number, operation))
        if left:
            self._open[file] = left

    def _sync_names(self, directory: int, since: int) -> None:
        wanted = {
            number
            for number, operation in self._open_names
            if number < since and names_of(operation)[-1][0] == directory
        }
        self._settle(self._names, wanted)

    def _settle(self, names: dict[Name, int], wanted: set[int]) -> None:
        """Applies the wanted ones, and before them those on whose names they rest."""
        needed: set[Name] = set()
        chosen: list[tuple[int, Naming]] = []
        left: list[tuple[int, Naming]] = []
        for number, operation in reversed(self._open_names):
            if number in wanted or needed.intersection(names_of(operation)):
                needed.update(names_of(operation))
                insort(chosen, (number, operation), key=lambda pair: pair[0])
            else:
                left.append((number, operation))
        for _, operation in chosen:
            apply_naming(names, operation)
        if names is self._names:
            self._open_names = left[::-1]

    # --

    def crash(self, random: Random, chance: Chance) -> Mapping[str, bytes | None]:
        """Contents by path, None for directories: one of the disks that may be left."""
        names = dict(self._names)
        numbers = [number for number, _ in self._open_names]
        self._settle(names, set(_some(random, chance.names, numbers, chance.kept)))
        found: dict[str, bytes | None] = {}
        for path, file in _walked(names, ROOT, ""):
            if file in self._history.directories:
                found[path] = None
            else:
                found[path] = bytes(self._content(file, random, chance))
        return found

    def _content(self, file: int, random: Random, chance: Chance) -> bytearray:
        content = bytearray(self._sure.get(file, b""))
        pending = self._open.get(file, ())
        if not pending:
            return content
        mode = random.choice(chance.modes)
        most = len(content)
        if mode == "sectors":
            for _, operation in pending:
                most = max(most, _end(operation))
                _apply_part(content, operation, random, chance)
            if chance.extended and len(content) < most:
                content.extend(bytes(random.randint(0, most - len(content))))
            return content
        numbers = [number for number, _ in pending]
        chosen = set(_some(random, mode, numbers, chance.kept))
        for number, operation in pending:
            most = max(most, _end(operation))
            if number in chosen:
                apply_content(content, operation)
            elif mode == "first":
                _apply_part(content, operation, random, chance)  # torn, and the last one
                break
        if chance.extended and len(content) < most and mode != "all":
            content.extend(bytes(random.randint(0, most - len(content))))
        return content


def _end(operation: Write | Truncate) -> int:
    return operation.offset + len(operation.data) if isinstance(operation, Write) else 0


def _some(random: Random, mode: str, numbers: Sequence[int], kept: float) -> Iterator[int]:
    if mode == "all":
        yield from numbers
    elif mode == "first":
        yield from numbers[: random.randint(0, len(numbers))]
    elif mode in ("any", "sectors"):
        yield from (number for number in numbers if random.random() < kept)


def _apply_part(content: bytearray, operation: Write | Truncate, random: Random, chance: Chance) -> None:
    """Keeps some of the sectors of a write, and rarely a sector of which a part is noise."""
    if isinstance(operation, Truncate):
        if random.random() < chance.kept:
            apply_content(content, operation)
        return
    start, end = operation.offset, operation.offset + len(operation.data)
    while start < end:
        stop = min(end, (start // chance.sector + 1) * chance.sector)
        if random.random() < chance.kept:
            data = operation.data[start - operation.offset : stop - operation.offset]
            if chance.garbage and random.random() < 0.1:
                cut = random.randint(0, len(data))
                data = data[:cut] + random.randbytes(len(data) - cut)
            apply_content(content, Write(operation.file, start, data))
        start = stop


def _walked(names: Mapping[Name, int], directory: int, prefix: str) -> Iterator[tuple[str, int]]:
    for (parent, name), file in sorted(names.items()):
        if parent == directory:
            yield f"{prefix}{name}", file
            yield from _walked(names, file, f"{prefix}{name}/")


def write_out(contents: Mapping[str, bytes | None], target: Path) -> None:
    """Makes the files of a crash in a directory; parents come before what is in them."""
    for path, content in contents.items():
        if content is None:
            (target / path).mkdir()
        else:
            (target / path).write_bytes(content)
