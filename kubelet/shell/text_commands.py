"""Commands that read text and write text."""

import re
from collections.abc import Awaitable, Callable

from kubelet.shell.files import FileError
from kubelet.shell.options import options_of
from kubelet.shell.process import Process, sleep

Command = Callable[[Process, list[str]], Awaitable[int]]


async def inputs(process: Process, name: str, paths: list[str]) -> tuple[list[tuple[str, bytes]], int]:
    """((path, content) of each file or the standard input, exit code)."""
    found, code = [], 0
    for path in paths or ["-"]:
        if path == "-":
            found.append((path, await process.read_all()))
            continue
        try:
            found.append((path, process.machine.files.read(process.path(path))))
        except FileError as error:
            code = process.complain(f"{name}: can't open '{path}': {error.text}")
    return found, code


async def _cat(process: Process, argv: list[str]) -> int:
    _, paths = options_of(argv)
    code = 0
    for path in paths or ["-"]:
        if path == "-":
            while data := await process.stdin.read():
                process.stdout(data)
                await sleep(0)
            continue
        try:
            process.stdout(process.machine.files.read(process.path(path)))
        except FileError as error:
            why = "read error: " if error.text == "Is a directory" else "can't open "
            shown = f"cat: {why}{error.text}" if why[0] == "r" else f"cat: {why}'{path}': {error.text}"
            code = process.complain(shown)
    return code


async def _head(process: Process, argv: list[str]) -> int:
    """Reads no more than it shows, so that what writes without end is ended."""
    if len(argv) > 1 and re.fullmatch(r"-\d+", argv[1]):
        argv = [argv[0], "-n", argv[1][1:], *argv[2:]]
    options, paths = options_of(argv, "nc")
    if not paths or paths == ["-"]:
        count = int(options.get("c") or options.get("n") or "10")
        if count >= 0:
            await _head_of_input(process, count, of_bytes="c" in options)
            return 0
    found, code = await inputs(process, "head", paths)
    for number, (path, data) in enumerate(found):
        if len(paths) > 1 and "q" not in options:
            process.out(f"{chr(10) if number else ''}==> {path} <==\n")
        if "c" in options:
            process.stdout(data[: int(options["c"] or 0)])
        else:
            process.stdout(b"".join(data.splitlines(keepends=True)[: int(options.get("n", "10"))]))
    return code


async def _head_of_input(process: Process, count: int, *, of_bytes: bool) -> None:
    while count > 0 and (data := await process.stdin.read()):
        shown = data[:count] if of_bytes else b"".join(data.splitlines(keepends=True)[:count])
        count -= len(shown) if of_bytes else shown.count(b"\n")
        process.stdout(shown)
        if len(shown) < len(data):
            process.stdin.unread(data[len(shown) :])


async def _tail(process: Process, argv: list[str]) -> int:
    if len(argv) > 1 and re.fullmatch(r"-\d+", argv[1]):
        argv = [argv[0], "-n", argv[1][1:], *argv[2:]]
    options, paths = options_of(argv, "nc")
    found, code = await inputs(process, "tail", paths)
    for _, data in found:
        if "c" in options:
            process.stdout(_end(data, options["c"]))
        else:
            lines = data.splitlines(keepends=True)
            count = options.get("n", "10")
            chosen = lines[int(count[1:]) - 1 :] if count.startswith("+") else lines[-int(count) :]
            process.stdout(b"".join(chosen if count != "0" else []))
    if "f" in options or "F" in options:
        await sleep(float("inf"))
    return code


def _end(data: bytes, count: str) -> bytes:
    if count.startswith("+"):
        return data[max(0, int(count[1:]) - 1) :]
    return data[-int(count) :] if int(count) else b""


async def _grep(process: Process, argv: list[str]) -> int:
    options, rest = options_of(argv, "e")
    if "e" not in options and not rest:
        return process.complain("grep: missing pattern") + 1
    pattern = options["e"] if "e" in options else rest.pop(0)
    if "F" in options:
        pattern = re.escape(pattern)
    if "x" in options:
        pattern = f"^(?:{pattern})$"
    try:
        wanted = re.compile(pattern, re.IGNORECASE if "i" in options else 0)
    except re.error as error:
        return process.complain(f"grep: bad regex '{pattern}': {error}") + 1
    found, code = await inputs(process, "grep", rest)
    matched = False
    for path, data in found:
        lines = data.decode("utf-8", "replace").splitlines()
        hits = [line for line in lines if bool(wanted.search(line)) != ("v" in options)]
        matched |= bool(hits)
        prefix = f"{path}:" if len(rest) > 1 else ""
        if "c" in options:
            process.out(f"{prefix}{len(hits)}\n")
        elif "q" not in options:
            process.out("".join(f"{prefix}{line}\n" for line in hits))
    return 2 if code else int(not matched)


