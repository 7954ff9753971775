"""Metrics of the state at the time they are read: objects, addresses and ports, availability of other
servers.

Sources, 1.36: k8s.io/apiserver/pkg/storage/{etcd3,cacher}/metrics/metrics.go,
kube-aggregator/pkg/apiserver/metrics.go, pkg/registry/core/service/{ipallocator,portallocator}/metrics.go.
"""

import ipaddress
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.metrics.series import Families
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.aggregation.registered import is_available
from kubeskew.apiserver.apiextensions.table import ComposedTable
from kubeskew.apiserver.metrics import ReadMetrics, of_resource
from kubeskew.apiserver.registry.core.service.allocation import NODE_PORTS, node_ports
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.unreadable import known_object
from kubeskew.apiserver.watch_cache_features import has_watch_cache

_API_SERVICES = "apiservices.apiregistration.k8s.io"
# Counters of parts that this server does not have: they stand at zero, as upstream's do where
# nothing is configured or goes wrong (audit policies, encryption at rest, tokens in Secrets that are made by
# themselves, discovery among servers of several versions, the repair of node ports, declarative validation
# that is compared with the other, plugins that are run for credentials).
_ZEROS = {
    "aggregator_discovery_nopeer_requests_total": "Discovery without that of other servers.",
    "aggregator_discovery_peer_aggregated_cache_hits_total": "Hits of the cache of other servers' discovery.",
    "aggregator_discovery_peer_aggregated_cache_misses_total": "Misses of that cache.",
    "apiserver_nodeport_repair_reconcile_errors_total": "Repairs of node ports that failed.",
    "apiserver_validation_declarative_validation_mismatch_total": "Results of validations that differ.",
    "apiserver_validation_declarative_validation_panic_total": "Panics of declarative validation.",
    "apiserver_audit_event_total": "Audit events made.",
    "apiserver_audit_requests_rejected_total": "Requests rejected by a failing audit backend.",
    "apiserver_storage_data_key_generation_failures_total": "Data encryption keys that could not be made.",
    "apiserver_storage_envelope_transformation_cache_misses_total": "Misses of the cache of encryption keys.",
}


class StateServices(Protocol):
    environment: Environment
    table: ComposedTable
    store: Store
    service_ip_range: str


class StateMetrics:
    """Sets gauges and counters from the store before they are read."""

    def __init__(
        self, families: Families, reads: ReadMetrics, services: StateServices, storage_url: str
    ) -> None:
        self._services = services
        self._reads = reads
        self._database = _file_of(storage_url)
        self._stored_bytes = families.gauges(
            "apiserver_storage_size_bytes", "Bytes of the storage that the server writes to."
        )
        for name, text in _ZEROS.items():
            families.counters(name, text)
        families.histograms(
            "rest_client_exec_plugin_certificate_rotation_age", "Seconds that certificates of plugins lived."
        )
        families.gauges(
            "rest_client_exec_plugin_ttl_seconds", "Seconds that they still live."
        ).at().value = math.inf
        families.gauges("apiserver_envelope_encryption_dek_cache_fill_percent", "Fill of the key cache.")
        families.histograms(
            "apiserver_storage_data_key_generation_duration_seconds", "Seconds to make a key."
        )
        self._objects = [
            families.gauges("apiserver_resource_objects", "Objects that are stored."),
            families.gauges("apiserver_storage_objects", "Objects that are stored, by resource and group."),
        ]
        self._sizes = families.gauges(
            "apiserver_resource_size_estimate_bytes", "Bytes of the objects that are stored."
        )
        self._events = [
            families.counters(f"apiserver_{name}_total", text)
            for name, text in (
                ("storage_events_received", "Events received from storage."),
                ("watch_cache_events_received", "Events that the watch cache received."),
                ("watch_cache_events_dispatched", "Events that the watch cache handed on."),
            )
        ]
        self._filled = families.counters(
            "apiserver_watch_cache_initializations_total", "How often the watch cache was filled."
        )
        self._revision = families.gauges(
            "apiserver_watch_cache_resource_version", "The revision of the watch cache."
        )
        self._unavailable = families.gauges(
            "aggregator_unavailable_apiservice", "Whether an APIService is unavailable."
        )
        prefix = "kube_apiserver_clusterip_allocator"
        self._taken = families.gauges(f"{prefix}_allocated_ips", "Addresses that services have.")
        self._free = families.gauges(f"{prefix}_available_ips", "Addresses that no service has.")
        prefix = "kube_apiserver_nodeport_allocator"
        self._taken_ports = families.gauges(f"{prefix}_allocated_ports", "Node ports that services have.")
        self._free_ports = families.gauges(f"{prefix}_available_ports", "Node ports that no service has.")

    def look(self) -> None:
        """Brings the series up to date; those of deleted objects end (upstream: DeleteStoreStats)."""
        for gauges in (*self._objects, self._sizes, self._revision, self._unavailable):
            gauges.clear()
        for resource in self._resources():
            self._count(resource)
        self._count_addresses()
        if self._database is not None and self._database.exists():
            self._stored_bytes.at(storage_cluster_id="etcd-0").value = self._database.stat().st_size
        for service in self._stored(_API_SERVICES):
            available = is_available(service)
            self._unavailable.at(name=service["metadata"]["name"]).value = float(not available)

    def _resources(self) -> Iterator[str]:
        """Only resources that this server stores can be watched."""
        table = self._services.table
        versions = ((group, version) for group, found in table.groups() for version in found)
        yield from sorted(
            {
                one.storage_resource
                for group, version in versions
                for one in table.resources(group, version)
                if "watch" in one.verbs
            }
        )

    def _count(self, resource: str) -> None:
        store = self._services.store
        entries = store.list(resource).entries
        for family in self._objects:
            of_resource(family, resource).value = len(entries)
        of_resource(self._sizes, resource).value = sum(len(entry.value) for entry in entries)
        for events in self._events:
            if resource in store.received:
                of_resource(events, resource).value = store.received[resource]
        if has_watch_cache(resource):
            times, objects = store.fillings(resource)
            of_resource(self._filled, resource).value = times
            self._reads.filled(resource, times, objects)
            of_resource(self._revision, resource).value = store.revision

    def _count_addresses(self) -> None:
        services = list(self._stored("services"))
        network = ipaddress.ip_network(self._services.service_ip_range)
        specs = [service.get("spec") or {} for service in services]
        addresses = {one for spec in specs for one in spec.get("clusterIPs") or () if one != "None"}
        ports = {port for spec in specs for port in node_ports(spec)}
        cidr, reserved = str(network), 2 if network.version == 4 else 1
        self._taken.at(cidr=cidr).value = len(addresses)
        self._free.at(cidr=cidr).value = network.num_addresses - reserved - len(addresses)
        self._taken_ports.at().value = len(ports)
        self._free_ports.at().value = len(NODE_PORTS) - len(ports)

    def _stored(self, resource: str) -> Iterator[Object]:
        for entry in self._services.store.list(resource).entries:
            obj = known_object(entry)
            if obj is not None:
                yield obj


def _file_of(storage_url: str) -> Path | None:
    """None for other databases than SQLite: they do not report their size."""
    scheme, _, path = storage_url.partition("://")
    name = path.partition("?")[0].removeprefix("/")
    return Path(name) if scheme.startswith("sqlite") and name else None
