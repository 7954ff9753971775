"""`script`, `command`, `sleep` and `exec`: operations that run commands, here or in a container of a pod.

`exec` speaks the WebSocket protocol of kubectl exec (v4.channel.k8s.io), over a connection of its own to the
API server's address: a simulated server takes such connections, too.
"""

import asyncio
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp

from kubeskew.apimachinery.client.kubeconfig import load_kubeconfig
from kubeskew.conformance.assertion_trees import mismatches
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.chainsaw import folder_of, seconds
from kubeskew.conformance.context import CellContext, bind_outputs
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.scenario import Operation

_VARIABLE = re.compile(r"\$(?:\$|\{(?P<braced>\w+)\}|(?P<name>\w+))")
_LATER = ("check", "outputs", "bindings")  # of what it came to; the rest is said before it is run
_PROTOCOL = "v4.channel.k8s.io"
_STDOUT, _STDERR, _END = 1, 2, 3
_SHOWN = 2000  # characters of what a command has written


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a program: its output and its status."""

    stdout: str
    stderr: str
    status: int

    @property
    def results(self) -> Mapping[str, Any]:
        """Checks and outputs can use these names; `$error` is null if the program ended well."""
        error = f"exit status {self.status}" if self.status else None
        return {"stdout": self.stdout, "stderr": self.stderr, "error": error}

    @property
    def written(self) -> str:
        return (self.stdout + self.stderr).strip()


async def script(ctx: CellContext, operation: Operation) -> None:
    """Run a shell script against the cluster: KUBECONFIG and NAMESPACE are set, bindings by `env`.

    Its directory is the scenario's. It must exit with 0, or satisfy `check` by $stdout, $stderr and $error;
    with a header its first command that fails ends it, without one it goes on, as Chainsaw's do.
    """
    body = _body(ctx, operation)
    if not isinstance(body.get("content"), str):
        raise ScenarioError(f"{operation.where}.content: expected a script")
    usual = ["-c"] if ctx.is_chainsaw or "shell" in body else ["-ec"]
    shell = [str(body.get("shell") or "sh"), *map(str, body.get("shellArgs") or usual), body["content"]]
    await _run(ctx, operation, body, shell)


async def command(ctx: CellContext, operation: Operation) -> None:
    """Run a program with `args`, in which `$NAME` is a variable of its environment and `$$` a dollar."""
    body = _body(ctx, operation)
    environment = _environment(ctx, body)

    def value(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else environment.get(found["braced"] or found["name"], found[0])

    words = [_VARIABLE.sub(value, str(word)) for word in body.get("args") or []]
    await _run(ctx, operation, body, [str(body["entrypoint"]), *words])


def _body(ctx: CellContext, operation: Operation) -> Mapping[str, Any]:
    body: Mapping[str, Any] = {k: v for k, v in operation.body.items() if k not in _LATER}
    return {key: bind(value, ctx.bindings) for key, value in body.items()}


def _environment(ctx: CellContext, body: Mapping[str, Any]) -> Mapping[str, str]:
    return {
        **os.environ,
        "KUBECONFIG": str(ctx.control.kubeconfig.absolute()),
        "NAMESPACE": ctx.namespace,
        **{entry["name"]: str(entry["value"]) for entry in body.get("env") or []},
    }


async def _run(ctx: CellContext, operation: Operation, body: Mapping[str, Any], words: Sequence[str]) -> None:
    limit = seconds(body["timeout"], operation.where) if "timeout" in body else ctx.timeout("exec")
    what = f"the {operation.kind}"
    ended = await _ended(words, _environment(ctx, body), _directory(operation, body), what, limit)
    shown = [] if body.get("skipCommandOutput") else [f"$ {' '.join(words)}"]
    ctx.show("\n".join([*shown, *([] if body.get("skipLogOutput") else [ended.written])]))
    check = operation.body.get("check")
    if check is None and ended.status != 0:
        raise StepError(f"{what} to exit 0", f"exit {ended.status}: {ended.written}")
    if check is not None and (wrong := [*mismatches(check, {}, {**ctx.bindings, **ended.results})]):
        output = f"; exit {ended.status}: {ended.written}" if ended.written else f"; exit {ended.status}"
        raise StepError(f"{what} to end as checked", "; ".join(wrong) + output)
    bind_outputs(ctx, operation, None, ended.results)


def _directory(operation: Operation, body: Mapping[str, Any]) -> Path | None:
    """A scenario that is in no file runs its programs in the current directory."""
    folder = folder_of(operation.where)
    path = folder / str(body.get("workDir") or ".")
    if body.get("workDir") and not path.is_dir():
        raise ScenarioError(f"{operation.where}.workDir: there is no directory {path}")
    return path if path.is_dir() else None


async def _ended(
    words: Sequence[str], environment: Mapping[str, str], directory: Path | None, what: str, limit: float
) -> Ended:
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=directory,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise StepError(f"{what} to be run", f"{words[0]}: {error.strerror or error}") from error
    try:
        async with asyncio.timeout(limit):
            stdout, stderr = await process.communicate()
    except TimeoutError:
        raise StepError(f"{what} to end within {limit:g} s", "it was still running") from None
    finally:  # also where the run is interrupted
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Ended(stdout.decode(errors="replace"), stderr.decode(errors="replace"), process.returncode or 0)


async def sleep(ctx: CellContext, operation: Operation) -> None:
    """Let time pass."""
    duration = bind(operation.body.get("duration"), ctx.bindings)
    await ctx.clock.sleep(seconds(duration, f"{operation.where}.duration"))


@dataclass(slots=True)
class Execution:
    """Holds the output and the end of a command; without an exit code, `failure` is the reason."""

    output: dict[int, bytearray] = field(default_factory=lambda: {_STDOUT: bytearray(), _STDERR: bytearray()})
    exit_code: int | None = None
    failure: str = "the connection ended before the command"

    def text(self, *channels: int) -> str:
        return b"".join(self.output[channel] for channel in channels).decode(errors="replace")

    def end(self, status: Mapping[str, Any]) -> None:
        if status.get("status") == "Success":
            self.exit_code = 0
            return
        self.failure = str(status.get("message") or "")
        for cause in (status.get("details") or {}).get("causes") or ():
            if cause.get("reason") == "ExitCode":
                self.exit_code = int(cause["message"])


async def exec_(ctx: CellContext, operation: Operation) -> None:
    """Run a command in a pod once: `exec: {name: a, command: [cat, /etc/hostname], matches: ^a$}`.

    `container` where there are several. It must end with the `exitCode` (0), and a line of its output must
    match `matches`. `outputs` bind `{stdout, stderr, exitCode}`.
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
    headers = {**ctx.client.headers, "Accept": "*/*"}  # a kubelet serves nobody at /exec who wants a type
    async with (
        aiohttp.ClientSession(connector=connector, headers=headers) as session,
        session.ws_connect(url, protocols=(_PROTOCOL,)) as socket,
    ):
        async for message in socket:
            channel, data = message.data[0], message.data[1:]
            if channel == _END:
                done.end(json.loads(data))
            elif channel in done.output:
                done.output[channel] += data
    return done
