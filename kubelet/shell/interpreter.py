"""Runs scripts: redirects, pipes, loops; commands come from a table."""

import re
from collections.abc import Callable
from dataclasses import replace

from kubelet.shell import parsing
from kubelet.shell.commands import COMMANDS
from kubelet.shell.expanding import expand, expand_one
from kubelet.shell.files import FileError
from kubelet.shell.parsing import Command, For, Group, If, Loop, Redirect, Script, Statement
from kubelet.shell.process import BytesInput, ExitError, Process, gather, sleep

NOT_FOUND = 127
SHELLS = frozenset({"sh", "bash", "ash", "dash"})
FOREVER = float("inf")


class BreakError(Exception):
    """Leaves a loop, or with `again` begins its next round."""

    def __init__(self, *, again: bool) -> None:
        super().__init__()
        self.again = again


def knows(name: str) -> bool:
    """Whether there is such a command; directories before it do not matter."""
    base = name.rsplit("/", 1)[-1]
    return base in COMMANDS or base in SHELLS


def looks_around(argv: list[str]) -> bool:
    """Whether what a command does may depend on files or variables."""
    return any(sign in word for word in argv for sign in ("$", "/", "`", "env", "export", "<")) or (
        argv[0].rsplit("/", 1)[-1] not in {"sleep", "true", "false", "exit", "echo", *SHELLS}
    )


async def run(process: Process, argv: list[str]) -> int:
    """Run one command; gives its exit code."""
    process.run, process.run_text = run, run_script
    name = argv[0].rsplit("/", 1)[-1]
    if name in SHELLS:
        return await _run_shell(process, argv)
    command = COMMANDS.get(name)
    if command is None:
        return await _run_file(process, argv)
    try:
        return await command(process, [name, *argv[1:]])
    except FileError as error:
        return process.complain(f"{name}: {error.text}")
    except (ValueError, re.error):
        return process.complain(f"{name}: invalid argument")


async def _run_file(process: Process, argv: list[str]) -> int:
    """A script that lies at the path, or nothing that is known."""
    if "/" in argv[0]:
        found = process.machine.files.look(process.path(argv[0]))
        if found is not None and found.data is not None and found.data.strip():
            inner = process.child(arguments=argv)
            return await run_script(inner, found.data.decode("utf-8", "replace"))
    if process.machine.is_main:
        await sleep(FOREVER)
    process.complain(f"sh: {argv[0]}: not found")
    return NOT_FOUND


async def _run_shell(process: Process, argv: list[str]) -> int:
    """A shell of its own: `-c SCRIPT`, a file, or what comes from the standard input."""
    process = _new_shell(process, argv[0].rsplit("/", 1)[-1])
    options = [word for word in argv[1:] if word.startswith("-") and word not in {"-", "--"}]
    rest = argv[1 + len(options) :]
    if any("c" in option for option in options if not option.startswith("--")):
        if not rest:
            return process.complain(f"{argv[0]}: -c requires an argument") + 1
        return await run_script(process.child(arguments=rest[1:] or [argv[0]]), rest[0])
    inner = process.child(arguments=rest or [argv[0]])
    if rest:
        return await run_script(inner, await _script_at(process, rest[0]))
    from kubelet.shell.interactive import converse

    return await converse(inner)


def _new_shell(process: Process, name: str) -> Process:
    """What a shell has and exports before it reads anything."""
    inner = process.child(variables={}, shell=name)
    level = inner.environment.get("SHLVL", "")
    inner.environment |= {"PWD": inner.directory, "SHLVL": str(int(level) + 1 if level.isdecimal() else 1)}
    if name == "bash" and "OLDPWD" not in inner.environment:
        inner.unset_exports.add("OLDPWD")
    return inner


async def _script_at(process: Process, path: str) -> str:
    """The script that lies there. One that only the image can have runs until it is stopped."""
    try:
        return process.machine.files.read(process.path(path)).decode("utf-8", "replace")
    except FileError as error:
        if process.machine.is_main:
            await sleep(FOREVER)
        process.complain(f"sh: can't open '{path}': {error.text}")
        raise ExitError(2) from None


async def run_script(process: Process, text: str) -> int:
    """A whole script in a shell of its own."""
    try:
        script = parsing.parse(text)
    except parsing.ShellSyntaxError as error:
        process.complain(f"sh: {error}")
        return 2
    try:
        return await run_tree(process, script)
    except ExitError as end:
        return end.code


async def run_tree(process: Process, script: Script) -> int:
    """The pipelines, one after the other; gives the code of the last. Raises ExitError."""
    for pipeline in script.pipelines:
        code = process.status
        if (pipeline.operator == "&&" and code) or (pipeline.operator == "||" and not code):
            continue
        code = await _pipeline(process, pipeline.statements)
        process.status = int(not code) if pipeline.negated else code
        if process.status and "e" in process.variables.get("-", "") and not pipeline.negated:
            raise ExitError(process.status)
    return process.status


async def _pipeline(process: Process, statements: list[Statement]) -> int:
    """Each command runs to its end before the next one reads what it wrote."""
    stdin = process.stdin
    for statement in statements[:-1]:
        collected = bytearray()
        inner = process.child(stdin=stdin, stdout=gather(collected))
        await _ended(inner, statement)
        stdin = BytesInput(bytes(collected))
    if len(statements) == 1:
        return await _statement(process, statements[0])
    return await _ended(process.child(stdin=stdin), statements[-1])


