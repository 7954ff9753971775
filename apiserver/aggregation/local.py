"""Keeps an APIService for every group version that this server itself serves.

Source: k8s.io/kubernetes/pkg/controlplane/apiserver/aggregator.go and kube-aggregator's autoregister
controller, 1.26 … 1.36.
"""

import logging
from collections.abc import Iterable

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.metrics.series import QueueMeter, QueueMetrics
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.aggregation.registered import GROUP, RESOURCE, AggregationServices
from kubeskew.apiserver.background import Wakeups
from kubeskew.apiserver.http.request import Handler, Request, parse_info
from kubeskew.apiserver.storage.encoding import dumps
from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.records import Key
from kubeskew.apiserver.unreadable import known_object
from kubeskew.apiserver.user import SERVER

log = logging.getLogger(__name__)

AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"
_ON_START, _ALWAYS = "onstart", "true"
_PATH = f"/apis/{GROUP}/v1/apiservices"
_GROUPS = {
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
    "resource.k8s.io": 16200,
    "internal.apiserver.k8s.io": 16000,
    "storagemigration.k8s.io": 15800,
    "lifecycle.k8s.io": 9800,
}
_VERSIONS = {
    ("", "v1"): 1,
    ("admissionregistration.k8s.io", "v1beta1"): 12,
    ("admissionregistration.k8s.io", "v1alpha1"): 9,
    ("autoscaling", "v2"): 30,
    ("autoscaling", "v2beta2"): 1,
    ("coordination.k8s.io", "v1beta1"): 13,
    ("coordination.k8s.io", "v1alpha2"): 12,
    ("coordination.k8s.io", "v1alpha1"): 9,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("flowcontrol.apiserver.k8s.io", "v1beta3"): 18,
    ("flowcontrol.apiserver.k8s.io", "v1beta2"): 15,
    ("flowcontrol.apiserver.k8s.io", "v1beta1"): 12,
    ("internal.apiserver.k8s.io", "v1alpha1"): 9,
    ("resource.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1beta2"): 15,
    ("scheduling.k8s.io", "v1alpha2"): 2,
    ("storagemigration.k8s.io", "v1alpha1"): 9,
}
# Of resource.k8s.io, while it had alpha versions only.
_ALPHA_RESOURCES = (15900, 9)
_CUSTOM_PRIORITY = (1000, 100)


def _version_priority(group: str, version: str) -> int:
    named = _VERSIONS.get((group, version))
    if named is not None:
        return named
    return 15 if "beta" not in version and "alpha" not in version else 9 if "beta" in version else 1


def priorities(group: str, version: str, *, alpha_resources: bool) -> tuple[int, int]:
    """The first priority is the group's, the second the version's."""
    if alpha_resources and group == "resource.k8s.io":
        return _ALPHA_RESOURCES
    return _GROUPS.get(group, 9000), _version_priority(group, version)


def local_service(group: str, version: str, priority: tuple[int, int] | None) -> Object:
    """Custom group versions have no `priority` of their own."""
    custom = priority is None
    spec: Object = {"group": group} if group else {}
    spec["version"] = version
    spec["groupPriorityMinimum"], spec["versionPriority"] = priority or _CUSTOM_PRIORITY
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "APIService",
        "metadata": {
            "name": f"{version}.{group}",
            "labels": {AUTOMANAGED: _ALWAYS if custom else _ON_START},
        },
        "spec": spec,
    }


def built_in(services: AggregationServices) -> Iterable[tuple[str, Object]]:
    alpha = services.features.kinds.alpha_resources
    for group, versions in services.table.builtin.groups():
        if group != GROUP:  # the aggregator itself
            for version in versions:
                priority = priorities(group, version, alpha_resources=alpha)
                yield _PATH, local_service(group, version, priority)


class LocalServices:
    """Creates missing APIServices, and deletes those whose group version is no longer served."""

    def __init__(self, services: AggregationServices, dispatch: Handler, queues: QueueMetrics) -> None:
        self._services = services
        self._dispatch = dispatch
        self._wakeups = Wakeups(QueueMeter(queues, "autoregister"))
        self._has_started = False
        services.store.follow("customresourcedefinitions.apiextensions.k8s.io", self._wakeups.wake)
        services.store.follow(RESOURCE, self._wakeups.changed)

    async def run(self) -> None:
        while True:
            self._wakeups.begin()
            try:
                await self._follow()
            except StorageError as error:
                log.warning("APIServices cannot be kept: %s", error)
                self._wakeups.fail()
            await self._wakeups.wait()

    async def _follow(self) -> None:
        if not self._has_started:
            await self._let_go(_ON_START, set(self._groups(custom=False)))
            self._has_started = not self._wakeups.failed
        wanted = set(self._groups(custom=True))
        for group, version in sorted(wanted):
            key = Key(RESOURCE, "", f"{version}.{group}")
            if self._services.store.get(key) is None:
                await self._send("POST", _PATH, local_service(group, version, None))
        await self._let_go(_ALWAYS, wanted)

    async def _let_go(self, managed: str, wanted: set[tuple[str, str]]) -> None:
        """`managed` is the value of the automanaged label: `onstart` or `true`."""
        for entry in self._services.store.list(RESOURCE).entries:
            obj = known_object(entry)
            if obj is None:
                continue
            spec, labels = obj["spec"], obj["metadata"].get("labels") or {}
            named = spec.get("group") or "", spec.get("version") or ""
            if labels.get(AUTOMANAGED) == managed and named not in wanted:
                await self._send("DELETE", f"{_PATH}/{entry.key.name}", None)

    def _groups(self, *, custom: bool) -> Iterable[tuple[str, str]]:
        table = self._services.table.now()
        for group, versions in table.groups():
            for version in versions:
                if table.defines(group, version) == custom:
                    yield group, version

    async def _send(self, method: str, path: str, obj: Object | None) -> None:
        body = b"" if obj is None else dumps(obj)
        request = Request.of(method, path, {"user-agent": "kube-apiserver"}, body)
        request.info = parse_info(method, path, {})
        request.user = SERVER
        try:
            await self._dispatch(request)
        except StatusError as error:
            if error.reason not in {"AlreadyExists", "NotFound", "Conflict"}:
                log.warning("%s %s: %s", method, path, error.message)
                self._wakeups.fail()
