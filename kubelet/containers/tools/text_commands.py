"""Commands that read lines and write lines."""

import functools
import re
from collections.abc import Awaitable, Callable

from kubeskew.kubelet.containers.execution.files import FileError
from kubeskew.kubelet.containers.execution.process import Process
from kubeskew.kubelet.containers.execution.waiting import sleep
from kubeskew.kubelet.containers.tools.awk.command import awk
from kubeskew.kubelet.containers.tools.diff import diff
from kubeskew.kubelet.containers.tools.grep import grep
from kubeskew.kubelet.containers.tools.inputs import inputs, lines_of, text_inputs, text_of, texts_of
from kubeskew.kubelet.containers.tools.options import options_of
from kubeskew.kubelet.containers.tools.sed import sed
from kubeskew.kubelet.containers.tools.sorting import sort, uniq

Command = Callable[[Process, list[str]], Awaitable[int]]
_SIZE = re.compile(r"([+-]?\d+)([bkKmMgG]?)(?:i?B)?")
_SIZES = {"": 1, "b": 512, "k": 1024, "K": 1024, "m": 1 << 20, "M": 1 << 20, "g": 1 << 30, "G": 1 << 30}
_FOLLOWED_EVERY = 1.0  # seconds between two reads of `tail -f`


def size_of(text: str) -> int:
    """Returns the size in `4`, `4k`, `1M`. Raises ValueError."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return int(found[1]) * _SIZES[found[2]]


async def _cat(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv)
    number, code = 0, 0

    def show(data: bytes) -> None:
        nonlocal number
        if not options.keys() & {"n", "b", "A", "E", "e"}:
            process.stdout(data)
            return
        for line in text_inputs(text_of(data)):
            if options.keys() & {"A", "E", "e"} and line.endswith("\n"):
                line = line[:-1] + "$\n"
            if "n" in options or ("b" in options and line.strip("\n")):
                number += 1
                line = f"{number:6d}\t{line}"
            process.out(line)

    for path in paths or ["-"]:
        if path == "-":
            while data := await process.stdin.read():
                show(data)
                await sleep(0)
            continue
        try:
            show(process.machine.files.read(process.path(path)))
        except FileError as error:
            why = "read error: " if error.text == "Is a directory" else "can't open "
            shown = f"cat: {why}{error.text}" if why[0] == "r" else f"cat: {why}'{path}': {error.text}"
            code = process.complain(shown)
    return code


def _with_number(argv: list[str]) -> list[str]:
    """Replaces the old forms `-5` and `+5` by `-n 5`."""
    if len(argv) > 1 and re.fullmatch(r"[-+]\d+", argv[1]):
        return [argv[0], "-n", argv[1].lstrip("-"), *argv[2:]]
    return argv


async def _head(process: Process, argv: list[str]) -> int:
    """Reads no more than it shows, so that a command that writes without end is ended."""
    options, paths = options_of(_with_number(argv), "nc")
    count = size_of(options.get("c") or options.get("n") or "10")
    if (not paths or paths == ["-"]) and count >= 0:
        await _head_of_input(process, count, of_bytes="c" in options)
        return 0
    found, code = await inputs(process, "head", paths)
    for number, (path, data) in enumerate(found):
        if (len(paths) > 1 and "q" not in options) or "v" in options:
            process.out(f"{chr(10) if number else ''}==> {path} <==\n")
        pieces = data if "c" in options else text_of(data)
        if isinstance(pieces, bytes):
            process.stdout(pieces[:count])
        else:
            process.out("".join(text_inputs(pieces)[:count]))
    return code


async def _head_of_input(process: Process, count: int, *, of_bytes: bool) -> None:
    while count > 0 and (data := await process.stdin.read()):
        shown = data[:count] if of_bytes else b"".join(data.splitlines(keepends=True)[:count])
        count -= len(shown) if of_bytes else shown.count(b"\n")
        process.stdout(shown)
        if len(shown) < len(data):
            process.stdin.unread(data[len(shown) :])


async def _tail(process: Process, argv: list[str]) -> int:
    options, paths = options_of(_with_number(argv), "ncs")
    follows = bool({"f", "F"} & options.keys())
    found, code = await inputs(process, "tail", paths)
    for number, (path, data) in enumerate(found):
        if (len(paths) > 1 and "q" not in options) or "v" in options:
            process.out(f"{chr(10) if number else ''}==> {path} <==\n")
        process.stdout(_end(data, options))
    if follows and not found and "F" not in options:
        return code
    while follows:
        await _follow(process, paths, {path: len(data) for path, data in found})
    return code


def _end(data: bytes, options: dict[str, str]) -> bytes:
    if "c" in options:
        count = size_of(options["c"])
        if options["c"].startswith("+"):
            return data[max(0, count - 1) :]
        return data[-abs(count) :] if count else b""
    text, lines = options.get("n", "10"), data.splitlines(keepends=True)
    count = size_of(text)
    if text.startswith("+"):
        return b"".join(lines[max(0, count - 1) :])
    return b"".join(lines[-abs(count) :]) if count else b""


async def _follow(process: Process, paths: list[str], seen: dict[str, int]) -> None:
    """Shows what is added to files, for ever."""
    if not paths:
        await sleep(float("inf"))
    while True:
        for path in paths:
            try:
                data = process.machine.files.read(process.path(path))
            except FileError:
                continue
            start = seen.get(path, 0)
            if len(data) != start:
                process.stdout(data[start if len(data) > start else 0 :])
            seen[path] = len(data)
        await sleep(_FOLLOWED_EVERY)


async def _wc(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv)
    found, code = await inputs(process, "wc", paths)
    totals = dict.fromkeys("lwmcL", 0)
    for path, data in found:
        text = text_of(data)
        counts = {
            "l": data.count(b"\n"), "w": len(data.split()), "m": len(text), "c": len(data),
            "L": max((len(line) for line in lines_of(text)), default=0),
        }  # fmt: skip
        totals = {letter: totals[letter] + count for letter, count in counts.items()}
        _show_counts(process, counts, options, path if paths else "")
    if len(found) > 1:
        _show_counts(process, totals, options, "total")
    return code


def _show_counts(process: Process, counts: dict[str, int], options: dict[str, str], name: str) -> None:
    letters = [letter for letter in counts if letter in options] or ["l", "w", "c"]
    if len(letters) == 1:
        shown = str(counts[letters[0]])
    else:
        shown = " ".join(f"{counts[letter]:9d}" for letter in letters)
    process.out(f"{shown} {name}\n" if name else f"{shown}\n")


def _ranges(text: str, complement: bool = False) -> Callable[[int], bool]:
    """Returns a function that says whether a number is among `1,3-5,7-`. Raises ValueError."""
    bounds = []
    for piece in text.split(","):
        first, dash, last = piece.partition("-")
        if not (first or last) or not (first + last).isdecimal():
            raise ValueError(text)
        bounds.append((int(first or 1), int(last) if last else 1 << 40 if dash else int(first)))
    return lambda number: any(low <= number <= high for low, high in bounds) != complement


async def _cut(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv, "dfcb", ("complement", "output-delimiter"))
    kind = next((letter for letter in "fcb" if letter in options), "")
    if not kind:
        return process.complain("cut: expected a list of bytes, characters, or fields")
    chosen = _ranges(options[kind], "complement" in options)
    texts, code = await texts_of(process, "cut", paths)
    delimiter = options.get("d", "\t")[:1] or "\0"
    joint = options.get("output-delimiter", delimiter if kind == "f" else "")
    for line in [line for text in texts for line in lines_of(text)]:
        pieces = line.split(delimiter) if kind == "f" else list(line)
        if kind == "f" and len(pieces) == 1:
            if "s" not in options:
                process.out(f"{line}\n")
            continue
        process.out(joint.join(piece for number, piece in enumerate(pieces, 1) if chosen(number)) + "\n")
    return code


async def _tr(process: Process, argv: list[str]) -> int:
    options, sets = options_of(argv)
    if not sets:
        return process.complain("tr: missing operand")
    source = _characters(sets[0])
    complement = {"c", "C"} & options.keys()
    members = set(source)
    target = _characters(sets[1]) if len(sets) > 1 else ""
    squeezed = set(target or source) if "s" in options else set()
    table = dict(zip(source, target + target[-1:] * len(source), strict=False)) if target else {}
    last = ""
    while data := await process.stdin.read():
        out = []
        for char in text_of(data):
            belongs = (char in members) != bool(complement)
            if belongs and "d" in options:
                continue
            made = (target[-1:] if complement else table.get(char, char)) if belongs and target else char
            squeezes = belongs and not complement if not target else made in squeezed
            if "s" in options and made == last and (squeezes or (complement and belongs)):
                continue
            out.append(made)
            last = made
        process.out("".join(out))
        await sleep(0)
    return 0


_TR_CLASSES = {
    "lower": "abcdefghijklmnopqrstuvwxyz", "upper": "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "digit": "0123456789",
    "space": "\t\n\v\f\r ", "blank": "\t ", "punct": "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    "xdigit": "0123456789ABCDEFabcdef",
}  # fmt: skip
_TR_CLASSES["alpha"] = _TR_CLASSES["upper"] + _TR_CLASSES["lower"]
_TR_CLASSES["alnum"] = _TR_CLASSES["digit"] + _TR_CLASSES["alpha"]
_TR_ITEM = re.compile(r"\[:([a-z]+):\]|\\([0-7]{1,3}|.)|(.)", re.DOTALL)
_TR_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def _characters(text: str) -> str:
    """Returns a set of `tr`: ranges, classes and escapes."""
    items: list[str] = []
    for found in _TR_ITEM.finditer(text):
        if found[1]:
            items.append(_TR_CLASSES.get(found[1], ""))
        elif found[2]:
            octal = found[2][0] in "01234567"
            items.append(chr(int(found[2], 8)) if octal else _TR_ESCAPES.get(found[2], found[2]))
        else:
            items.append(found[3])
    out, at = "", 0
    while at < len(items):
        if at + 2 < len(items) and items[at + 1] == "-" and len(items[at]) == len(items[at + 2]) == 1:
            out += "".join(map(chr, range(ord(items[at]), ord(items[at + 2]) + 1)))
            at += 3
        else:
            out += items[at]
            at += 1
    return out


async def _tee(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv)
    files = process.machine.files
    for path in paths:
        files.write(process.path(path), b"", process.timestamp(), append="a" in options)
    while data := await process.stdin.read():
        process.stdout(data)
        for path in paths:
            files.write(process.path(path), data, process.timestamp(), append=True)
    return 0


async def _xargs(process: Process, argv: list[str]) -> int:
    """`xargs [-0rt] [-n COUNT] [-I WORD] [COMMAND …]`."""
    words, options = argv[1:], dict[str, str]()
    while words and re.match(r"-.", words[0]):
        word = words.pop(0)
        for number, letter in enumerate(word[1:], 2):
            if letter in "nIdLPs":
                options[letter] = word[number:] or (words.pop(0) if words else "")
                break
            options[letter] = ""
    text = text_of(await process.read_all())
    if "0" in options:
        values = [value for value in text.split("\0") if value]
    elif "d" in options:
        values = text.rstrip("\n").split(options["d"].replace("\\n", "\n"))
    elif "I" in options or "L" in options:
        values = [line.strip() for line in lines_of(text) if line.strip()]
    else:
        found = re.findall(r"""((?:[^\s'"\\]|\\.|'[^']*'|"[^"]*")+)""", text)
        values = [re.sub(r"""\\(.)|'([^']*)'|"([^"]*)\"""", _unquoted, value) for value in found]
    return await _run_each(process, words or ["echo"], values, options)


def _unquoted(found: re.Match[str]) -> str:
    return next(group for group in found.groups() if group is not None)


async def _run_each(process: Process, words: list[str], values: list[str], options: dict[str, str]) -> int:
    if process.run is None or ("r" in options and not values):
        return 0
    if "I" in options:
        commands = [[word.replace(options["I"], value) for word in words] for value in values]
    else:
        size = int(options.get("n") or options.get("L") or len(values) or 1)
        chunks = [values[at : at + size] for at in range(0, len(values), size)] or [[]]
        commands = [[*words, *chunk] for chunk in chunks]
    code = 0
    for command in commands:
        if "t" in options:
            process.complain(" ".join(command))
        ended = await process.run(process.child(), command)
        code = ended if ended in {126, 127} else 123 if ended else code
    return code


async def _tac(process: Process, argv: list[str]) -> int:
    texts, code = await texts_of(process, "tac", options_of(argv)[1])
    for text in texts:
        process.out("".join(reversed(text_inputs(text))))
    return code


async def _rev(process: Process, argv: list[str]) -> int:
    texts, code = await texts_of(process, "rev", options_of(argv)[1])
    process.out("".join(f"{line[::-1]}\n" for text in texts for line in lines_of(text)))
    return code


async def _nl(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv, "bsw")
    texts, code = await texts_of(process, "nl", paths)
    number, width = 0, int(options.get("w", "6"))
    for line in [line for text in texts for line in lines_of(text)]:
        if line or options.get("b") == "a":
            number += 1
            process.out(f"{number:{width}d}{options.get('s', chr(9))}{line}\n")
        else:
            process.out(" " * (width + 1) + "\n")
    return code


async def _paste(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv, "d")
    texts, code = await texts_of(process, "paste", paths)
    columns = [lines_of(text) for text in texts]
    joint = options.get("d", "\t").replace("\\n", "\n").replace("\\t", "\t")[:1]
    if "s" in options:
        rows = columns
    else:
        longest = max(map(len, columns), default=0)
        rows = [[column[n] if n < len(column) else "" for column in columns] for n in range(longest)]
    process.out("".join(joint.join(row) + "\n" for row in rows))
    return code


async def _fold(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv, "w")
    texts, code = await texts_of(process, "fold", paths)
    width = int(options.get("w", "80"))
    for line in [line for text in texts for line in text_inputs(text)]:
        body, end = line.rstrip("\n"), "\n" if line.endswith("\n") else ""
        pieces = [body[at : at + width] for at in range(0, len(body), width)] or [""]
        process.out("\n".join(pieces) + end)
    return code


async def _comm(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv)
    texts, code = await texts_of(process, "comm", paths)
    if len(texts) < 2:
        return code or process.complain("comm: missing operand")
    first, second = lines_of(texts[0]), lines_of(texts[1])
    indents = {"1": "", "2": "" if "1" in options else "\t"}
    indents["3"] = indents["2"] + ("" if "2" in options else "\t")
    while first or second:
        column = "1" if not second or (first and first[0] < second[0]) else "2"
        line = (first if column == "1" else second)[0]
        if first and second and first[0] == second[0]:
            column = "3"
        if column in "13":
            first.pop(0)
        if column in "23":
            second.pop(0)
        if column not in options:
            process.out(f"{indents[column]}{line}\n")
    return code


TEXT_COMMANDS: dict[str, Command] = {
    "cat": _cat, "head": _head, "tail": _tail, "grep": grep, "egrep": functools.partial(grep, extended=True),
    "fgrep": functools.partial(grep, fixed=True), "wc": _wc, "sort": sort, "uniq": uniq, "cut": _cut,
    "tr": _tr, "sed": sed, "tee": _tee, "xargs": _xargs, "awk": awk, "gawk": awk, "mawk": awk, "diff": diff,
    "tac": _tac,
    "rev": _rev, "nl": _nl, "paste": _paste, "fold": _fold, "comm": _comm,
}  # fmt: skip
