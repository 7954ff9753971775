"""Commands that make, move, show and test files."""

import fnmatch
import posixpath
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from kubeskew.kubelet.containers.execution.files import File, FileError, join
from kubeskew.kubelet.containers.execution.process import Process
from kubeskew.kubelet.containers.tools.archive import tar
from kubeskew.kubelet.containers.tools.options import options_of
from kubeskew.kubelet.containers.tools.regexes import compiled

Command = Callable[[Process, list[str]], Awaitable[int]]


async def _ls(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv)
    files, code = process.machine.files, 0
    for path in paths or ["."]:
        full = process.path(path)
        try:
            found = files.look(full)
        except FileError:
            found = None
        if found is None:
            code = process.complain(f"ls: {path}: No such file or directory")
            continue
        names = files.names(full) if found.is_directory and "d" not in options else None
        if len(paths) > 1 and names is not None:
            process.out(f"{path}:\n")
        shown = [(path, full)] if names is None else [(name, join(full, name)) for name in names]
        hidden = "a" in options or "A" in options or names is None
        for name, where in shown:
            if hidden or not name.startswith("."):
                process.out(_line(name, files.look(where), long="l" in options) + "\n")
    return code


def _line(name: str, file: File | None, *, long: bool) -> str:
    if not long or file is None:
        return name
    bits = "".join(letter if file.mode >> (8 - n) & 1 else "-" for n, letter in enumerate("rwxrwxrwx"))
    when = datetime.fromtimestamp(file.changed, UTC).strftime("%b %e %H:%M")
    kind = "d" if file.is_directory else "-"
    return f"{kind}{bits}    1 root     root     {len(file.data or b''):9d} {when} {name}"


async def _touch(process: Process, argv: list[str]) -> int:
    _, paths = options_of(argv)
    for path in paths:
        found = process.machine.files.look(process.path(path))
        if found is None or not found.is_directory:
            try:
                process.machine.files.write(process.path(path), b"", process.timestamp(), append=True)
            except FileError as error:
                return process.complain(f"touch: {path}: {error.text}")
    return 0


async def _mkdir(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv, "m")
    for path in paths:
        try:
            files = process.machine.files
            files.make_directory(process.path(path), process.timestamp(), parents="p" in options)
        except FileError as error:
            return process.complain(f"mkdir: can't create directory '{path}': {error.text}")
    return 0


async def _rm(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv)
    files = process.machine.files
    for path in paths:
        full = process.path(path)
        found = files.look(full)
        if found is None and "f" in options:
            continue
        if found is not None and found.is_directory and not {"r", "R"} & options.keys():
            return process.complain(f"rm: '{path}' is a directory")
        try:
            files.remove(full)
        except FileError as error:
            return process.complain(f"rm: can't remove '{path}': {error.text}")
    return 0


async def _rmdir(process: Process, argv: list[str]) -> int:
    _, paths = options_of(argv)
    for path in paths:
        if process.machine.files.names(process.path(path)):
            return process.complain(f"rmdir: '{path}': Directory not empty")
        process.machine.files.remove(process.path(path))
    return 0


async def _copy(process: Process, argv: list[str]) -> int:
    """Runs `cp` and `mv`."""
    options, paths = options_of(argv)
    if len(paths) < 2:
        return process.complain(f"{argv[0]}: missing file operand")
    files, moves = process.machine.files, argv[0] == "mv"
    target = process.path(paths[-1])
    into = files.look(target)
    for path in paths[:-1]:
        source = process.path(path)
        found = files.look(source)
        if found is None:
            return process.complain(f"{argv[0]}: can't stat '{path}': No such file or directory")
        if found.is_directory and not moves and not {"r", "R", "a"} & options.keys():
            return process.complain(f"cp: omitting directory '{path}'")
        inside = into is not None and into.is_directory
        place = join(target, posixpath.basename(source)) if inside else target
        try:
            _place(process, source, place)
        except FileError as error:
            return process.complain(f"{argv[0]}: can't create '{paths[-1]}': {error.text}")
        if moves:
            files.remove(source)
    return 0


def _place(process: Process, source: str, target: str) -> None:
    files = process.machine.files
    for path, file in [*files.walk(source)]:
        where = target + path[len(source) :]
        if file.data is None:
            files.make_directory(where, process.timestamp(), parents=True)
        else:
            files.write(where, file.data, process.timestamp(), mode=file.mode)


_WHO = {"u": 0o700, "g": 0o070, "o": 0o007, "a": 0o777}
_BITS = {"r": 0o444, "w": 0o222, "x": 0o111, "X": 0o111}


