"""Resolves names of services as hosts, for aiohttp's client."""

from typing import Any

from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult

from kubeskew.apiserver.webhooks.endpoints import Address, ServiceResolver


class Resolver(AbstractResolver):
    """Hosts `NAME.NAMESPACE.svc` are services; all others are resolved as usual."""

    def __init__(self, services: ServiceResolver) -> None:
        self._services = services
        self._usual = ThreadedResolver()

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        found = self._services.lookup(host, port) or Address(host, port)
        results = await self._usual.resolve(found.host, found.port, family)
        return [{**result, "hostname": host, "port": found.port} for result in results]

    async def close(self) -> None:
        """Nothing is held, so nothing is closed."""
