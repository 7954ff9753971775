"""`sort` and `uniq`."""

import calendar
import functools
import itertools
import re

from kubeskew.kubelet.containers.execution.process import Process
from kubeskew.kubelet.containers.tools.inputs import lines_of, texts_of
from kubeskew.kubelet.containers.tools.options import options_of

_NUMBER = re.compile(r"\s*(-?\d*\.?\d+)")
_HUMAN = re.compile(r"\s*(-?\d*\.?\d+)([KMGTPE]?)")
_UNITS = {unit: 1024**power for power, unit in enumerate(["", *"KMGTPE"])}
_KEY = re.compile(r"(\d+)(?:\.(\d+))?([bdfghinrMV]*)(?:,(\d+)(?:\.(\d+))?([bdfghinrMV]*))?")
_MONTHS = {month.upper(): number for number, month in enumerate(calendar.month_abbr)}


async def sort(process: Process, argv: list[str]) -> int:
    """`sort [-bcdfhnrsuMVz] [-k KEY] [-t SEPARATOR] [-o FILE] [FILE …]`."""
    keys: list[str] = []
    words: list[str] = [argv[0]]
    rest = argv[1:]
    while rest:
        word = rest.pop(0)
        if word.startswith(("-k", "--key=")):
            value = word[2:] if word.startswith("-k") else word[6:]
            keys.append(value or (rest.pop(0) if rest else ""))
        else:
            words.append(word)
    options, paths = options_of(words, "toSTm")
    texts, code = await texts_of(process, "sort", paths)
    lines = [line for text in texts for line in lines_of(text)]
    separator = options.get("t")
    found = [_KEY.fullmatch(key) for key in keys]
    if not all(found):
        process.complain("sort: invalid key")
        return 2
    order = _Order(options, [match for match in found if match is not None], separator)
    if "c" in options:
        return int(any(order.compare(a, b) > 0 for a, b in itertools.pairwise(lines)))
    ordered = sorted(lines, key=functools.cmp_to_key(order.compare))
    if "u" in options:
        unique: list[str] = []
        for line in ordered:
            if not unique or order.by_keys(unique[-1], line):
                unique.append(line)
        ordered = unique
    shown = "".join(f"{line}\n" for line in ordered)
    if "o" in options:
        path = process.path(options["o"])
        process.machine.files.write(path, shown.encode("utf-8", "surrogateescape"), process.timestamp())
    else:
        process.out(shown)
    return 2 if code else 0


class _Order:
    """Orders two lines."""

    def __init__(self, options: dict[str, str], keys: list[re.Match[str]], separator: str | None) -> None:
        self._options = options
        self._separator = separator
        self._flags = "".join(options)
        self._keys = keys

    def compare(self, left: str, right: str) -> int:
        order = self.by_keys(left, right)
        if order or {"s", "u"} & self._options.keys():
            return order
        last = (left > right) - (left < right)
        return -last if "r" in self._options else last

    def by_keys(self, left: str, right: str) -> int:
        if not self._keys:
            return self._ordered(left, right, self._flags)
        for key in self._keys:
            flags = (key[3] or "") + (key[6] or "") or self._flags
            order = self._ordered(self._part(left, key), self._part(right, key), flags)
            if order:
                return order
        return 0

    def _part(self, line: str, key: re.Match[str]) -> str:
        starts = self._starts(line)
        first, last = int(key[1]), int(key[4] or 0)
        start = starts[first - 1] if first <= len(starts) else len(line)
        start += int(key[2] or 1) - 1
        if not last:
            return line[start:]
        if key[5] and last <= len(starts):
            return line[start : starts[last - 1] + int(key[5])]
        end = starts[last] if last < len(starts) else len(line)
        return line[start : end - (1 if self._separator and last < len(starts) else 0)]

    def _starts(self, line: str) -> list[int]:
        """Returns where the fields begin; without a separator, blanks belong to the field after them."""
        if self._separator:
            return [0, *(at + 1 for at, char in enumerate(line) if char == self._separator)]
        return [found.start() for found in re.finditer(r"[ \t]*[^ \t]+", line)] or [0]

    def _ordered(self, left: str, right: str, flags: str) -> int:
        first, second = _key(left, flags), _key(right, flags)
        order: int = (first > second) - (first < second)  # type: ignore[operator] # both are of one kind
        return -order if "r" in flags else order


def _key(text: str, flags: str) -> object:
    if "n" in flags or "g" in flags:
        found = _NUMBER.match(text)
        return float(found[1]) if found is not None else 0.0
    if "h" in flags:
        found = _HUMAN.match(text)
        return float(found[1]) * _UNITS[found[2]] if found is not None else 0.0
    if "M" in flags:
        return _MONTHS.get(text.strip()[:3].upper(), 0)
    if "V" in flags:
        return [
            (piece.isdigit(), int(piece) if piece.isdigit() else 0, piece)
            for piece in re.split(r"(\d+)", text)
        ]
    if "b" in flags:
        text = text.lstrip(" \t")
    if "d" in flags:
        text = re.sub(r"[^A-Za-z0-9\s]", "", text)
    return text.upper() if "f" in flags else text


async def uniq(process: Process, argv: list[str]) -> int:
    """`uniq [-cdui] [-f FIELDS] [-s CHARACTERS] [-w CHARACTERS] [INPUT [OUTPUT]]`."""
    options, paths = options_of(argv, "fsw")
    texts, code = await texts_of(process, "uniq", paths[:1])

    def key(line: str) -> str:
        for _ in range(int(options.get("f") or 0)):
            line = re.sub(r"^\s*\S+", "", line)
        line = line[int(options.get("s") or 0) :]
        line = line[: int(options["w"])] if options.get("w") else line
        return line.lower() if "i" in options else line

    groups: list[tuple[str, int]] = []
    for line in lines_of(texts[0]) if texts else []:
        if groups and key(groups[-1][0]) == key(line):
            groups[-1] = (groups[-1][0], groups[-1][1] + 1)
        else:
            groups.append((line, 1))
    shown = ""
    for line, count in groups:
        if ("d" in options and count == 1) or ("u" in options and count > 1):
            continue
        shown += f"{count:7d} {line}\n" if "c" in options else f"{line}\n"
    if len(paths) > 1:
        process.machine.files.write(process.path(paths[1]), shown.encode(), process.timestamp())
    else:
        process.out(shown)
    return code
