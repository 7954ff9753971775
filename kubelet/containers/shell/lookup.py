"""Finds what a name stands for: a command of the fake's table, a shell, a script among the files."""

from kubeskew.kubelet.containers.execution.files import FileError
from kubeskew.kubelet.containers.execution.process import Process
from kubeskew.kubelet.containers.execution.waiting import ExitError, sleep
from kubeskew.kubelet.containers.shell.commands import COMMANDS

SHELLS = frozenset({"sh", "bash", "ash", "dash"})
FOREVER = float("inf")


def knows(name: str) -> bool:
    """Returns whether there is such a command; directories before its name are ignored."""
    base = name.rsplit("/", 1)[-1]
    return base in COMMANDS or base in SHELLS


def may_use_files_or_variables(argv: list[str]) -> bool:
    """Returns whether a command may depend on files or variables."""
    return any(sign in word for word in argv for sign in ("$", "/", "`", "env", "export", "<")) or (
        argv[0].rsplit("/", 1)[-1] not in {"sleep", "true", "false", "exit", "echo", *SHELLS}
    )


async def script_at(process: Process, path: str) -> str:
    """Returns the script at the path. One that only the image can have runs until it is stopped."""
    try:
        return process.machine.files.read(process.path(path)).decode("utf-8", "replace")
    except FileError as error:
        if process.machine.assumes_programs:
            await sleep(FOREVER)
        process.complain(f"sh: can't open '{path}': {error.text}")
        raise ExitError(2) from None
