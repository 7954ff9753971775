"""Names what calls to kubelets need of the server."""

from typing import Protocol

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.storage.interfaces import Store


class NodeServices(Protocol):
    """Finds nodes and pods."""

    store: Store

    def core_object(self, plural: str, namespace: str, name: str) -> Object | None:
        """Returns an object of the core group, None if there is none."""
