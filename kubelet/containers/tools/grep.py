"""`grep`, with basic, extended and fixed patterns."""

import re
from dataclasses import dataclass

from kubeskew.kubelet.containers.execution.files import FileError
from kubeskew.kubelet.containers.execution.process import Process
from kubeskew.kubelet.containers.tools.inputs import lines_of, text_of
from kubeskew.kubelet.containers.tools.regexes import translated

_LONG = {
    "extended-regexp": "E", "fixed-strings": "F", "ignore-case": "i", "invert-match": "v", "count": "c",
    "quiet": "q", "silent": "q", "line-number": "n", "only-matching": "o", "files-with-matches": "l",
    "word-regexp": "w", "line-regexp": "x", "no-filename": "h", "with-filename": "H", "recursive": "r",
    "regexp": "e", "max-count": "m", "perl-regexp": "P", "no-messages": "s", "color": "", "colour": "",
    "files-without-match": "L", "context": "C", "after-context": "A", "before-context": "B", "file": "f",
}  # fmt: skip
_WITH_VALUE = "emfABC"


@dataclass(slots=True)
class _Search:
    pattern: re.Pattern[str]
    options: dict[str, str]
    shows_names: bool


async def grep(process: Process, argv: list[str], *, extended: bool = False, fixed: bool = False) -> int:
    """Returns 0 if a line matched, 1 if none did, 2 after an error."""
    options, patterns, paths = _arguments(process, argv[1:])
    if not patterns:
        if not paths:
            process.complain(
                "Usage: grep [-HhnlLoqvsriwFE] [-m N] [-A|B|C N] { PATTERN | -e PATTERN } [FILE]..."
            )
            return 2
        patterns = paths.pop(0).split("\n")
    extended, fixed = extended or "E" in options, fixed or "F" in options
    try:
        pattern = _compiled(patterns, options, extended=extended, fixed=fixed)
    except (ValueError, re.error) as error:
        process.complain(f"grep: bad regex '{patterns[0]}': {error}")
        return 2
    recursive = bool({"r", "R"} & options.keys())
    shows = "h" not in options and ("H" in options or len(paths) > 1 or recursive)
    search = _Search(pattern, options, shows)
    matched, code = await _search_all(
        process, search, paths or (["."] if recursive else ["-"]), recursive=recursive
    )
    if "q" in options and matched:
        return 0
    return 2 if code else int(not matched)


def _arguments(process: Process, words: list[str]) -> tuple[dict[str, str], list[str], list[str]]:
    options: dict[str, str] = {}
    patterns: list[str] = []
    paths: list[str] = []

    def note(letter: str, value: str) -> None:
        if letter == "e":
            patterns.extend(value.split("\n"))
        elif letter == "f":
            patterns.extend(lines_of(text_of(process.machine.files.read(process.path(value)))))
        elif letter:
            options[letter] = value

    while words:
        word = words.pop(0)
        if word == "--":
            return options, patterns, [*paths, *words]
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            letter = _LONG.get(name, "")
            note(
                letter,
                value if equals or letter not in _WITH_VALUE or not letter else words.pop(0) if words else "",
            )
        elif word.startswith("-") and word != "-":
            for number, letter in enumerate(word[1:], 2):
                if letter in _WITH_VALUE:
                    note(letter, word[number:] or (words.pop(0) if words else ""))
                    break
                note(letter, "")
        else:
            paths.append(word)
    return options, patterns, paths


def _compiled(
    patterns: list[str], options: dict[str, str], *, extended: bool, fixed: bool
) -> re.Pattern[str]:
    texts = []
    for pattern in patterns:
        if fixed:
            text = re.escape(pattern)
        elif "P" in options:
            text = pattern
        else:
            text = translated(pattern, extended=extended)
        if "w" in options:
            text = rf"(?<!\w)(?:{text})(?!\w)"
        texts.append(rf"^(?:{text})$" if "x" in options else text)
    joined = texts[0] if len(texts) == 1 else "|".join(f"(?:{text})" for text in texts)
    return re.compile(joined, re.IGNORECASE if {"i", "y"} & options.keys() else 0)


async def _search_all(
    process: Process, search: _Search, paths: list[str], *, recursive: bool
) -> tuple[bool, bool]:
    """Returns (whether a line matched, whether something could not be read)."""
    matched = failed = False
    for path in paths:
        try:
            for name, data in await _contents(process, path, recursive=recursive):
                matched |= _search(process, search, name, text_of(data))
        except FileError as error:
            failed = True
            if "s" not in search.options:
                process.complain(f"grep: {path}: {error.text}")
    return matched, failed


async def _contents(process: Process, path: str, *, recursive: bool) -> list[tuple[str, bytes]]:
    if path == "-":
        return [("(standard input)", await process.read_all())]
    full = process.path(path)
    file = process.machine.files.look(full)
    if file is None or not file.is_directory or not recursive:
        return [(path, process.machine.files.read(full))]
    below = process.machine.files.walk(full)
    prefix = path.rstrip("/") if path != "/" else ""
    return [
        (prefix + found[len(full.rstrip("/")) :], file.data) for found, file in below if file.data is not None
    ]


def _search(process: Process, search: _Search, name: str, text: str) -> bool:
    options, pattern = search.options, search.pattern
    lines = lines_of(text)
    limit = int(options.get("m") or 0) or len(lines)
    wanted = "v" not in options
    hits = [number for number, line in enumerate(lines) if (pattern.search(line) is not None) == wanted][
        :limit
    ]
    prefix = f"{name}:" if search.shows_names else ""
    if "q" in options:
        return bool(hits)
    if "c" in options:
        process.out(f"{prefix}{len(hits)}\n")
    elif "l" in options or "L" in options:
        if bool(hits) == ("l" in options):
            process.out(f"{name}\n")
    elif "o" in options:
        for number in hits if wanted else []:
            shown = f"{prefix}{number + 1}:" if "n" in options else prefix
            process.out(
                "".join(f"{shown}{found[0]}\n" for found in pattern.finditer(lines[number]) if found[0])
            )
    else:
        _show(process, search, name, lines, hits)
    return bool(hits)


def _show(process: Process, search: _Search, name: str, lines: list[str], hits: list[int]) -> None:
    options = search.options
    before, after = (int(options.get(letter) or options.get("C") or 0) for letter in "BA")
    shown: dict[int, bool] = {}
    for hit in hits:
        for number in range(max(0, hit - before), min(len(lines), hit + after + 1)):
            shown[number] = shown.get(number, False) or number == hit
    last = -1
    for number in sorted(shown):
        if (before or after) and last >= 0 and number > last + 1:
            process.out("--\n")
        last = number
        sign = ":" if shown[number] else "-"
        prefix = f"{name}{sign}" if search.shows_names else ""
        process.out(prefix + (f"{number + 1}{sign}" if "n" in options else "") + lines[number] + "\n")
