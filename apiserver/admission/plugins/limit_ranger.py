"""Applies a namespace's limit ranges: defaults for containers, and minimum, maximum and ratio of amounts.

Source: k8s.io/kubernetes/plugin/pkg/admission/limitranger/admission.go, 1.36.
"""

from collections.abc import Iterator, Sequence

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quota.pod_resources import PodResources
from kubeskew.apiserver.admission import CREATE, UPDATE, Attributes, Plugin
from kubeskew.apiserver.admission.plugins.limits import claim_errors, pod_errors
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.caching.parsed_objects import ParsedObjects

ANNOTATION = "kubernetes.io/limit-ranger"
_REMEMBERED = 1000


class LimitRanger(Plugin):
    """Looks at new pods, pods being resized, and volume claims."""

    operations = frozenset({CREATE, UPDATE})
    resources = frozenset({"pods", "persistentvolumeclaims"})
    subresources = frozenset({"", "resize"})

    def __init__(self, services: AdmissionServices) -> None:
        self._store = services.store
        self._sums = PodResources(pod_level=services.features.pods.pod_resources, overhead=False)
        self._parsed = ParsedObjects(_REMEMBERED)

    async def admit(self, attributes: Attributes) -> None:
        pod = attributes.object
        if pod is None or attributes.resource.storage_resource != "pods":
            return
        for range_ in self._ranges(attributes):
            _fill_in(pod, range_["spec"].get("limits") or ())

    async def validate(self, attributes: Attributes) -> None:
        obj = attributes.object
        if obj is None:
            return
        is_pod = attributes.resource.storage_resource == "pods"
        for range_ in self._ranges(attributes):
            limits = range_["spec"].get("limits") or ()
            found = pod_errors(limits, obj, self._sums) if is_pod else claim_errors(limits, obj)
            texts = list(dict.fromkeys(found))
            if texts:
                raise attributes.refuse(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")

    def _ranges(self, attributes: Attributes) -> Sequence[Object]:
        """Returns the limit ranges that count for a write, by name; none for what is being deleted."""
        old = attributes.old
        if old is not None and old["metadata"].get("deletionTimestamp"):
            return ()
        is_pod = attributes.resource.storage_resource == "pods"
        if is_pod and (attributes.operation == UPDATE) != (attributes.subresource == "resize"):
            return ()
        if not is_pod and attributes.subresource:
            return ()
        entries = self._store.list("limitranges", attributes.namespace).entries
        return [self._parsed.of(entry) for entry in entries]


def _fill_in(pod: Object, limits: Sequence[Object]) -> None:
    """Sets defaults in containers where they have no value, and lists them in the annotation."""
    requests: dict[str, str] = {}
    most: dict[str, str] = {}
    for limit in limits:
        if limit.get("type") == "Container":
            requests.update(limit.get("defaultRequest") or {})
            most.update(limit.get("default") or {})
    spec, notes = pod["spec"], []
    for field, what in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(field) or ():
            end = f"for {what} {container.get('name') or ''}"
            resources = container.setdefault("resources", {})
            limited = _complete(resources, "limits", most)
            notes += [f"{text} request {end}" for text in _complete(resources, "requests", requests)]
            notes += [f"{text} limit {end}" for text in limited]
    if notes:
        annotations = pod["metadata"]["annotations"] = dict(pod["metadata"].get("annotations") or {})
        annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def _complete(resources: Object, field: str, defaults: dict[str, str]) -> Iterator[str]:
    """Adds missing amounts; yields their names, as one text, if there were any."""
    missing = sorted(name for name in defaults if name not in (resources.get(field) or {}))
    if missing:
        added = {name: defaults[name] for name in missing}
        resources[field] = {**(resources.get(field) or {}), **added}
        return iter((", ".join(missing),))
    return iter(())
