"""The command `awk`."""

import re

from kubeskew.kubelet.containers.execution.process import BytesInput, Process
from kubeskew.kubelet.containers.tools.awk.reading import Reader
from kubeskew.kubelet.containers.tools.awk.running import Awk
from kubeskew.kubelet.containers.tools.awk.symbols import AwkError, unescaped
from kubeskew.kubelet.containers.tools.awk.values import Input
from kubeskew.kubelet.containers.tools.inputs import inputs, text_of

_SYNTAX_ERROR = 1
_FATAL = 2
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


async def awk(process: Process, argv: list[str]) -> int:
    """`awk [-F SEPARATOR] [-v NAME=VALUE] ['PROGRAM' | -f FILE] [FILE | NAME=VALUE …]`."""
    separator, assigned, program, paths = _arguments(process, argv[1:])
    if program is None:
        return process.complain("Usage: awk [-v VAR=VAL] [-F SEP] [-f FILE] [AWK_PROGRAM] [FILE]...")
    try:
        tree = Reader(program).program()
    except (AwkError, IndexError) as error:
        process.complain(f"awk: cmd. line:1: {error}")
        return _SYNTAX_ERROR
    output = _Output(process)
    run = Awk(tree, output.write, process.environment, process.timestamp())
    if separator is not None:
        run.variables["FS"] = "\t" if separator == "t" else unescaped(separator)
    run.variables |= {name: Input(unescaped(value)) for name, value in assigned}
    run.variables["ARGC"] = float(len(paths) + 1)
    run.variables["ARGV"] = {str(n): Input(word) for n, word in enumerate(["awk", *paths])}
    code = 0
    try:
        if run.begin():
            code = await _read_all(process, run, paths)
            run.end()
    except AwkError as error:
        await output.flush()
        process.complain(f"awk: cmd. line:1: {error}")
        return _FATAL
    except ValueError as error:
        await output.flush()
        process.complain(f"awk: bad regex: {error}")
        return _FATAL
    await output.flush()
    return run.code or code


async def _read_all(process: Process, run: Awk, paths: list[str]) -> int:
    code, read_any = 0, False
    for path in [*paths, ""]:
        if _ASSIGNMENT.match(path):
            name, _, value = path.partition("=")
            run.variables[name] = Input(unescaped(value))
            continue
        if path == "" and read_any:
            break
        read_any = True
        found, failed = await inputs(process, "awk", [path or "-"])
        code = _FATAL if failed else code
        for _, data in found:
            if not run.read(path, text_of(data)):
                return code
    return code


class _Output:
    """Collects the program's output: for standard output in order, for commands until it has ended."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._opened: set[str] = set()
        self._piped: dict[str, bytearray] = {}

    def write(self, how: str, name: str, text: str) -> None:
        process = self._process
        data = text.encode("utf-8", "surrogateescape")
        if how in {"|", "system"}:
            self._piped.setdefault(name, bytearray()).extend(data)
        elif not how or name in {"/dev/stdout", "-"}:
            process.stdout(data)
        elif name in {"/dev/stderr", "cat 1>&2"}:
            process.stderr(data)
        else:
            fresh = name not in self._opened and how == ">"
            self._opened.add(name)
            process.machine.files.write(process.path(name), data, process.timestamp(), append=not fresh)

    async def flush(self) -> None:
        piped, self._piped = self._piped, {}
        for command, data in piped.items():
            if self._process.run_text is not None:
                await self._process.run_text(self._process.child(stdin=BytesInput(bytes(data))), command)


def _arguments(
    process: Process, words: list[str]
) -> tuple[str | None, list[tuple[str, str]], str | None, list[str]]:
    """(separator, assignments, program, the other words)."""
    separator: str | None = None
    assigned: list[tuple[str, str]] = []
    programs: list[str] = []
    while words and words[0].startswith("-") and words[0] != "-":
        word = words.pop(0)
        if word == "--":
            break
        letter = word[1]
        if letter not in "Fvf":
            continue
        value = word[2:] or (words.pop(0) if words else "")
        if letter == "F":
            separator = value
        elif letter == "v":
            name, _, text = value.partition("=")
            assigned.append((name, text))
        else:
            programs.append(process.machine.files.read(process.path(value)).decode("utf-8", "replace"))
    if not programs and words:
        programs.append(words.pop(0))
    return separator, assigned, "\n".join(programs) if programs else None, words
