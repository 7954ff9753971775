"""An operator as people write them, on aiohttp alone: it knows nothing of kubeskew and of the simulation.

For each ConfigMap with the label `copy: "yes"` it keeps a Secret of the same name with the same data.
"""

import asyncio
import base64
import json
import logging
from collections.abc import Mapping
from typing import Any

import aiohttp

log = logging.getLogger("copying-operator")

_SECONDS = 1.0  # until it tries again


class CopyingOperator:
    """Lists and watches ConfigMaps, and writes Secrets."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"}

    async def run(self) -> None:
        """Works until it is cancelled."""
        connector = aiohttp.TCPConnector(ssl=False)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        async with aiohttp.ClientSession(
            self._url, connector=connector, timeout=timeout, headers=self._headers
        ) as session:
            while True:
                try:
                    await self._follow(session)
                except (aiohttp.ClientError, OSError, TimeoutError) as error:
                    log.warning("once more: %s", error)
                await asyncio.sleep(_SECONDS)

    async def _follow(self, session: aiohttp.ClientSession) -> None:
        """Copies all that is there, and then what comes, until the watch ends."""
        query = {"labelSelector": "copy=yes"}
        async with session.get("/api/v1/configmaps", params=query, raise_for_status=True) as answer:
            listed = await answer.json()
        for item in listed["items"]:
            await self._copy(session, item)
        query |= {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"]}
        async with session.get("/api/v1/configmaps", params=query, raise_for_status=True) as answer:
            async for line in answer.content:
                event = json.loads(line)
                if event["type"] in {"ADDED", "MODIFIED"}:
                    await self._copy(session, event["object"])
                elif event["type"] == "ERROR":
                    log.warning("watch ended: %s", event["object"].get("message"))
                    return

    async def _copy(self, session: aiohttp.ClientSession, source: Mapping[str, Any]) -> None:
        name, namespace = source["metadata"]["name"], source["metadata"]["namespace"]
        data = {key: base64.b64encode(text.encode()).decode() for key, text in source["data"].items()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
        path = f"/api/v1/namespaces/{namespace}/secrets"
        async with session.post(path, json=secret) as answer:
            if answer.status == 201:
                log.info("copied %s/%s", namespace, name)
                return
            if answer.status != 409:
                answer.raise_for_status()
        async with session.put(f"{path}/{name}", json=secret, raise_for_status=True):
            log.info("copied %s/%s again", namespace, name)