async def _wc(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv)
    found, code = await inputs(process, "wc", paths)
    for path, data in found:
        counts = {"l": data.count(b"\n"), "w": len(data.split()), "c": len(data)}
        chosen = [str(count) for letter, count in counts.items() if letter in options or not options]
        process.out(" ".join([*chosen, *([path] if path != "-" else [])]) + "\n")
    return code


async def _sort(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv, "kt")
    found, code = await inputs(process, "sort", paths)
    lines = [line for _, data in found for line in data.decode("utf-8", "replace").splitlines()]
    if "n" in options:
        lines.sort(key=lambda line: float((re.match(r"\s*(-?\d+(?:\.\d+)?)", line) or ["", "0"])[1]))
    else:
        lines.sort()
    if "r" in options:
        lines.reverse()
    process.out("".join(f"{line}\n" for line in (dict.fromkeys(lines) if "u" in options else lines)))
    return code


async def _uniq(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv)
    found, code = await inputs(process, "uniq", paths[:1])
    groups: list[tuple[str, int]] = []
    for line in found[0][1].decode("utf-8", "replace").splitlines() if found else []:
        if groups and groups[-1][0] == line:
            groups[-1] = (line, groups[-1][1] + 1)
        else:
            groups.append((line, 1))
    process.out("".join(f"{count:7d} {line}\n" if "c" in options else f"{line}\n" for line, count in groups))
    return code


async def _cut(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv, "dfc")
    found, code = await inputs(process, "cut", paths)
    chosen = {
        int(number) for number in options.get("f", options.get("c", "1")).split(",") if number.isdigit()
    }
    delimiter = options.get("d", "\t")
    for _, data in found:
        for line in data.decode("utf-8", "replace").splitlines():
            pieces = list(line) if "c" in options else line.split(delimiter)
            kept = [piece for number, piece in enumerate(pieces, 1) if number in chosen]
            process.out(("" if "c" in options else delimiter).join(kept or pieces[:1]) + "\n")
    return code


async def _tr(process: Process, argv: list[str]) -> int:
    options, sets = options_of(argv)
    data = (await process.read_all()).decode("utf-8", "replace")
    source = _characters(sets[0]) if sets else ""
    if "d" in options:
        process.out("".join(char for char in data if char not in source))
        return 0
    target = _characters(sets[1]) if len(sets) > 1 else ""
    target += target[-1:] * (len(source) - len(target))
    process.out(data.translate(str.maketrans(source, target[: len(source)])))
    return 0


def _characters(text: str) -> str:
    classes = {"[:lower:]": "a-z", "[:upper:]": "A-Z", "[:digit:]": "0-9", "\\n": "\n", "\\t": "\t"}
    for name, expanded in classes.items():
        text = text.replace(name, expanded)
    return re.sub(r"(.)-(.)", lambda found: "".join(map(chr, range(ord(found[1]), ord(found[2]) + 1))), text)


async def _sed(process: Process, argv: list[str]) -> int:
    """Substitutions only: `s/…/…/g`."""
    options, rest = options_of(argv, "e")
    script = options["e"] if "e" in options else (rest.pop(0) if rest else "")
    parsed = re.fullmatch(r"s(.)(.*?)\1(.*?)\1(g?)", script)
    if parsed is None:
        return process.complain(f"sed: unsupported command {script}")
    found, code = await inputs(process, "sed", rest)
    wanted, replacement = re.compile(parsed[2]), re.sub(r"&", r"\\g<0>", parsed[3])
    for _, data in found:
        lines = data.decode("utf-8", "replace").splitlines()
        process.out("".join(wanted.sub(replacement, line, 0 if parsed[4] else 1) + "\n" for line in lines))
    return code


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
    values = (await process.read_all()).decode("utf-8", "replace").split()
    if process.run is None:
        return 1
    return await process.run(process, [*(argv[1:] or ["echo"]), *values])


async def _base64(process: Process, argv: list[str]) -> int:
    import base64

    options, paths = options_of(argv, "w")
    found, code = await inputs(process, "base64", paths)
    for _, data in found:
        process.stdout(base64.b64decode(data) if "d" in options else base64.b64encode(data) + b"\n")
    return code


async def _md5sum(process: Process, argv: list[str]) -> int:
    import hashlib

    _, paths = options_of(argv)
    found, code = await inputs(process, argv[0], paths)
    name = argv[0].removesuffix("sum").removeprefix("sha")
    for path, data in found:
        digest = hashlib.new(f"sha{name}" if name.isdigit() else "md5", data)
        process.out(f"{digest.hexdigest()}  {path}\n")
    return code


TEXT_COMMANDS: dict[str, Command] = {
    "cat": _cat, "head": _head, "tail": _tail, "grep": _grep, "egrep": _grep, "wc": _wc, "sort": _sort,
    "uniq": _uniq, "cut": _cut, "tr": _tr, "sed": _sed, "tee": _tee, "xargs": _xargs, "base64": _base64,
    "md5sum": _md5sum, "sha1sum": _md5sum, "sha256sum": _md5sum, "sha512sum": _md5sum,
}  # fmt: skip
