"""Names what the controllers of definitions need of the server."""

from typing import Protocol

from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.apiextensions.table import ComposedTable
from kubeskew.apiserver.http.request import Lifetime
from kubeskew.apiserver.storage.interfaces import Store


class DefinitionServices(Protocol):
    """Gives what looking after definitions and their objects takes."""

    environment: Environment
    table: ComposedTable
    store: Store
    lifetime: Lifetime

    async def delete_object(self, resource: Resource, namespace: str, name: str) -> None:
        """Deletes an object as the server itself; raises StatusError."""
