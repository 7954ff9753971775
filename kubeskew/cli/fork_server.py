"""`python -m kubeskew.cli.fork_server SOCKET [--often] KIND…`: forks components, which need not import.

It serves one command, over a socket that it inherits, and ends with it. The forked process is the component
as `python -m kubeskew KIND …` would be: a session, a log, an environment and arguments of its own. Nothing
here may start a thread, an event loop or gRPC, because a child would inherit them in part.
"""

import ctypes
import gc
import importlib
import json
import logging
import os
import pkgutil
import select
import signal
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

REQUEST_BYTES = 1 << 17
_PR_SET_PDEATHSIG = 1  # linux/prctl.h

# what `apimachinery/process/component.py` imports for every client
_SURROUNDINGS = ("apimachinery.client.faults", "apimachinery.process.listeners")
# kind → what it imports until it is ready
MODULES = {
    "apiserver": (
        "apiserver.cli",
        "apiserver.server",
        "apiserver.storage.sql_log",
        "apiserver.storage.store",
    ),
    "controller-manager": (*_SURROUNDINGS, "controllers.cli", "controllers.manager"),
    "scheduler": (
        *_SURROUNDINGS,
        "scheduler.cli",
        "scheduler.scheduler",
        "scheduler.resource_metrics",
    ),
    "kubelet": (*_SURROUNDINGS, "kubelet.cli", "kubelet.host"),
    "driver": (
        *_SURROUNDINGS,
        "kubelet.drivers.cli",
        "kubelet.drivers.host",
        "kubelet.drivers.example_device_plugin",
    ),
    "driver-controller": (
        *_SURROUNDINGS,
        "kubelet.drivers.cli",
        "kubelet.drivers.controller_host",
    ),
    "metrics-server": (*_SURROUNDINGS, "metricsserver.cli", "metricsserver.server"),
    "network": (
        *_SURROUNDINGS,
        "kubelet.containers.host.network.cli",
        "kubelet.containers.host.network.component",
    ),
    "shim": (*_SURROUNDINGS, "shim.cli", "shim.host"),
}
# kind → packages of which it imports most when it is used, and libraries that come with them
PACKAGES = {"apiserver": ("apimachinery.cel", "apiserver"), "kubelet": ("kubelet",)}
LIBRARIES = {"apiserver": ("_strptime", "cryptography.hazmat.primitives.serialization", "cryptography.x509")}
EXTRAS = ("kubeskew.apiserver.storage.postgresql.",)  # need libraries that may not be there
_COMMON = ("kubeskew.cli.main", "uvloop", "concurrent.futures.thread", "encodings.idna")


class ForkServer:
    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._poll = select.poll()
        self._poll.register(requests, select.POLLIN)

    def serve(self) -> list[str] | None:
        """A forked process gets the arguments of its component; the server gets None, once its client has
        ended.
        """
        while True:
            message, descriptors, _, _ = socket.recv_fds(self._requests, REQUEST_BYTES, 1)
            if not message:
                return None
            request = json.loads(message)
            import_all(first_modules(request["arguments"][:1]))
            if self._is_deserted():
                return None
            gc.freeze()  # else the child's collector would write to all of it, and so copy it
            server = os.getpid()
            pid = os.fork()
            if pid == 0:
                self._requests.close()
                if request["dependent"]:
                    end_with(server)
                become(request, descriptors[0])
                arguments: list[str] = request["arguments"]
                return arguments
            os.close(descriptors[0])
            self._requests.send(json.dumps(pid).encode())

    def _is_deserted(self) -> bool:
        """Nobody would know of processes that are forked now."""
        return any(events & select.POLLHUP for _, events in self._poll.poll(0))


def first_modules(kinds: Iterable[str]) -> list[str]:
    """Components of these kinds need them until they are ready."""
    return [*_COMMON, *(f"kubeskew.{module}" for kind in kinds for module in MODULES.get(kind, ()))]


def all_modules(kinds: Iterable[str]) -> Iterator[str]:
    """Components of these kinds may need them later."""
    yield from (library for kind in kinds for library in LIBRARIES.get(kind, ()))
    for package in (f"kubeskew.{name}" for kind in kinds for name in PACKAGES.get(kind, ())):
        found = pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
        yield from (module.name for module in found if not module.name.startswith(EXTRAS))


def import_all(modules: Iterable[str]) -> None:
    for module in modules:
        importlib.import_module(module)


def become(request: Mapping[str, Any], log: int) -> None:
    """Applies the request's session, directory, environment and output to a forked process."""
    os.setsid()
    os.umask(0o077)
    os.chdir(request["directory"])
    for name, value in request["environment"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    gc.enable()
    show([*sys.orig_argv[:2], "-m", "kubeskew", *request["arguments"]])


def end_with(parent: int) -> None:
    """This process gets SIGTERM when its parent ends, and ends at once if the parent has ended already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGTERM)


def show(arguments: Iterable[str]) -> None:
    """Replaces the arguments that `ps` shows for this process.

    Linux takes them from the process' own memory: up to the first NUL, if the last byte is none.
    """
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = map(int, fields[45:47])
    room = end - start
    line = " ".join(arguments).encode()[: room - 2]
    ctypes.memmove(start, line.ljust(room - 1, b"\0") + b" ", room)


def reap(_number: int, _frame: FrameType | None) -> None:
    """SIGCHLD's handler: collects the exit status of forked processes that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main(descriptor: str, *kinds: str) -> None:
    gc.disable()  # importing makes many objects and frees few
    signal.signal(signal.SIGCHLD, reap)
    import_all(first_modules(kinds))
    if "--often" in kinds:
        import_all(all_modules(kinds))
    arguments = ForkServer(socket.socket(fileno=int(descriptor))).serve()
    if arguments is None:
        os._exit(0)
    leave(run(arguments))


def run(arguments: list[str]) -> int:
    from kubeskew.cli.main import main as kubeskew

    try:
        kubeskew(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def leave(code: int) -> NoReturn:
    """Ends the process without taking the interpreter down module by module, which takes 40 ms of CPU.

    A component that returns has stopped its threads and closed its files; only the last lines of its log are
    flushed.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:-1])  # the last one keeps the place of a component's arguments
