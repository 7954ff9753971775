"""The actions of probes and hooks: a command, an HTTP request, a connection, gRPC.

A runtime that only acts its containers has nobody to ask over the network: that succeeds.

Sources: pkg/probe/{exec,http,tcp,grpc}, pkg/kubelet/prober/prober.go, pkg/kubelet/lifecycle/handlers.go and
k8s.io/cri-client/pkg/remote_runtime.go, 1.36.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.containers import http_client
from kubeskew.kubelet.containers.http_client import StreamConnection, TLSConnection
from kubeskew.kubelet.containers.runtime_service import (
    CommandTimeoutError,
    Connection,
    ContainerRuntimeError,
    RuntimeService,
)
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.protocols.grpc_health import check_health

log = logging.getLogger(__name__)

_MOST_OUTPUT = 10 << 10
_REDIRECTS = 10
_TRIES = 3
_LATE_SECONDS = 1.0  # until a hook's command that the runtime should have ended is given up
FOREVER = 1e6  # seconds; upstream has no limit for hooks


class Verdict(NamedTuple):
    """The result of a probe; `errored` if it could not be made, `warns` if its output is a warning."""

    succeeds: bool
    output: str = ""
    errored: bool = False
    warns: bool = False


class Asker:
    """Asks the containers of one node."""

    def __init__(self, runtime: RuntimeService, clock: Clock, features: KubeletFeatures) -> None:
        self._runtime = runtime
        self._features = features
        self._clock = clock
        self._version = str(features.version)

    async def probe(
        self, sandbox: Sandbox, container: Container, spec: Object, probe: Object, seconds: float
    ) -> Verdict:
        """Makes a probe of any kind, with a limit; one that cannot be made is tried three times."""
        for _ in range(_TRIES):
            verdict = await self._probe(sandbox, container, spec, probe, seconds)
            if not verdict.errored:
                break
        return verdict

    async def _probe(
        self, sandbox: Sandbox, container: Container, spec: Object, probe: Object, seconds: float
    ) -> Verdict:
        if (command := (probe.get("exec") or {}).get("command")) is not None:
            return await self._exec(sandbox, container, command, seconds)
        if not self._runtime.runs_programs:
            return Verdict(succeeds=True)
        try:
            work = self._over_network(sandbox, spec, probe, seconds)
        except ValueError as error:
            return Verdict(False, str(error), errored=True)
        return await self._limited(work, seconds)

    async def hook(
        self,
        sandbox: Sandbox,
        container: Container,
        spec: Object,
        handler: Object,
        seconds: float,
        warn: Callable[[str, str], None],
    ) -> bool:
        """Runs a lifecycle hook, at most for so long; False if it failed, for any reason. `warn` gets the
        reason and the message of an event."""
        try:
            return await self._hook(sandbox, container, spec, handler, seconds, warn)
        except Exception:
            log.exception(
                "hook of container %s of pod %s/%s", container.name, sandbox.namespace, sandbox.name
            )
            return False

    # -- ways to ask

    async def _hook(
        self,
        sandbox: Sandbox,
        container: Container,
        spec: Object,
        handler: Object,
        seconds: float,
        warn: Callable[[str, str], None],
    ) -> bool:
        if (command := (handler.get("exec") or {}).get("command")) is not None:
            # The runtime ends it in time, unless the call itself hangs.
            work = self._exec(sandbox, container, command, seconds)
            return (await self._limited(work, seconds + _LATE_SECONDS)).succeeds
        if (get := handler.get("httpGet")) is not None:
            return not self._runtime.runs_programs or await self._request(sandbox, spec, get, seconds, warn)
        if (pause := handler.get("sleep")) is not None and self._features.knows_sleep_hooks:
            if self._features.runs_sleep_hooks:
                await self._clock.sleep(min(float(pause.get("seconds") or 0), seconds))
            return True
        log.error("invalid handler of container %s: %s", container.name, handler)
        return False

    async def _request(
        self, sandbox: Sandbox, spec: Object, get: Object, seconds: float, warn: Callable[[str, str], None]
    ) -> bool:
        """Makes the request of a hook, again in HTTP if the answer is not in HTTPS."""
        verdict = await self._limited(self._get(sandbox, spec, get, "lifecycle"), seconds)
        if verdict.output.endswith(_NO_HTTPS):
            plain = {**get, "scheme": "HTTP"}
            verdict = await self._limited(self._get(sandbox, spec, plain, "lifecycle"), seconds)
            if _is_answered(verdict):
                where = f"{get.get('host') or sandbox.ip}:{port_of(get.get('port'), spec)}"
                text = f"request to HTTPS lifecycle hook {where} got HTTP response, retry with HTTP succeeded"
                warn("LifecycleHTTPFallback", text)
        return _is_answered(verdict)

    async def _exec(
        self, sandbox: Sandbox, container: Container, command: list[str], seconds: float
    ) -> Verdict:
        try:
            result = await self._runtime.exec_sync(sandbox, container, command, seconds)
        except CommandTimeoutError:
            words = " ".join(command).replace("\\", "\\\\").replace('"', '\\"')
            return Verdict(False, f'command timed out: "{words}" timed out after {seconds:g}s')
        except ContainerRuntimeError as error:
            return Verdict(False, f"rpc error: code = {error.code} desc = {error}", errored=True)
        output = (result.stdout + result.stderr)[:_MOST_OUTPUT]
        return Verdict(result.exit_code == 0, output.decode("utf-8", "replace"))

    def _over_network(self, sandbox: Sandbox, spec: Object, probe: Object, seconds: float) -> Any:
        """A coroutine. Raises ValueError for a port that there is not."""
        if (get := probe.get("httpGet")) is not None:
            return self._get(sandbox, spec, get, "probe")
        if (socket := probe.get("tcpSocket")) is not None:
            return self._connect(sandbox, socket.get("host") or "", port_of(socket.get("port"), spec))
        if (grpc := probe.get("grpc")) is not None:
            return self._grpc(sandbox, int(grpc["port"]), grpc.get("service") or "", seconds)
        raise ValueError(f"missing probe handler for {sandbox.name}_{sandbox.namespace}:{spec['name']}")

    async def _limited(self, work: Any, seconds: float) -> Verdict:
        asking: asyncio.Future[Verdict] = asyncio.ensure_future(work)
        waiting = asyncio.ensure_future(self._clock.sleep(seconds))
        both: set[asyncio.Future[Any]] = {asking, waiting}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else Verdict(False, _DEADLINE)
        except (OSError, ValueError) as error:  # of a name, a port or an answer that cannot be read
            return Verdict(False, str(error))
        finally:
            asking.cancel()
            waiting.cancel()

    async def _dial(self, sandbox: Sandbox, host: str, port: int) -> Connection:
        """Raises OSError in the words of Go's dialer."""
        where = f"{host or sandbox.ip}:{port}"
        try:
            if host and host != sandbox.ip:
                return StreamConnection(*await asyncio.open_connection(host, port))
            return await self._runtime.dial(sandbox, port)
        except ConnectionRefusedError:
            raise OSError(f"dial tcp {where}: connect: connection refused") from None
        except OSError as error:
            raise OSError(f"dial tcp {where}: {error.strerror or error}") from None

    async def _connect(self, sandbox: Sandbox, host: str, port: int) -> Verdict:
        connection = await self._dial(sandbox, host, port)
        await connection.close()
        return Verdict(succeeds=True)

    async def _grpc(self, sandbox: Sandbox, port: int, service: str, seconds: float) -> Verdict:
        try:
            connection = await self._dial(sandbox, "", port)
        except OSError as error:
            where = f'"{sandbox.ip}:{port}"'
            late = (
                f"timeout: failed to connect service {where} within {seconds:g}s: context deadline exceeded"
            )
            # The client of gRPC goes on trying until the time is over.
            return Verdict(False, late if "refused" in str(error) else f"error: {error}")
        try:
            succeeds, output = await check_health(
                connection, f"{sandbox.ip}:{port}", service, f"kube-probe/{self._version}"
            )
        finally:
            await connection.close()
        return Verdict(succeeds, output)

    def _get(self, sandbox: Sandbox, spec: Object, get: Object, purpose: str) -> Any:
        """A coroutine. Raises ValueError for a port that there is not."""
        port = port_of(get.get("port"), spec)
        scheme = (get.get("scheme") or "http").lower()
        return self._fetch(sandbox, get, scheme, port, purpose)

    async def _fetch(self, sandbox: Sandbox, get: Object, scheme: str, port: int, purpose: str) -> Verdict:
        first = host = get.get("host") or sandbox.ip
        path = get.get("path") or "/"
        path = path if path.startswith("/") else f"/{path}"
        for _ in range(_REDIRECTS + 1):
            shown = f'Get "{scheme}://{host}:{port}{path}": '
            try:
                answer = await self._asked(sandbox, host, port, scheme, path, get, purpose)
            except OSError as error:
                return Verdict(False, f"{shown}{error}")
            location = urlsplit(answer.header("Location"))
            if not 300 <= answer.status < 400 or not answer.header("Location"):
                break
            if location.hostname not in {None, first}:
                body = answer.body.decode("utf-8", "replace")
                return Verdict(True, f"Probe terminated redirects, Response body: {body}", warns=True)
            scheme = location.scheme or scheme
            port = location.port or (port if location.hostname is None else 443 if scheme == "https" else 80)
            path = (location.path or "/") + (f"?{location.query}" if location.query else "")
        else:
            return Verdict(False, f"{shown}stopped after 10 redirects")
        if 200 <= answer.status < 400:
            return Verdict(succeeds=True)
        return Verdict(False, f"{_STATUS}{answer.status}")

    async def _asked(
        self, sandbox: Sandbox, host: str, port: int, scheme: str, path: str, get: Object, purpose: str
    ) -> http_client.HTTPAnswer:
        named = [(each["name"], each.get("value") or "") for each in get.get("httpHeaders") or []]
        names = {name.lower() for name, _ in named}
        if "host" not in names:
            named.insert(0, ("Host", f"{host}:{port}"))
        if "user-agent" not in names:
            named.append(("User-Agent", f"kube-{purpose}/{self._version}"))
        if "accept" not in names:
            named.append(("Accept", "*/*"))
        named = [(name, value) for name, value in named if value or name.lower() != "accept"]
        connection = await self._dial(sandbox, host, port)
        try:
            if scheme != "https":
                return await http_client.request(connection, "GET", path, named, most=_MOST_OUTPUT)
            noted = _NotedConnection(connection)
            try:
                return await http_client.request(TLSConnection(noted), "GET", path, named, most=_MOST_OUTPUT)
            except OSError:
                if noted.first.startswith(b"HTTP/"):
                    raise OSError(_NO_HTTPS) from None
                raise
        finally:
            await connection.close()


class _NotedConnection:
    """Notes what the other side says first."""

    def __init__(self, inner: Connection) -> None:
        self._inner = inner
        self.first = b""

    async def read(self) -> bytes:
        data = await self._inner.read()
        self.first = self.first or data[:5]
        return data

    async def write(self, data: bytes) -> None:
        await self._inner.write(data)

    async def close(self) -> None:
        await self._inner.close()


def _is_answered(verdict: Verdict) -> bool:
    """A hook succeeds with any status."""
    return verdict.succeeds or verdict.output.startswith(_STATUS)


_NO_HTTPS = "http: server gave HTTP response to HTTPS client"
_STATUS = "HTTP probe failed with statuscode: "
_DEADLINE = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"


def port_of(port: Any, spec: Object) -> int:
    """The number of a port that may be named. Raises ValueError (ResolveContainerPort)."""
    if isinstance(port, str):
        for declared in spec.get("ports") or []:
            if declared.get("name") == port:
                return int(declared["containerPort"])
        if not port.isdecimal():
            raise ValueError(f'strconv.Atoi: parsing "{port}": invalid syntax')
    number = int(port or 0)
    if not 0 < number < 65536:
        raise ValueError(f"invalid port number: {number}")
    return number
