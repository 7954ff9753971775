"""Services that the paths that are no resources need."""

from typing import Protocol

from kubeskew.apiserver.aggregation.registered import AggregationServices
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.health_checks import HealthChecks
from kubeskew.apiserver.metrics import RequestMetrics
from kubeskew.apiserver.serviceaccount.tokens import AccountKeys
from kubeskew.apiserver.storage.interfaces import Log, Others


class RouteServices(AggregationServices, Protocol):
    features: Features
    log: Log
    health: HealthChecks
    metrics: RequestMetrics
    account_keys: AccountKeys
    address: str
    others: Others | None
    serves_logs: bool  # at /logs
