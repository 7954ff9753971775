"""Parts of one server, for the code that builds and runs it.

Each folder has a protocol of the parts that it needs (`services.py`, in registry/requests `scope.py`);
Services implements all of them, and nothing below imports this module.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.admission import AdmissionChain
from kubeskew.apiserver.aggregation.registered import Registered
from kubeskew.apiserver.apiextensions.table import ComposedTable
from kubeskew.apiserver.authentication.authenticator import UnionAuthenticator
from kubeskew.apiserver.authorization.access import Access
from kubeskew.apiserver.background import Background
from kubeskew.apiserver.caching.list_cache import ListCache
from kubeskew.apiserver.caching.store_cache import DerivedFromStore, TwoGenerationCache
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.health_checks import HealthChecks
from kubeskew.apiserver.http.request import Lifetime
from kubeskew.apiserver.metrics import PolicyMetrics, RequestMetrics
from kubeskew.apiserver.nodes.connections import NodeConnections
from kubeskew.apiserver.registry.codec import Codec, Form
from kubeskew.apiserver.registry.core.resourcequota import write_used
from kubeskew.apiserver.registry.generic import delete as generic_delete
from kubeskew.apiserver.registry.generic.registry import Registry, WriteRequest
from kubeskew.apiserver.serviceaccount.tokens import AccountKeys
from kubeskew.apiserver.storage.interfaces import Log, Others, Store
from kubeskew.apiserver.storage.records import Author
from kubeskew.apiserver.user import SERVER
from kubeskew.apiserver.webhooks.client import WebhookClient
from kubeskew.apiserver.webhooks.endpoints import ServiceResolver

_ENCODED_EVENTS = 1_000  # encoded once and kept for slower watchers
_ENCODED_BYTES = 16 << 20
_REGISTRIES_MAX = 5_000


@dataclass(slots=True)
class Services:
    """Built once per server; while it runs, only the table changes."""

    name: str
    environment: Environment
    features: Features
    table: ComposedTable
    store: Store
    log: Log
    codec: Codec
    authenticator: UnionAuthenticator
    account_keys: AccountKeys
    authorizer: Access
    metrics: RequestMetrics
    lifetime: Lifetime
    health: HealthChecks
    service_ip_range: str
    definitions: Mapping[str, Schema]
    service_resolver: ServiceResolver
    webhooks: WebhookClient
    registered: DerivedFromStore[Registered]  # APIServices
    remote_lists: dict[tuple[str, str], Object] = field(default_factory=dict)  # of remote servers
    background: Background = field(default_factory=Background)
    admission: AdmissionChain = field(default_factory=lambda: AdmissionChain([]))
    nodes: NodeConnections = field(init=False)
    others: Others | None = None  # if this server has several workers
    serves_logs: bool = False  # at /logs
    address: str = ""  # host and port, for clients of discovery
    front_proxy_client: tuple[str, str] | None = None  # files of certificate and key, for extension servers
    encoded_events: TwoGenerationCache[tuple[int, str, Form], bytes] = field(
        default_factory=lambda: TwoGenerationCache(_ENCODED_EVENTS, lambda _, line: len(line), _ENCODED_BYTES)
    )
    listed: ListCache = field(default_factory=ListCache)
    registries: dict[tuple[str, str], Registry] = field(default_factory=dict)

    @property
    def policy_metrics(self) -> PolicyMetrics:
        return self.metrics.policies

    def definition(self, name: str) -> Schema | None:
        """Built-in types that are no resources go by their OpenAPI name."""
        return self.definitions.get(name)

    def registry(self, resource: Resource) -> Registry:
        """The versions of a built-in resource share their registry."""
        hub = self.codec.hub(resource)
        key = hub.storage_resource, hub.version if hub.custom else ""
        registry = self.registries.get(key)
        if registry is None or registry.resource is not hub:  # its definition has changed
            if len(self.registries) >= _REGISTRIES_MAX:  # of definitions that have gone, mostly
                self.registries.clear()
            registry = self.registries[key] = Registry(self, hub)
        return registry

    def core_object(self, plural: str, namespace: str, name: str) -> Object | None:
        resource = self.table.resource("", "v1", plural)
        if resource is None:
            return None
        registry = self.registry(resource)
        entry = self.store.get(registry.key(namespace, name))
        return registry.object(entry) if entry is not None else None

    async def delete_object(self, resource: Resource, namespace: str, name: str) -> None:
        """Deletes an object as the server itself; raises StatusError."""
        registry, version = self.registry(resource), str(self.environment.version)
        author = Author(SERVER.name, "kube-apiserver", version, version, "")
        write = WriteRequest(SERVER, author, namespace, requested=registry.resource, verb="delete")
        await generic_delete.delete(registry, name, {}, write)

    async def write_used_quota(self, quota: Object, used: dict[str, str]) -> None:
        """Stores `used` if the quota is still at the revision given; raises 404, 409, 422."""
        await write_used(self, quota, used)