async def _ended(process: Process, statement: Statement) -> int:
    """A statement in a shell of its own."""
    try:
        return await _statement(process, statement)
    except ExitError as end:
        return end.code


async def _statement(process: Process, statement: Statement) -> int:
    if isinstance(statement, Command):
        return await _command(process, statement)
    try:
        inner = await _redirected(process, statement.redirects)
    except FileError as error:
        return process.complain(f"sh: {error.text}")
    if isinstance(statement, Group):
        if not statement.subshell:
            return await _shared(process, inner, statement.body)
        try:
            return await run_tree(inner.child(), statement.body)
        except ExitError as end:
            return end.code
    if isinstance(statement, If):
        return await _if(process, inner, statement)
    if isinstance(statement, For):
        return await _for(process, inner, statement)
    return await _loop(process, inner, statement)


async def _shared(process: Process, inner: Process, script: Script) -> int:
    """Run with the outputs of `inner`; variables and directory are those of `process`."""
    try:
        return await run_tree(inner, script)
    finally:
        process.directory, process.status = inner.directory, inner.status


async def _if(process: Process, inner: Process, statement: If) -> int:
    for condition, body in statement.branches:
        if condition is None or await _shared(process, inner, condition) == 0:
            return await _shared(process, inner, body)
    return 0


async def _for(process: Process, inner: Process, statement: For) -> int:
    code = 0
    for value in await expand(process, statement.words):
        inner.variables[statement.name] = value
        await sleep(0)
        try:
            code = await _shared(process, inner, statement.body)
        except BreakError as error:
            if not error.again:
                break
    return code


async def _loop(process: Process, inner: Process, statement: Loop) -> int:
    code = 0
    while True:
        await sleep(0)
        try:
            holds = await _shared(process, inner, statement.condition) == 0
            if holds == statement.negated:
                return code
            code = await _shared(process, inner, statement.body)
        except BreakError as error:
            if not error.again:
                return code


async def _command(process: Process, command: Command) -> int:
    assigned = {name: await expand_one(process, word) for name, word in command.assignments}
    argv = await expand(process, command.words)
    try:
        inner = await _redirected(process, command.redirects)
    except FileError as error:
        return process.complain(f"sh: {error.text}")
    if not argv:
        for name, value in assigned.items():
            process.assign(name, value)
        return 0
    if argv[0] in {"break", "continue"}:
        raise BreakError(again=argv[0] == "continue")
    if argv[0] == "exec" and len(argv) > 1:
        raise ExitError(await run(inner, argv[1:]))
    if argv[0] in {"eval", "."}:
        return await _evaluated(process, inner, argv)
    saved = dict(inner.environment)
    inner.environment.update(assigned)
    try:
        code = await run(inner, argv)
    finally:
        if assigned:
            inner.environment.clear()
            inner.environment.update(saved)
        process.directory = inner.directory
    return code


async def _evaluated(process: Process, inner: Process, argv: list[str]) -> int:
    if argv[0] == "eval":
        text = " ".join(argv[1:])
    elif len(argv) > 1:
        text = await _script_at(process, argv[1])
    else:
        process.complain("sh: .: filename argument required")
        return 2
    try:
        return await _shared(process, inner, parsing.parse(text))
    except parsing.ShellSyntaxError as error:
        process.complain(f"sh: {error}")
        return 2


# -- redirects


async def _redirected(process: Process, redirects: list[Redirect]) -> Process:
    """A process that shares variables with `process`, with its inputs and outputs where they are to go."""
    inner = replace(process)
    for redirect in redirects:
        target = await expand_one(process, redirect.target)
        _redirect(inner, redirect, target)
    return inner


def _redirect(inner: Process, redirect: Redirect, target: str) -> None:
    if redirect.operator == ">&" and target in {"1", "2"}:
        output = inner.stdout if target == "1" else inner.stderr
        if redirect.descriptor == "2":
            inner.stderr = output
        else:
            inner.stdout = output
    elif redirect.operator.startswith("<"):
        inner.stdin = BytesInput(_read(inner, target))
    else:
        writer = _writer(inner, target, append=redirect.operator == ">>")
        if redirect.descriptor in {"1", "&"}:
            inner.stdout = writer
        if redirect.descriptor in {"2", "&"}:
            inner.stderr = writer


def _read(process: Process, target: str) -> bytes:
    try:
        return process.machine.files.read(process.path(target))
    except FileError as error:
        raise FileError(f"can't open {target}: {error.text.lower()}") from None


def _writer(process: Process, target: str, *, append: bool) -> Callable[[bytes], None]:
    path, files = process.path(target), process.machine.files
    if path == "/dev/null":
        return lambda _: None
    if path in {"/dev/stdout", "/proc/1/fd/1", "/dev/fd/1"}:
        return process.stdout
    if path in {"/dev/stderr", "/proc/1/fd/2", "/dev/fd/2"}:
        return process.stderr
    try:
        files.write(path, b"", process.timestamp(), append=append)
    except FileError as error:
        raise FileError(f"can't create {target}: {error.text}") from None
    return lambda data: files.write(path, data, process.timestamp(), append=True)
