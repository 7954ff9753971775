"""Lists the names of upstream's post-start hooks, each of which is a health check.

Source: recorded answers of /readyz?verbose of 1.29, 1.31 and of a newer release with ServiceCIDRs; which gate
a hook hangs on is from memory.
"""

from kubeskew.apiserver.features import HookFeatures


def check_names(features: HookFeatures) -> list[str]:
    """Returns the checks after `etcd` that all probes share, in upstream's order."""
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