async def _chmod(process: Process, argv: list[str]) -> int:
    """`chmod [-R] MODE FILE …`, the mode octal or like `u+x,go-w`."""
    recursive = any(word in {"-R", "-r", "--recursive"} for word in argv[1:2])
    words, files, code = argv[2:] if recursive else argv[1:], process.machine.files, 0
    if len(words) < 2:
        return process.complain("chmod: missing operand")
    for path in words[1:]:
        full = process.path(path)
        if files.look(full) is None:
            code = process.complain(f"chmod: {path}: No such file or directory")
            continue
        for where, file in [*files.walk(full)] if recursive else [(full, files.look(full))]:
            mode = _mode(words[0], file.mode if file is not None else 0)
            if mode is None:
                return process.complain(f"chmod: invalid mode '{words[0]}'")
            files.change_mode(where, mode)
    return code


def _mode(text: str, mode: int) -> int | None:
    """Returns the mode that `text` makes of another; None if it is invalid."""
    if re.fullmatch("[0-7]{1,4}", text):
        return int(text, 8)
    for clause in text.split(","):
        found = re.fullmatch(r"([ugoa]*)([-+=])([rwxXst]*)", clause)
        if found is None:
            return None
        who = sum(_WHO[letter] for letter in set(found[1])) if "a" not in found[1] and found[1] else 0o777
        bits = 0
        for letter in found[3]:
            bits |= _BITS.get(letter, 0) & who
        mode = mode | bits if found[2] == "+" else mode & ~bits if found[2] == "-" else (mode & ~who) | bits
    return mode


async def _chown(_process: Process, _argv: list[str]) -> int:
    return 0  # all files belong to root


async def _ln(process: Process, argv: list[str]) -> int:
    _, words = options_of(argv)
    if len(words) == 2:
        files = process.machine.files
        place = files.look(process.path(words[1]))
        target = (
            posixpath.join(words[1], posixpath.basename(words[0]))
            if place is not None and place.is_directory
            else words[1]
        )
        if "f" in argv[1] and files.link_at(process.path(target)) is not None:
            files.remove(process.path(target))
        files.link(process.path(target), words[0], process.timestamp())
    return 0


async def _basename(process: Process, argv: list[str]) -> int:
    base = posixpath.basename(argv[1].rstrip("/")) if len(argv) > 1 else ""
    process.out((base.removesuffix(argv[2]) if len(argv) > 2 else base) + "\n")
    return 0


async def _dirname(process: Process, argv: list[str]) -> int:
    process.out((posixpath.dirname(argv[1]) if len(argv) > 1 else "") or ".")
    process.out("\n")
    return 0


async def _stat(process: Process, argv: list[str]) -> int:
    """`stat [-L] [-c FORMAT] FILE …`."""
    options, paths = options_of(argv, "c")
    code = 0
    for path in paths:
        file = process.machine.files.look(process.path(path))
        if file is None:
            code = process.complain(f"stat: can't stat '{path}': No such file or directory")
            continue
        values = _stat_values(path, file)
        if "c" in options:
            process.out(re.sub(r"%(.)", lambda found, v=values: v.get(found[1], "?"), options["c"]) + "\n")  # type: ignore[misc]
        else:
            process.out(
                f"  File: {path}\n  Size: {values['s']}\tBlocks: 8          IO Block: 4096   {values['F']}\n"
            )
            process.out(
                f"Access: ({int(values['a'], 8):04o}/{values['A']})  "
                "Uid: (    0/    root)   Gid: (    0/    root)\n"
            )
    return code


def _stat_values(path: str, file: File) -> dict[str, str]:
    kind = "directory" if file.is_directory else "regular file" if file.data else "regular empty file"
    bits = "".join(letter if file.mode >> (8 - n) & 1 else "-" for n, letter in enumerate("rwxrwxrwx"))
    when = datetime.fromtimestamp(file.changed, UTC)
    return {
        "n": path, "s": str(len(file.data or b"")), "a": f"{file.mode & 0o777:o}", "F": kind, "u": "0",
        "g": "0", "U": "root", "G": "root", "A": ("d" if file.is_directory else "-") + bits,
        "Y": str(int(file.changed)),
        "y": when.strftime("%Y-%m-%d %H:%M:%S.%f000 +0000"), "h": "1", "%": "%",
    }  # fmt: skip


async def _readlink(process: Process, argv: list[str]) -> int:
    """`readlink [-f] FILE` and `realpath FILE`."""
    options, paths = options_of(argv)
    code = 0
    for path in paths:
        full = process.path(path)
        if "f" in options or argv[0] == "realpath":
            process.out(f"{process.machine.files.resolved(full)}\n")
            continue
        file = process.machine.files.link_at(full)
        if file is None or not file.target:
            code = 1
        else:
            process.out(f"{file.target}\n")
    return code


async def _mktemp(process: Process, argv: list[str]) -> int:
    """Makes a file or, with `-d`, directory; its name counts up, the same in every run."""
    options, words = options_of(argv, "p")
    template = words[0] if words else f"{options.get('p') or '/tmp'}/tmp.XXXXXX"  # noqa: S108 - not the machine's
    files, number = process.machine.files, 0
    stem = template.rstrip("X")
    while True:
        path = process.path(f"{stem}{number:0{max(1, len(template) - len(stem))}d}")
        if files.look(path) is None:
            break
        number += 1
    if "d" in options:
        files.make_directory(path, process.timestamp())
    else:
        files.write(path, b"", process.timestamp(), mode=0o600)
    process.out(f"{path}\n")
    return 0


