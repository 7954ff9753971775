"""Names what the aggregation of other servers needs of this one."""

from typing import Protocol

from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.aggregation.registered import Registered
from kubeskew.apiserver.apiextensions.table import ComposedTable
from kubeskew.apiserver.caching.store_cache import DerivedFromStore
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.webhooks.endpoints import ServiceResolver


class AggregationServices(Protocol):
    """Gives what finding other servers and calling them takes."""

    environment: Environment
    features: Features
    table: ComposedTable
    store: Store
    registered: DerivedFromStore[Registered]
    remote_lists: dict[tuple[str, str], Object]
    service_resolver: ServiceResolver
    front_proxy_client: tuple[str, str] | None
