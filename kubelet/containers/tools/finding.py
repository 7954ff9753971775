"""`find`."""

import fnmatch
import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from kubeskew.kubelet.containers.execution.files import File, FileError
from kubeskew.kubelet.containers.execution.process import Process

_SIZES = {"": 512, "b": 512, "c": 1, "w": 2, "k": 1024, "M": 1 << 20, "G": 1 << 30}


@dataclass(slots=True)
class _Found:
    path: str
    file: File
    full: str
    pruned: bool = False


Test = Callable[[_Found], bool]


@dataclass(slots=True)
class _Search:
    process: Process
    words: list[str]
    deepest: int = 1 << 30
    highest: int = 0
    acts: bool = False
    depth_first: bool = False
    commands: list[tuple[list[str], str]] = field(default_factory=list)  # to be run
    gathered: list[tuple[list[str], list[str]]] = field(default_factory=list)  # for `-exec … +`


async def find(process: Process, argv: list[str]) -> int:
    """`find [PATH …] [TEST …] [-print | -print0 | -delete | -exec COMMAND ; | -exec COMMAND +]`."""
    words, paths = argv[1:], []
    while words and not words[0].startswith("-") and words[0] not in {"(", "!"}:
        paths.append(words.pop(0))
    search = _Search(process, words)
    test = _alternatives(search)
    if search.words:
        return process.complain(f"find: unrecognized: {search.words[0]}")
    code = 0
    for path in paths or ["."]:
        try:
            found = [*_below(search, path)]
        except FileError as error:
            code = process.complain(f"find: {path}: {error.text}")
            continue
        if search.depth_first:
            found.sort(key=lambda one: -one.path.count("/"))
        pruned: list[str] = []
        for one in found:
            if any(one.full.startswith(f"{top}/") for top in pruned):
                continue
            if test(one) and not search.acts:
                process.out(f"{one.path}\n")
            if one.pruned:
                pruned.append(one.full)
            code = await _run_commands(search) or code
    for command, gathered in search.gathered:
        if gathered and process.run is not None:
            code = await process.run(process.child(), [*command, *gathered]) or code
    return code


def _below(search: _Search, path: str) -> list[_Found]:
    full = search.process.path(path)
    base = path.rstrip("/") if path != "/" else ""
    found = []
    for where, file in search.process.machine.files.walk(full):
        inner = where[len(full.rstrip("/")) :]
        if search.highest <= inner.count("/") <= search.deepest:
            found.append(_Found(base + inner if inner else path, file, where))
    return found


async def _run_commands(search: _Search) -> int:
    commands, search.commands = search.commands, []
    for command, path in commands:
        if search.process.run is not None:
            await search.process.run(search.process.child(), [word.replace("{}", path) for word in command])
    return 0


def _alternatives(search: _Search) -> Test:
    tests = [_conjunction(search)]
    while search.words[:1] in (["-o"], ["-or"]):
        search.words.pop(0)
        tests.append(_conjunction(search))
    return tests[0] if len(tests) == 1 else lambda one: any(test(one) for test in tests)


def _conjunction(search: _Search) -> Test:
    tests: list[Test] = []
    while search.words and search.words[0] not in {"-o", "-or", ")"}:
        if search.words[0] in {"-a", "-and"}:
            search.words.pop(0)
        else:
            tests.append(_test(search))
    return lambda one: all(test(one) for test in tests)


def _test(search: _Search) -> Test:
    word = search.words.pop(0)
    if word in {"!", "-not"}:
        inner = _test(search)
        return lambda one: not inner(one)
    if word == "(":
        inner = _alternatives(search)
        search.words.pop(0)
        return inner
    if word in {"-print", "-print0", "-delete", "-prune", "-exec", "-depth", "-empty", "-true"}:
        return _action(search, word)
    if not search.words:
        raise ValueError(word)
    value = search.words.pop(0)
    if word == "-maxdepth":
        search.deepest = int(value)
        return lambda _: True
    if word == "-mindepth":
        search.highest = int(value)
        return lambda _: True
    return _valued(search, word, value)


def _valued(search: _Search, word: str, value: str) -> Test:
    if word in {"-name", "-iname"}:
        wanted = re.compile(fnmatch.translate(value), re.IGNORECASE if word == "-iname" else 0)
        return lambda one: wanted.match(posixpath.basename(one.path)) is not None
    if word in {"-path", "-wholename"}:
        return lambda one: fnmatch.fnmatchcase(one.path, value)
    if word == "-type":
        kinds = value.split(",")
        return lambda one: ("d" if one.file.is_directory else "l" if one.file.target else "f") in kinds
    if word == "-size":
        found = re.fullmatch(r"([+-]?)(\d+)([bcwkMG]?)", value)
        if found is None:
            raise ValueError(value)
        unit, count = _SIZES[found[3]], int(found[2])
        return lambda one: _compared(found[1], -(-len(one.file.data or b"") // unit), count)
    if word in {"-mmin", "-mtime"}:
        unit, now = (60 if word == "-mmin" else 86400), search.process.timestamp()
        sign, count = (value[0] if value[0] in "+-" else ""), int(value.lstrip("+-"))
        return lambda one: _compared(sign, int((now - one.file.changed) // unit), count)
    if word == "-newer":
        other = search.process.machine.files.look(search.process.path(value))
        return lambda one: other is not None and one.file.changed > other.changed
    if word == "-perm":
        return lambda one: one.file.mode & 0o777 == int(value.lstrip("-/"), 8)
    if word == "-user":
        return lambda _: value in {"root", "0"}
    raise ValueError(word)


def _compared(sign: str, amount: int, count: int) -> bool:
    return amount > count if sign == "+" else amount < count if sign == "-" else amount == count


def _action(search: _Search, word: str) -> Test:
    process = search.process
    if word == "-true":
        return lambda _: True
    if word == "-empty":
        return lambda one: (
            not process.machine.files.names(one.full) if one.file.is_directory else not one.file.data
        )
    if word == "-depth":
        search.depth_first = True
        return lambda _: True
    if word == "-prune":

        def prune(one: _Found) -> bool:
            one.pruned = True
            return True

        return prune
    search.acts = True
    if word == "-delete":
        search.depth_first = True

        def delete(one: _Found) -> bool:
            process.machine.files.remove(one.full)
            return True

        return delete
    if word == "-exec":
        return _execution(search)
    end = "\n" if word == "-print" else "\0"

    def show(one: _Found) -> bool:
        process.out(one.path + end)
        return True

    return show


def _execution(search: _Search) -> Test:
    at = next((n for n, word in enumerate(search.words) if word == ";" or (word == "+" and n)), None)
    if at is None:
        raise ValueError("-exec")
    command, end = search.words[:at], search.words[at]
    search.words[: at + 1] = []
    gathered: list[str] = []
    if end == "+":
        search.gathered.append((command[:-1], gathered))

    def execute(one: _Found) -> bool:
        if end == "+":
            gathered.append(one.path)
        else:
            search.commands.append((command, one.path))
        return True

    return execute