async def _du(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv, "d")
    for path in paths or ["."]:
        size = sum(len(file.data or b"") for _, file in process.machine.files.walk(process.path(path)))
        shown = f"{-(-size // 1024)}{'K' if 'h' in options else ''}"
        process.out(f"{shown}\t{path}\n")
    return 0


async def _truncate(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv, "s")
    for path in paths:
        file = process.machine.files.look(process.path(path))
        data = (file.data or b"") if file is not None else b""
        size = int(options.get("s") or 0)
        process.machine.files.write(process.path(path), data[:size].ljust(size, b"\0"), process.timestamp())
    return 0


async def _df(process: Process, _argv: list[str]) -> int:
    process.out("Filesystem           1K-blocks      Used Available Use% Mounted on\n")
    for path in ["/", *(mount.path for mount in process.machine.files.mounts)]:
        process.out(f"overlay              104857600         0 104857600   0% {path}\n")
    return 0


async def _test(process: Process, argv: list[str]) -> int:
    words = argv[1:]
    if argv[0] == "[[":
        return _conditional(process, words[:-1])
    if argv[0] == "[":
        if words[-1:] != ["]"]:
            return process.complain("sh: [: missing ]") + 1
        words = words[:-1]
    return _alternatives(process, words)


def _conditional(process: Process, words: list[str]) -> int:
    """Evaluates `[[ … ]]`: `&&` and `||`, patterns and regular expressions."""
    for operator, sufficient in (("||", 0), ("&&", 1)):
        if operator in words[1:-1]:
            at = words.index(operator, 1)
            left = _conditional(process, words[:at])
            return left if left == sufficient else _conditional(process, words[at + 1 :])
    if words[:1] == ["!"]:
        return int(not _conditional(process, words[1:]))
    if len(words) == 3 and words[1] in {"=", "==", "!="}:
        matches = fnmatch.fnmatchcase(words[0], words[2])
        return int(matches == (words[1] == "!="))
    if len(words) == 3 and words[1] == "=~":
        return int(compiled(words[2], extended=True).search(words[0]) is None)
    return _alternatives(process, words)


def _alternatives(process: Process, words: list[str]) -> int:
    for operator, sufficient in (("-o", 0), ("-a", 1)):
        if operator in words[1:-1]:
            at = words.index(operator, 1)
            left = _alternatives(process, words[:at])
            return left if left == sufficient else _alternatives(process, words[at + 1 :])
    if words[:1] == ["!"]:
        return int(not _alternatives(process, words[1:]))
    if len(words) == 3:
        return _compare(process, *words)
    if len(words) == 2:
        return int(not _holds(process, *words))
    return int(not (words and words[0]))


def _holds(process: Process, operator: str, value: str) -> bool:
    if operator in {"-n", "-z"}:
        return bool(value) == (operator == "-n")
    if operator in {"-L", "-h"}:
        link = process.machine.files.link_at(process.path(value))
        return link is not None and bool(link.target)
    if operator == "-t":
        return process.is_terminal
    if operator == "-v":
        return value in process.environment or value in process.variables
    try:
        found = process.machine.files.look(process.path(value)) if value else None
    except FileError:
        found = None
    if found is None:
        return False
    return {
        "-d": found.is_directory, "-f": not found.is_directory, "-s": bool(found.data) or found.is_directory,
        "-x": found.is_directory or bool(found.mode & 0o111),
    }.get(operator, True)  # fmt: skip


def _compare(process: Process, left: str, operator: str, right: str) -> int:
    texts = {
        "=": left == right,
        "==": left == right,
        "!=": left != right,
        "<": left < right,
        ">": left > right,
    }
    if operator in texts:
        return int(not texts[operator])
    try:
        one, two = int(left), int(right)
    except ValueError:
        process.complain(f"sh: {left if not re.fullmatch(r'-?[0-9]+', left) else right}: bad number")
        return 2
    results = {
        "-eq": one == two, "-ne": one != two, "-lt": one < two,
        "-le": one <= two, "-gt": one > two, "-ge": one >= two,
    }  # fmt: skip
    if operator not in results:
        process.complain(f"sh: {operator}: unknown operand")
        return 2
    return int(not results[operator])


FILE_COMMANDS: dict[str, Command] = {
    "ls": _ls, "touch": _touch, "mkdir": _mkdir, "rm": _rm, "rmdir": _rmdir, "cp": _copy, "mv": _copy,
    "chmod": _chmod, "chown": _chown, "chgrp": _chown, "readlink": _readlink, "realpath": _readlink,
    "mktemp": _mktemp, "du": _du, "truncate": _truncate, "ln": _ln,
     "basename": _basename, "dirname": _dirname,
    "stat": _stat, "df": _df, "test": _test, "[": _test, "[[": _test, "tar": tar,
}  # fmt: skip
