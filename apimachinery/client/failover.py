"""Sends requests to one of several API servers, as through a load balancer before them.

client-go reaches one address. Where that is a load balancer's, whoever lost a server gets another one with
the next connection; what was under way is lost, as it is then.
"""

from collections.abc import Sequence

from kubeskew.apimachinery.client.transport import Request, Response, Transport


class FailoverTransport:
    """Stays with a server, the first in the beginning, until it refuses connections; then takes the next.

    A request is sent again only where nobody can have heard it. Raises what the last server's transport
    raises if all refuse.
    """

    def __init__(self, transports: Sequence[Transport]) -> None:
        self._transports = transports
        self._current = 0

    async def __call__(self, request: Request) -> Response:
        start = self._current
        for number in range(start, start + len(self._transports) - 1):
            chosen = number % len(self._transports)
            try:
                return await self._ask(chosen, request)
            except ConnectionRefusedError:
                continue
        return await self._ask((start - 1) % len(self._transports), request)

    async def _ask(self, chosen: int, request: Request) -> Response:
        response = await self._transports[chosen](request)
        self._current = chosen
        return response

    async def close(self) -> None:
        for transport in self._transports:
            await transport.close()


def failing_over(transports: Sequence[Transport]) -> Transport:
    """Returns what sends to whichever of these takes connections; the one itself if there is just one."""
    return transports[0] if len(transports) == 1 else FailoverTransport(transports)
