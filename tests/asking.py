"""Asking a running cluster as a tool without client certificates does: by bearer token, over HTTPS."""

import http.client
import json
import os
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PATIENCE_SECONDS = 40.0
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def advised(state: Path, command: str) -> str:
    """Returns a `kubeskew` command as messages advise it about the cluster of a directory that was given."""
    return f"`kubeskew --state-dir {shlex.quote(str(state))} {command}`"


@dataclass(frozen=True)
class Local:
    """A cluster in a state directory."""

    state: Path
    ups: list[str] = field(default_factory=list)  # when `up` returned, as logs write times

    def run(self, *arguments: str, code: int = 0, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """`kubeskew ARGUMENTS`, which must end with `code` and never with a traceback."""
        command = [sys.executable, "-m", "kubeskew", "--state-dir", str(self.state), *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with process:
            try:
                result = subprocess.CompletedProcess(command, code, *process.communicate(timeout=seconds))
            except BaseException:  # pytest's timeout too: it takes down a cluster of its own when interrupted
                process.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    process.communicate(timeout=30)
                process.kill()
                raise
        result.returncode = process.returncode
        assert (result.returncode, "Traceback" in result.stderr) == (code, False), (
            f"{arguments}: {result.returncode}\n{result.stderr}{result.stdout}"
        )
        if arguments[0] == "up":
            self.ups.append(datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"))
        return result

    def refused(self, *arguments: str, code: int = 2) -> str:
        """The one line that says why not."""
        lines = self.run(*arguments, code=code).stderr.splitlines()
        assert len(lines) == 1, lines
        return lines[0]

    def status(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.run("status", "-o", "json").stdout)
        return value

    def components(self) -> dict[str, dict[str, Any]]:
        return {row["component"]: row for row in self.status()["components"]}

    def versions(self) -> dict[str, str]:
        return {name: row["version"] for name, row in self.components().items()}

    def states(self) -> dict[str, str]:
        return {name: row["state"] for name, row in self.components().items()}

    def timeline(self) -> list[tuple[str, str]]:
        """(component, what happened to it), oldest first."""
        return [
            (event["object"].removeprefix("component "), event["verb"])
            for event in self.events()
            if event["object"].startswith("component ")
        ]

    def events(self) -> list[dict[str, Any]]:
        """Returns what `kubeskew events` shows, oldest first."""
        events: list[dict[str, Any]] = json.loads(self.run("events", "-o", "json").stdout)
        return events

    def port(self, server: str = "apiserver") -> int:
        """Returns the port of an API server, or `any`: the one that several share."""
        if server == "any":
            return int(self.record()["sharedPort"])
        return next(p["port"] for p in self.record()["processes"] if p["name"] == server)

    def record(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.state / "state.json").read_text())
        return value

    def connect(self, server: str = "apiserver") -> http.client.HTTPSConnection:
        tls = ssl.create_default_context(cafile=str(self.state / "ca.crt"))
        return http.client.HTTPSConnection("127.0.0.1", self.port(server), context=tls, timeout=30)

    def headers(self) -> Mapping[str, str]:
        token = (self.state / "admin.token").read_text().strip()
        return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def ask(self, method: str, path: str, body: Any = None, server: str = "apiserver") -> tuple[int, Any]:
        """Status and JSON of an answer."""
        connection = self.connect(server)
        try:
            connection.request(method, path, json.dumps(body) if body else None, dict(self.headers()))
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def get(self, path: str, server: str = "apiserver") -> Any:
        status, value = self.ask("GET", path, server=server)
        assert status == 200, value
        return value

    def create(self, path: str, value: Mapping[str, Any], server: str = "apiserver") -> Any:
        status, made = self.ask("POST", path, value, server=server)
        assert status == 201, made
        return made


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}}


def eventually(holds: Callable[[], bool]) -> None:
    """Return when it holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def crash(local: Local) -> None:
    """Leaves what a crash of the machine leaves: no process, and a record that believes in them."""
    pids = {process["pid"] for process in local.record()["processes"]}
    for pid in pids - {0}:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not any(runs(pid) for pid in pids - {0}))


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def hold_port() -> socket.socket:
    """A listener on a port of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.listen()
    return listener
