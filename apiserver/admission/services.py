"""Names what admission plugins need of the server."""

from typing import Protocol

from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.apiextensions.table import ComposedTable
from kubeskew.apiserver.authorization.access import Access
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.metrics import PolicyMetrics
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.apiserver.webhooks.client import WebhookClient


class Codec(Protocol):
    """Reads stored objects, and brings objects into other versions."""

    def current(self, value: bytes, revision: int) -> Object:
        """The object is in the version that this server stores."""

    def default(self, obj: Object, resource: Resource) -> Object: ...

    def convert(self, obj: Object, resource: Resource) -> Object: ...


class Registry(Protocol):
    """Finds and reads the stored objects of one resource."""

    resource: Resource

    def key(self, namespace: str, name: str) -> Key: ...

    def object(self, entry: Entry) -> Object:
        """The object is in the hub version."""


class AdmissionServices(Protocol):
    """Plugins reach the server through this."""

    environment: Environment
    features: Features
    table: ComposedTable
    store: Store
    authorizer: Access
    webhooks: WebhookClient

    @property
    def policy_metrics(self) -> PolicyMetrics: ...

    @property
    def codec(self) -> Codec: ...

    def registry(self, resource: Resource) -> Registry: ...

    async def write_used_quota(self, quota: Object, used: dict[str, str]) -> None:
        """Stores `used` only if the quota is still at the revision it has here; raises 404, 409, 422."""
