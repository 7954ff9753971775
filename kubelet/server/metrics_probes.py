"""`/metrics/probes`: how often containers were probed (pkg/kubelet/prober/prober_manager.go).

Most probes of fake containers are not run, and succeed: their number is computed.
"""

from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.server.metric_families import Family, rendered
from kubeskew.kubelet.server.usage import pods_in_use
from kubeskew.kubelet.server.view import NodeView

_PROBES = {"livenessProbe": "Liveness", "readinessProbe": "Readiness", "startupProbe": "Startup"}


def probe_metrics(view: NodeView) -> str:
    """Returns the page of a node."""
    total = Family(
        "prober_probe_total",
        "counter",
        "[BETA] Cumulative number of a liveness, readiness or startup probe for a container by result.",
    )
    now = view.clock.now()
    for pod in pods_in_use(view):
        labels = {
            "namespace": pod_spec.namespace_of(pod.pod),
            "pod": pod_spec.name_of(pod.pod),
            "pod_uid": pod_spec.uid_of(pod.pod),
        }
        for container in pod.containers:
            seconds = (now - container.container.started_at).total_seconds()
            for field, kind in _PROBES.items():
                probe = container.spec.get(field)
                if probe is None or seconds < (probe.get("initialDelaySeconds") or 0):
                    continue
                begun = seconds - (probe.get("initialDelaySeconds") or 0)
                count = 1 if kind == "Startup" else 1 + int(begun // (probe.get("periodSeconds") or 10))
                named = {"container": container.container.name, **labels, "probe_type": kind}
                total.add(count, {**named, "result": "successful"})
    return rendered([total])
