"""Registries need these services of the server."""

from typing import Protocol

from kubeskew.apimachinery.environment import Environment
from kubeskew.apiserver.admission import AdmissionChain
from kubeskew.apiserver.apiextensions.table import ComposedTable
from kubeskew.apiserver.authorization.access import Access
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.metrics import RequestMetrics
from kubeskew.apiserver.registry.codec import Codec
from kubeskew.apiserver.storage.interfaces import Log, Others, Store


class RegistryServices(Protocol):
    """Objects of any kind are read and written with these."""

    environment: Environment
    features: Features
    table: ComposedTable
    store: Store
    log: Log
    codec: Codec
    admission: AdmissionChain
    metrics: RequestMetrics
    authorizer: Access
    service_ip_range: str
    others: Others | None  # workers of this server
