"""Finds the resource of an apiVersion and kind by the server's discovery."""

from typing import Any

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.conformance.errors import UnservedKindError


class Kinds:
    """A REST mapper with a cache; an unknown kind is looked up again, since upgrades bring kinds."""

    def __init__(self, client: APIClient) -> None:
        self._client = client
        self._known: dict[tuple[str, str], Ref] = {}

    async def ref(self, api_version: str, kind: str) -> Ref:
        """Raises UnservedKindError if the server does not serve the kind."""
        if (api_version, kind) not in self._known:
            await self._discover(api_version)
        found = self._known.get((api_version, kind))
        if found is None:
            raise UnservedKindError(f"the server to serve {kind} in {api_version}", "no such kind")
        return found

    async def _discover(self, api_version: str) -> None:
        path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            listed: dict[str, Any] = await self._client.request("GET", path)
        except StatusError as error:
            raise UnservedKindError(f"the server to serve {api_version}", error.message) from error
        group, _, version = api_version.rpartition("/")
        for entry in listed["resources"]:
            if "/" not in entry["name"]:
                ref = Ref(group, version, entry["name"], entry["namespaced"], entry["kind"])
                self._known[api_version, entry["kind"]] = ref
