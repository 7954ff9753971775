"""Commands that make, move, show and test files."""

import posixpath
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from kubelet.shell.archive import tar
from kubelet.shell.files import File, FileError, join
from kubelet.shell.options import options_of
from kubelet.shell.process import Process

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
    """`cp` and `mv`."""
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


async def _chmod(process: Process, argv: list[str]) -> int:
    _, words = options_of(argv)
    for path in words[1:]:
        found = process.machine.files.look(process.path(path))
        if found is None:
            return process.complain(f"chmod: {path}: No such file or directory")
        mode = found.mode
        if words[0].isdigit():
            mode = int(words[0], 8)
        elif "x" in words[0]:
            mode = mode & ~0o111 if "-" in words[0] else mode | 0o111
        process.machine.files.change_mode(process.path(path), mode)
    return 0


async def _ln(process: Process, argv: list[str]) -> int:
    _, words = options_of(argv)
    if len(words) == 2:
        process.machine.files.link(process.path(words[1]), words[0], process.timestamp())
    return 0


async def _find(process: Process, argv: list[str]) -> int:
    import fnmatch

    paths = [word for word in argv[1:2] if not word.startswith("-")] or ["."]
    rest = argv[1 + len(paths) :] if argv[1:2] == paths else argv[1:]
    wanted = dict(zip(rest[::2], rest[1::2], strict=False))
    for path in paths:
        full = process.path(path)
        for found, file in process.machine.files.walk(full):
            kind = "d" if file.is_directory else "f"
            named = fnmatch.fnmatchcase(posixpath.basename(found), wanted.get("-name", "*"))
            if wanted.get("-type", kind) == kind and named:
                process.out(path.rstrip("/") + found[len(full.rstrip("/")) :] + "\n")
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
    _, paths = options_of(argv, "c")
    for path in paths:
        found = process.machine.files.look(process.path(path))
        if found is None:
            return process.complain(f"stat: can't stat '{path}': No such file or directory")
        process.out(f"  File: {path}\n  Size: {len(found.data or b'')}\n")
    return 0


async def _df(process: Process, _argv: list[str]) -> int:
    process.out("Filesystem           1K-blocks      Used Available Use% Mounted on\n")
    for path in ["/", *(mount.path for mount in process.machine.files.mounts)]:
        process.out(f"overlay              104857600         0 104857600   0% {path}\n")
    return 0


async def _test(process: Process, argv: list[str]) -> int:
    words = argv[1:]
    if argv[0] == "[":
        if words[-1:] != ["]"]:
            return process.complain("sh: [: missing ]") + 1
        words = words[:-1]
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
    try:
        found = process.machine.files.look(process.path(value)) if value else None
    except FileError:
        found = None
    if found is None:
        return False
    return {
        "-d": found.is_directory, "-f": not found.is_directory, "-s": bool(found.data) or found.is_directory,
        "-x": found.is_directory or bool(found.mode & 0o111), "-L": False, "-h": False,
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
        process.complain(f"sh: {left}: bad number")
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
    "chmod": _chmod, "chown": _chmod, "ln": _ln, "find": _find, "basename": _basename, "dirname": _dirname,
    "stat": _stat, "df": _df, "test": _test, "[": _test, "[[": _test, "tar": tar,
}  # fmt: skip
