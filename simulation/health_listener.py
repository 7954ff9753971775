"""Serves the health of a simulated component."""

from urllib.parse import parse_qs, urlsplit

from kubeskew.apimachinery.process.health import answer, until_ready
from kubeskew.apimachinery.process.health_checks import WAIT, Health
from kubeskew.simulation.processes import CURRENT


class HealthListener:
    """Serves the health of a component on a port; a context, which gives the port."""

    def __init__(self, listeners: "dict[int, HealthListener]", health: Health, port: int) -> None:
        self._listeners = listeners
        self._port = port
        self.health = health
        self.process = CURRENT.get()

    async def __aenter__(self) -> int:
        self._listeners[self._port] = self
        if self.process is not None:
            self.process.ended[self._end] = None
        return self._port

    async def __aexit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        if self._listeners.get(self._port) is self:
            del self._listeners[self._port]

    async def get(self, target: str) -> tuple[int, str]:
        """Returns status and text of the answer to a GET."""
        url = urlsplit(target)
        query = parse_qs(url.query)
        if url.path == "/readyz" and WAIT in query:
            await until_ready(self.health, query[WAIT][0])
        found = answer(self.health, url.path, query.get("name[]", ()))
        body = found.body
        return found.status, body.decode() if isinstance(body, bytes) else found.text or ""
