"""Runs whole scripts: a text at once, or the standard input line by line, with a prompt on a terminal."""

from kubeskew.kubelet.containers.execution.process import Process
from kubeskew.kubelet.containers.execution.waiting import ExitError
from kubeskew.kubelet.containers.shell import parsing
from kubeskew.kubelet.containers.shell.statements import ReturnError, run_tree


async def run_script(process: Process, text: str) -> int:
    """Runs a whole script in a shell of its own."""
    try:
        script = parsing.parse(text)
    except parsing.ShellSyntaxError as error:
        process.complain(f"{process.shell}: {error}")
        return 2
    try:
        return await run_tree(process, script)
    except (ExitError, ReturnError) as end:
        return end.code


async def converse(process: Process) -> int:
    """Runs line by line, until the input ends or `exit`; returns the exit code."""
    held, text = "", ""
    while True:
        if process.is_terminal:
            process.out("> " if text else _prompt(process))
        while "\n" not in held:
            data = await process.stdin.read()
            if not data:
                return await _last(process, text + held)
            held += data.decode("utf-8", "replace")
        line, _, held = held.partition("\n")
        text += line + "\n"
        try:
            script = parsing.parse(text)
        except parsing.ShellSyntaxError as error:
            if not _may_go_on(str(error)):
                process.complain(f"{process.shell}: {error}")
                process.status, text = 2, ""
            continue
        text = ""
        try:
            await run_tree(process, script)
        except ExitError as end:
            return end.code


async def _last(process: Process, text: str) -> int:
    if text.strip():
        return await run_script(process, text)
    if process.is_terminal:
        process.out("\n")
    return process.status


def _prompt(process: Process) -> str:
    return f"{process.directory} # "


def _may_go_on(error: str) -> bool:
    """Returns whether more lines could complete the script."""
    return "unterminated" in error or error.endswith("unexpected newline")
