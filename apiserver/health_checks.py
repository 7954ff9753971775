"""Named checks of health, liveness and readiness, among them upstream's post-start hooks.

Sources: k8s.io/apiserver/pkg/server/healthz/healthz.go, 1.36; recorded answers of /readyz?verbose of 1.29,
1.31 and of a newer release with ServiceCIDRs; which gate a hook hangs on is from memory.
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
    hooks = _since(features) if features.local_availability else _before(features)
    return [name if name == "autoregister-completion" else f"poststarthook/{name}" for name in hooks]


def _generic(admission: str) -> list[str]:
    return [
        admission,
        "generic-apiserver-start-informers",
        "priority-and-fairness-config-consumer",
        "priority-and-fairness-filter",
        "storage-object-count-tracker-hook",
        "start-apiextensions-informers",
        "start-apiextensions-controllers",
        "crd-informer-synced",
    ]


def _before(features: HookFeatures) -> list[str]:
    namespaces = ["start-system-namespaces-controller"] if features.system_namespaces else []
    return [
        *_generic("start-kube-apiserver-admission-initializer"),
        "start-service-ip-repair-controllers",
        "rbac/bootstrap-roles",
        "scheduling/bootstrap-system-priority-classes",
        "priority-and-fairness-config-producer",
        *namespaces,
        "bootstrap-controller",
        "start-cluster-authentication-info-controller",
        "start-kube-apiserver-identity-lease-controller",
        "start-deprecated-kube-apiserver-identity-lease-garbage-collector",
        "start-kube-apiserver-identity-lease-garbage-collector",
        "start-legacy-token-tracking-controller",
        "aggregator-reload-proxy-client-cert",
        "start-kube-aggregator-informers",
        "apiservice-registration-controller",
        "apiservice-status-available-controller",
        "kube-apiserver-autoregistration",
        "autoregister-completion",
        "apiservice-openapi-controller",
        "apiservice-openapiv3-controller",
        "apiservice-discovery-controller",
    ]


def _since(features: HookFeatures) -> list[str]:
    caches = ["storage-readiness"] if features.storage_readiness else []
    cidrs = ["start-kubernetes-service-cidr-controller"] if features.service_ranges else []
    return [
        *_generic("start-apiserver-admission-initializer"),
        "start-system-namespaces-controller",
        "start-cluster-authentication-info-controller",
        "start-kube-apiserver-identity-lease-controller",
        "start-kube-apiserver-identity-lease-garbage-collector",
        *caches,
        "start-legacy-token-tracking-controller",
        "start-service-ip-repair-controllers",
        "rbac/bootstrap-roles",
        "scheduling/bootstrap-system-priority-classes",
        "priority-and-fairness-config-producer",
        "bootstrap-controller",
        *cidrs,
        "aggregator-reload-proxy-client-cert",
        "start-kube-aggregator-informers",
        "apiservice-status-local-available-controller",
        "apiservice-status-remote-available-controller",
        "apiservice-registration-controller",
        "apiservice-discovery-controller",
        "kube-apiserver-autoregistration",
        "autoregister-completion",
        "apiservice-openapi-controller",
        "apiservice-openapiv3-controller",
    ]
