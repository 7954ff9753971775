"""A client for tests that are not asynchronous: kinds by apiVersion and name, objects as plain dicts."""

from collections.abc import Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import MERGE_PATCH, APIClient
from kubeskew.apimachinery.objects import Object
from kubeskew.conformance.kinds import Kinds
from kubeskew.testing.event_loop import EventLoop

__tracebackhide__ = True  # pytest then shows the line of the test
_MANAGER = "kubeskew-test"


class Client:
    """Uses a cluster as its administrator. Refused requests raise StatusError with the server's message.

    Namespaced objects without a namespace are in the test's own.
    """

    def __init__(self, loop: EventLoop, client: APIClient, namespace: str) -> None:
        self._loop = loop
        self._client = client
        self._kinds = Kinds(client)
        self._namespace = namespace

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Object:
        """For example `get("v1", "ConfigMap", "settings")`."""
        ref = self._ref(api_version, kind)
        return self._loop.run(self._client.get(ref, name, self._place(ref, namespace)))

    def list(
        self, api_version: str, kind: str, namespace: str = "", label_selector: str = ""
    ) -> Sequence[Object]:
        """`namespace="*"` means all namespaces."""
        ref = self._ref(api_version, kind)
        where = "" if namespace == "*" else self._place(ref, namespace)
        items: list[Object] = self._loop.run(self._client.list(ref, where, label_selector))["items"]
        return items

    def create(self, obj: Mapping[str, Any]) -> Object:
        """The object is returned as it is stored."""
        ref, placed = self._placed(obj)
        return self._loop.run(self._client.create(ref, placed))

    def apply(self, obj: Mapping[str, Any], *, force: bool = False, manager: str = _MANAGER) -> Object:
        """The server merges the object (server-side apply)."""
        ref, placed = self._placed(obj)
        return self._loop.run(self._client.apply(ref, placed, field_manager=manager, force=force))

    def update(self, obj: Mapping[str, Any], subresource: str = "") -> Object:
        ref, placed = self._placed(obj)
        return self._loop.run(self._client.update(ref, placed, subresource))

    def patch(
        self,
        api_version: str,
        kind: str,
        name: str,
        body: Any,
        namespace: str = "",
        *,
        subresource: str = "",
        content_type: str = MERGE_PATCH,
    ) -> Object:
        """Merge patches are the default."""
        ref = self._ref(api_version, kind)
        where = self._place(ref, namespace)
        return self._loop.run(
            self._client.patch(ref, name, where, body, content_type, subresource=subresource)
        )

    def delete(self, api_version: str, kind: str, name: str, namespace: str = "") -> None:
        """Finalizers may keep the object for a while."""
        ref = self._ref(api_version, kind)
        self._loop.run(self._client.delete(ref, name, self._place(ref, namespace)))

    def _ref(self, api_version: str, kind: str) -> Ref:
        return self._loop.run(self._kinds.ref(api_version, kind))

    def _place(self, ref: Ref, namespace: str) -> str:
        return (namespace or self._namespace) if ref.namespaced else ""

    def _placed(self, obj: Mapping[str, Any]) -> tuple[Ref, Object]:
        ref = self._ref(obj["apiVersion"], obj["kind"])
        metadata = dict(obj["metadata"])
        if ref.namespaced:
            metadata["namespace"] = self._place(ref, metadata.get("namespace") or "")
        return ref, {**obj, "metadata": metadata}

    def close(self) -> None:
        self._loop.run(self._client.close())
