"""Holds the scope of a request, and names what serving it takes of the server."""

from dataclasses import dataclass
from typing import Protocol

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.authentication.union import UnionAuthenticator
from kubeskew.apiserver.caching.generations import TwoGenerationCache
from kubeskew.apiserver.caching.list_cache import ListCache
from kubeskew.apiserver.http.request import Lifetime
from kubeskew.apiserver.nodes.connections import NodeConnections
from kubeskew.apiserver.registry.codec import Form
from kubeskew.apiserver.registry.generic.registry import Registry
from kubeskew.apiserver.registry.generic.services import RegistryServices
from kubeskew.apiserver.serviceaccount.keys import AccountKeys


class RequestServices(RegistryServices, Protocol):
    """Gives what verbs and subresources need beside what registries need."""

    authenticator: UnionAuthenticator
    account_keys: AccountKeys
    lifetime: Lifetime
    nodes: NodeConnections
    listed: ListCache
    encoded_events: TwoGenerationCache[tuple[int, str, Form], bytes]

    def definition(self, name: str) -> Schema | None:
        """Returns a built-in type that is no resource, by its OpenAPI name."""

    def registry(self, resource: Resource) -> Registry:
        """Returns the registry of a resource."""

    def core_object(self, plural: str, namespace: str, name: str) -> Object | None:
        """Returns an object of the core group, None if there is none."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Holds the scope of a request: the resource as served, its registry, the subresource (or empty)."""

    services: RequestServices
    resource: Resource
    registry: Registry
    subresource: str = ""
