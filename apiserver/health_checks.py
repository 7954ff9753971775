"""Named checks of health, liveness and readiness, among them upstream's post-start hooks.

Sources: k8s.io/apiserver/pkg/server/healthz/healthz.go, 1.36; answers of real servers of 1.31 to 1.36, which
have `--proxy-client-cert-file`, as kubeadm's do, and no `--peer-ca-file`; the hooks of pkg/controlplane,
k8s.io/apiserver, kube-aggregator and apiextensions-apiserver, 1.26 to 1.36.
"""

from collections.abc import Callable, Iterator, Mapping

from kubeskew.apiserver.features import HookFeatures
from kubeskew.apiserver.http.request import Response, text

Check = Callable[[], bool]
PROBES = ("healthz", "livez", "readyz")


class HealthChecks:
    """Checks are True if all is well; they stand under their probes."""

    def __init__(self) -> None:
        self._checks: Mapping[str, dict[str, Check]] = {probe: {} for probe in PROBES}

    def add(self, name: str, check: Check, probes: tuple[str, ...] = PROBES) -> None:
        for probe in probes:
            self._checks[probe][name] = check

    def probe(self, probe: str, *, verbose: bool, exclude: list[str]) -> Response:
        """The text is `ok`, or the checks one by one if one fails or `verbose` asks for them."""
        lines, good = [], True
        for name, check in self._checks[probe].items():
            if name in exclude:
                lines.append(f"[+]{name} excluded: ok")
            elif check():
                lines.append(f"[+]{name} ok")
            else:
                good = False
                lines.append(f"[-]{name} failed: reason withheld")
        if good and not verbose:
            return text(200, "ok")
        unknown = sorted({name for name in exclude if name and name not in self._checks[probe]})
        if unknown:
            names = ",".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        lines.append(f"{probe} check {'passed' if good else 'failed'}")
        return text(200 if good else 500, "\n".join(lines) + "\n")

    def names(self, probe: str) -> list[str]:
        """Each check has a path of its own."""
        return list(self._checks[probe])

    def results(self) -> Iterator[tuple[str, str, bool]]:
        """Each check comes with its probe and its outcome."""
        for probe, checks in self._checks.items():
            for name, check in checks.items():
                yield name, probe, check()

    def single(self, probe: str, name: str) -> Response | None:
        check = self._checks[probe].get(name)
        if check is None:
            return None
        return text(200, "ok") if check() else text(500, "internal server error: reason withheld\n")


def check_names(features: HookFeatures) -> list[str]:
    """They follow `etcd` in all probes, in upstream's order."""
    ranges = _if(features.service_ranges, "start-kubernetes-service-cidr-controller")
    bootstrap = ["bootstrap-controller", *ranges]
    namespaces = _if(features.system_namespaces, "start-system-namespaces-controller")
    if features.control_plane_first:
        own = [*namespaces, *_control_plane(features), *_groups(features), *bootstrap]
    elif features.groups_first:
        own = [*_groups(features), *namespaces, *bootstrap, *_control_plane(features)]
    else:
        own = [*namespaces, *bootstrap, *_groups(features), *_control_plane(features)]
    hooks = [*_generic(features), *own, *_aggregator(features)]
    return [name if name == "autoregister-completion" else f"poststarthook/{name}" for name in hooks]


def _if(condition: bool, name: str) -> list[str]:
    return [name] if condition else []


def _generic(features: HookFeatures) -> list[str]:
    return [
        features.admission,
        "generic-apiserver-start-informers",
        "priority-and-fairness-config-consumer",
        "priority-and-fairness-filter",
        "storage-object-count-tracker-hook",
        "start-apiextensions-informers",
        "start-apiextensions-controllers",
        "crd-informer-synced",
    ]


def _control_plane(features: HookFeatures) -> list[str]:
    prefix = "start-kube-apiserver"
    return [
        *_if(features.coordinated_election, f"{prefix}-coordinated-leader-election-controller"),
        *_if(features.peer_endpoints, "peer-endpoint-reconciler-controller"),
        "start-cluster-authentication-info-controller",
        f"{prefix}-identity-lease-controller",
        *_if(features.old_identities, "start-deprecated-kube-apiserver-identity-lease-garbage-collector"),
        f"{prefix}-identity-lease-garbage-collector",
        *_if(features.storage_readiness, "storage-readiness"),
        "start-legacy-token-tracking-controller",
    ]


def _groups(features: HookFeatures) -> list[str]:
    return [
        *_if(features.address_repair, "start-service-ip-repair-controllers"),
        "rbac/bootstrap-roles",
        "scheduling/bootstrap-system-priority-classes",
        "priority-and-fairness-config-producer",
    ]


def _aggregator(features: HookFeatures) -> list[str]:
    registration = "apiservice-registration-controller"
    discovery = _if(features.discovery, "apiservice-discovery-controller")
    if features.local_availability:
        available = [f"apiservice-status-{kind}-available-controller" for kind in ("local", "remote")]
        services = [*available, registration]
    else:
        services = [registration, "apiservice-status-available-controller"]
    return [
        "aggregator-reload-proxy-client-cert",
        "start-kube-aggregator-informers",
        *services,
        *(discovery if features.discovery_early else []),
        "kube-apiserver-autoregistration",
        "autoregister-completion",
        "apiservice-openapi-controller",
        "apiservice-openapiv3-controller",
        *([] if features.discovery_early else discovery),
    ]
