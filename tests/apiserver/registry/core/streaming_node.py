"""A server in this process with a node that serves its pods' logs and streams, for tests."""

import asyncio
from types import SimpleNamespace

from server_in_process import ADMIN, Caller

from kubeskew.apimachinery.streaming.websocket import WebSocket
from kubeskew.apiserver.http.request import Peer, Request, Upgrade
from kubeskew.kubelet.containers.simulated.runtime import SimulatedRuntime

PODS = "/api/v1/namespaces/default/pods"
CONTAINERS = [
    {"name": "a", "image": "i", "command": ["sh", "-c", "echo one; echo two; echo three"]},
    {"name": "b", "image": "i", "ports": [{"containerPort": 80}]},
    {"name": "tty", "image": "i", "stdin": True, "tty": True},
]


class StreamingRuntime(SimulatedRuntime):
    """A runtime with commands that use all streams."""

    async def exec(self, sandbox, container, command, streams, *, stdin, tty):
        match command[0]:
            case "both":
                await streams.write_stdout(b"out\n")
                await streams.write_stderr(b"err\n")
                return 3
            case "cat":
                while data := await streams.read():
                    await streams.write_stdout(data)
                return 0
            case "line":
                await streams.write_stdout(await streams.read())
                return 0
            case "much":
                await streams.write_stdout(bytes(100 << 10))
                return 0
            case "size":
                await streams.write_stdout("%dx%d".__mod__(await streams.resized()).encode())
                return 0
        return await super().exec(sandbox, container, command, streams, stdin=stdin, tty=tty)

    async def attach(self, sandbox, container, streams, *, stdin):
        if not stdin:
            await super().attach(sandbox, container, streams, stdin=stdin)
            return
        while (data := await streams.read()) not in {b"", b"exit\r"}:
            await streams.write_stdout(data)
        self.stop_container(sandbox, container, 0)


class Tunnel:
    """A client's connection after the upgrade, in memory, and the client's end of it."""

    def __init__(self):
        self.to_server: asyncio.Queue[bytes] = asyncio.Queue()
        self.to_client: asyncio.Queue[bytes] = asyncio.Queue()
        self.client = SimpleNamespace(read=self.to_client.get, write=self._send)

    async def read(self):
        return await self.to_server.get()

    async def write(self, data):
        self.to_client.put_nowait(data)

    async def _send(self, data):
        self.to_server.put_nowait(data)


class Bench:
    """A server with a node and a pod on it, `p`; and a pod without a node, `q`."""

    def __init__(self, server, runtime, pods):
        self.server, self.api = server, Caller(server)
        self.runtime, self.pods = runtime, pods
        self.tasks = []

    async def read(self, target: str, peer: Peer = ADMIN) -> tuple[int, str]:
        response = await self.server.handle(Request.of("GET", target, {}, b"", peer))
        if isinstance(response.body, bytes):
            return response.status, response.body.decode()
        return response.status, b"".join([piece async for piece in response.body]).decode()

    async def upgrade(self, target: str, method: str = "GET", peer: Peer = ADMIN, **headers: str):
        """(response, the client's end of the connection)."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = Request.of(method, target, {"connection": "Upgrade", **named}, b"", peer)
        response = await self.server.handle(request)
        tunnel = Tunnel()
        if isinstance(response.body, Upgrade):

            async def talk():
                await response.body.talk(tunnel)
                tunnel.to_client.put_nowait(b"")

            self.tasks.append(asyncio.create_task(talk()))
        return response, tunnel.client

    async def socket(self, target: str, protocol: str = "v5.channel.k8s.io"):
        headers = {"upgrade": "websocket", "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ=="}
        response, client = await self.upgrade(target, sec_websocket_protocol=protocol, **headers)
        assert response.status == 101, response.body
        assert dict(response.headers)["Sec-WebSocket-Protocol"] == protocol
        return WebSocket(client, client=True)


async def messages(socket: WebSocket) -> dict[int, bytes]:
    """Everything that comes until the close, by channel."""
    found: dict[int, bytes] = {}
    while (message := await asyncio.wait_for(socket.receive(), 30)) is not None:
        found[message.data[0]] = found.get(message.data[0], b"") + message.data[1:]
    return found
