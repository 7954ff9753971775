"""Posts announcements of components to the API server, or, where it is a real program, to its shim."""

import logging
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import orjson

from kubeskew.apimachinery.client.kubeconfig import load_kubeconfig
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.client.timeline_sockets import announce_at, announce_now
from kubeskew.apimachinery.environment import COMPONENTS_PATH, LastWords
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object

_NO_TIMELINE = frozenset({403, 404})  # answers of real API servers, which have no such path
_LAST_SECONDS = 1.0  # a server that takes longer misses the last words

log = logging.getLogger(__name__)


async def post(client: APIClient, timeline_dir: Path | None, announcement: Object) -> None:
    """Raises StatusError for a refusal, CONNECTION_ERRORS without an answer."""
    try:
        await client.request("POST", COMPONENTS_PATH, body=announcement)
    except StatusError as error:
        if error.code not in _NO_TIMELINE or not await announce_at(timeline_dir, announcement):
            raise


def posting_at_once(kubeconfig: Path, agent: str, timeline_dir: Path | None) -> LastWords:
    """Posts announcements to a kubeconfig's server and blocks the process until they are answered."""

    def post(announcements: Sequence[Object]) -> None:
        import http.client

        config = load_kubeconfig(kubeconfig)
        address = urlsplit(config.server)
        host, port = address.hostname or "", address.port
        context = config.ssl_context()
        headers = {"User-Agent": agent, "Content-Type": "application/json"}
        if config.token:
            headers["Authorization"] = f"Bearer {config.token}"
        try:
            if context is None:
                connection = http.client.HTTPConnection(host, port, timeout=_LAST_SECONDS)
            else:
                connection = http.client.HTTPSConnection(host, port, timeout=_LAST_SECONDS, context=context)
            for announcement in announcements:
                connection.request("POST", COMPONENTS_PATH, orjson.dumps(announcement), headers)
                answer = connection.getresponse()
                answer.read()
                if answer.status in _NO_TIMELINE:
                    announce_now(timeline_dir, announcement)
        except (OSError, http.client.HTTPException) as error:
            log.warning("cannot announce a crash: %s", error)

    return post
