"""The kubelet's metrics, with upstream's names. One set per process, shared by its nodes."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kubeskew.apimachinery.metrics.series import Counters

_DEFAULT_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # defaults of Go's client
ANY_DRIVER = "<any>"  # all claims, each counted once


def _skips(what: str, registry: CollectorRegistry) -> Counter:
    """Makes the counter of a driver's calls that a claim does without (KEP-5945)."""
    text = f"Number of times the {what} call of a DRA driver was skipped"
    return Counter(f"dra_node_{what}_skips", text, ["driver_name"], registry=registry)


def _pod_resources(name: str, what: str, registry: CollectorRegistry) -> Counters:
    text = f"Number of requests to the PodResource {what}. Broken down by server api version."
    return Counters(f"kubelet_pod_resources_endpoint_{name}", text, ["server_api_version"], registry)


class KubeletMetrics:
    """Counters and gauges, registered with `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._add_pods(registry)
        self._add_sockets(registry)
        self._add_claims(registry)

    def _add_pods(self, registry: CollectorRegistry) -> None:
        self.running_pods = Gauge(
            "kubelet_running_pods", "Number of pods that have a running pod sandbox", registry=registry
        )
        self.running_containers = Gauge(
            "kubelet_running_containers",
            "Number of currently running containers",
            ["container_state"],
            registry=registry,
        )
        self.started_pods = Counter(
            "kubelet_started_pods", "Cumulative number of pods started", registry=registry
        )
        self.started_containers = Counter(
            "kubelet_started_containers",
            "Cumulative number of containers started",
            ["container_type"],
            registry=registry,
        )
        self.started_containers_errors = Counter(
            "kubelet_started_containers_errors",
            "Cumulative number of errors when starting containers",
            ["container_type", "code"],
            registry=registry,
        )
        self.admission_rejections = Counter(
            "kubelet_admission_rejections",
            "Cumulative number of pod admission rejections by the Kubelet",
            ["reason"],
            registry=registry,
        )

    def _add_sockets(self, registry: CollectorRegistry) -> None:
        self.device_plugin_registrations = Counter(
            "kubelet_device_plugin_registration",
            "Cumulative number of device plugin registrations. Broken down by resource name.",
            ["resource_name"],
            registry=registry,
        )
        self.device_plugin_alloc_duration = Histogram(
            "kubelet_device_plugin_alloc_duration_seconds",
            "Duration in seconds to serve a device plugin Allocation request. Broken down by resource name.",
            ["resource_name"],
            buckets=_DEFAULT_SECONDS,
            registry=registry,
        )
        self.pod_resources_requests = Counter(
            "kubelet_pod_resources_endpoint_requests",
            "Cumulative number of requests to the PodResource endpoint. Broken down by server api version.",
            ["server_api_version"],
            registry=registry,
        )
        self.pod_resources_lists = _pod_resources("requests_list", "List requests", registry)
        self.pod_resources_get_allocatables = _pod_resources(
            "requests_get_allocatable", "GetAllocatableResources requests", registry
        )
        self.pod_resources_gets = _pod_resources("requests_get", "Get requests", registry)
        self.pod_resources_get_errors = _pod_resources(
            "errors_get", "Get requests which returned error", registry
        )

    def _add_claims(self, registry: CollectorRegistry) -> None:
        self.dra_operations_duration = Histogram(
            "dra_operations_duration_seconds",
            "Latency histogram in seconds for the duration of handling all ResourceClaims referenced by a "
            "pod when the pod starts or stops. Identified by the name of the operation (PrepareResources or "
            "UnprepareResources) and separated by the success of the operation. The number of failed "
            "operations is provided through the histogram's overall count.",
            ["operation_name", "is_error"],
            buckets=_DEFAULT_SECONDS,
            registry=registry,
        )
        self.dra_grpc_operations_duration = Histogram(
            "dra_grpc_operations_duration_seconds",
            "Duration in seconds of the DRA gRPC operations",
            ["driver_name", "method_name", "grpc_status_code"],
            buckets=_DEFAULT_SECONDS,
            registry=registry,
        )
        self.dra_skips = {
            "NodePrepareResources": _skips("prepare", registry),
            "NodeUnprepareResources": _skips("unprepare", registry),
        }
        self._claims_in_use = Gauge(
            "dra_resource_claims_in_use",
            "The number of ResourceClaims that are currently in use on the node, by driver name",
            ["driver_name"],
            registry=registry,
        )
        self._in_use: dict[str, Mapping[str, int]] = {}  # node → driver → claims

    def set_claims_in_use(self, node: str, by_driver: Mapping[str, int]) -> None:
        """Sets the count of one node; the metric is the sum over the nodes of this process."""
        before = self._in_use.get(node, {})
        self._in_use[node] = dict(by_driver)
        for driver in {**before, **by_driver}:
            total = sum(counts.get(driver, 0) for counts in self._in_use.values())
            self._claims_in_use.labels(driver).set(total)
