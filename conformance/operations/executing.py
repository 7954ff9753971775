"""`exec`: runs a command in a container of a pod.

It speaks the WebSocket protocol of kubectl exec (v4.channel.k8s.io), over a connection of its own to the API
server's address: a simulated server takes such connections, too.
"""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp

from kubeskew.apimachinery.client.kubeconfig import load_kubeconfig
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.durations import seconds
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.operations.outputs import bind_outputs
from kubeskew.conformance.scenario import Operation

_PROTOCOL = "v4.channel.k8s.io"
_STDOUT, _STDERR, _END = 1, 2, 3
_SHOWN = 2000  # characters of what a command has written


@dataclass(slots=True)
class Execution:
    """Holds what a command wrote and how it ended; without an exit code, `failure` says why it has none."""

    output: dict[int, bytearray] = field(default_factory=lambda: {_STDOUT: bytearray(), _STDERR: bytearray()})
    exit_code: int | None = None
    failure: str = "the connection ended before the command"

    def text(self, *channels: int) -> str:
        return b"".join(self.output[channel] for channel in channels).decode(errors="replace")

    def end(self, status: Mapping[str, Any]) -> None:
        """Takes note of the Status that ends an execution."""
        if status.get("status") == "Success":
            self.exit_code = 0
            return
        self.failure = str(status.get("message") or "")
        for cause in (status.get("details") or {}).get("causes") or ():
            if cause.get("reason") == "ExitCode":
                self.exit_code = int(cause["message"])


async def exec_(ctx: CellContext, operation: Operation) -> None:
    """Run a command in a pod once: `exec: {name: a, command: [cat, /etc/hostname], matches: ^a$}`.

    `container` where there are several. It has to end with the `exitCode` (0), and a line of what it writes
    has to match `matches`. `outputs` bind `{stdout, stderr, exitCode}`.
    """
    body = bind({k: v for k, v in operation.body.items() if k != "outputs"}, ctx.bindings)
    command = body["command"]
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        raise ScenarioError(f"{operation.where}.exec.command: expected a list of texts, found {command!r}")
    limit = seconds(body["timeout"], operation.where) if "timeout" in body else ctx.timeout("exec")
    shown = f"`{' '.join(command)}` in {body['name']}"
    try:
        async with asyncio.timeout(limit):
            done = await _executed(ctx, body, command)
    except TimeoutError:
        raise StepError(f"{shown} to end within {limit:g} s", "it was still running") from None
    except aiohttp.WSServerHandshakeError as error:
        raise StepError(f"{shown} to be run", f"{error.status} {error.message}") from error
    written, wanted = done.text(_STDOUT, _STDERR), body.get("exitCode", 0)
    if done.exit_code != wanted:
        found = done.failure if done.exit_code is None else f"exit {done.exit_code}: {written[:_SHOWN]}"
        raise StepError(f"{shown} to exit {wanted}", found)
    if "matches" in body and not any(re.search(body["matches"], line) for line in written.splitlines()):
        raise StepError(f"{shown} to write {body['matches']}", written[:_SHOWN] or "nothing")
    result = {"stdout": done.text(_STDOUT), "stderr": done.text(_STDERR), "exitCode": done.exit_code}
    bind_outputs(ctx, operation, result)


async def _executed(ctx: CellContext, body: Mapping[str, Any], command: Sequence[str]) -> Execution:
    config = load_kubeconfig(ctx.control.kubeconfig, ctx.context)
    query = [("command", word) for word in command] + [("stdout", "true"), ("stderr", "true")]
    if body.get("container"):
        query.append(("container", body["container"]))
    namespace, name = (quote(body.get(*pair)) for pair in (("namespace", ctx.namespace), ("name", "")))
    url = f"{config.server}/api/v1/namespaces/{namespace}/pods/{name}/exec?{urlencode(query)}"
    done = Execution()
    connector = aiohttp.TCPConnector(ssl=config.ssl_context() or True)
    async with (
        aiohttp.ClientSession(connector=connector, headers=ctx.client.headers) as session,
        session.ws_connect(url, protocols=(_PROTOCOL,)) as socket,
    ):
        async for message in socket:
            channel, data = message.data[0], message.data[1:]
            if channel == _END:
                done.end(json.loads(data))
            elif channel in done.output:
                done.output[channel] += data
    return done
