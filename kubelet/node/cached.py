"""Keeps the Node object as the kubelet sees it: watched, and so as late as its watch is."""

from collections.abc import Callable

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import NODES
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apimachinery.objects import Object


class CachedNode:
    """The node of one kubelet by its informer; until that has one, as the server last returned it.

    Only a kubelet that admits pods by it alone (until 1.34) has the informer: the others ask the server
    before they refuse a pod, and each watch costs.
    """

    def __init__(self, name: str, returned: Callable[[], Object], informer: Informer | None) -> None:
        self._name = name
        self._returned = returned
        self._informer = informer

    @classmethod
    def of(
        cls,
        name: str,
        returned: Callable[[], Object],
        client: APIClient,
        clock: Clock,
        entropy: Entropy,
        *,
        watched: bool,
    ) -> "CachedNode":
        selector = f"metadata.name={name}"
        informer = Informer(client, NODES, clock, "", selector, entropy=entropy) if watched else None
        return cls(name, returned, informer)

    @property
    def node(self) -> Object:
        """Returns the node."""
        found = self._informer.get("", self._name) if self._informer is not None else None
        return self._returned() if found is None else found

    def start(self) -> None:
        """Begins to watch."""
        if self._informer is not None:
            self._informer.start()

    async def stop(self) -> None:
        if self._informer is not None:
            await self._informer.stop()
