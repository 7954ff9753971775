"""The webhook to which a real API server sends its audit events, on loopback and at a path that nobody knows.

client-go sends no token over plain HTTP (tools/clientcmd/client_config.go, 1.36).
"""

import json
import secrets
from collections.abc import Awaitable, Callable

from aiohttp import web

_ADDRESS = "127.0.0.1"
_BODY_MAX = 64 << 20  # a batch has up to 400 events, and each the answer of its request


class AuditWebhook:
    """`received` takes a body and gives the status of the answer."""

    def __init__(self, received: Callable[[bytes], Awaitable[int]]) -> None:
        self._received = received
        self._path = f"/{secrets.token_urlsafe(32)}"
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self) -> None:
        """Listens on a free port. Raises OSError."""
        application = web.Application(client_max_size=_BODY_MAX)
        application.router.add_post(self._path, self._answer)
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, _ADDRESS, 0).start()
        self.url = f"http://{_ADDRESS}:{self._runner.addresses[0][1]}{self._path}"

    async def _answer(self, request: web.Request) -> web.Response:
        return web.Response(status=await self._received(await request.read()))

    def kubeconfig(self) -> str:
        """The content of the file of `--audit-webhook-config-file`."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "audit", "cluster": {"server": self.url}}],
            "users": [{"name": "audit", "user": {}}],
            "contexts": [{"name": "audit", "context": {"cluster": "audit", "user": "audit"}}],
            "current-context": "audit",
        }
        return json.dumps(content, indent=1)

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
