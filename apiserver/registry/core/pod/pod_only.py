"""Holds rules for pods that templates are exempt from, and fills in new pods.

Source: pkg/registry/core/pod/strategy.go and pkg/apis/core/validation/validation.go
(validatePodMetadataAndSpec), 1.36.
"""

from collections import defaultdict
from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, child, forbidden, index
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import PodFeatures
from kubeskew.apiserver.registry.shared.podtemplate.annotations import APP_ARMOR
from kubeskew.apiserver.registry.shared.podtemplate.app_armor import app_armor_profile
from kubeskew.apiserver.registry.shared.podtemplate.windows import all_containers

_TERMS = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def token_errors(spec: Object) -> Iterator[FieldError]:
    """Checks that a pod without an account has no tokens of it."""
    for position, volume in enumerate(spec.get("volumes") or ()):
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                at = index(child(index("spec.volumes", position), "projected.sources"), number)
                text = "must not be specified when serviceAccountName is not set"
                yield forbidden(child(at, "serviceAccountToken"), text)


def keep_observed_generations(new: Object, old: Object) -> None:
    """Copies observed generations that a status write leaves out (in place)."""
    if not new.get("observedGeneration") and old.get("observedGeneration"):
        new["observedGeneration"] = old["observedGeneration"]
    known: dict[str, list[int]] = defaultdict(list)
    for condition in old.get("conditions") or ():
        known[condition.get("type") or ""].append(condition.get("observedGeneration") or 0)
    for condition in new.get("conditions") or ():
        before = known[condition.get("type") or ""]
        number = before.pop(0) if before else 0
        if number and not condition.get("observedGeneration"):
            condition["observedGeneration"] = number


def merge_label_keys(pod: Object, features: PodFeatures) -> None:
    """Adds the label keys in affinity and spreading to their selectors."""
    labels, spec = pod["metadata"].get("labels") or {}, pod["spec"]
    if features.merged_affinity:
        for term in _affinity_terms(spec.get("affinity") or {}):
            _apply(term, "matchLabelKeys", "In", labels)
            _apply(term, "mismatchLabelKeys", "NotIn", labels)
    if features.merged_constraints:
        for constraint in spec.get("topologySpreadConstraints") or ():
            _apply(constraint, "matchLabelKeys", "In", labels)


def _affinity_terms(affinity: Object) -> Iterator[Object]:
    for kind in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(kind) or {}
        for name in _TERMS:
            for term in found.get(name) or ():
                yield term.get("podAffinityTerm") or {} if name == _TERMS[1] else term


def _apply(term: Object, field: str, operator: str, labels: dict[str, str]) -> None:
    selector = term.get("labelSelector")
    keys = [name for name in term.get(field) or () if name in labels]
    if selector is None or not keys:
        return
    added = [{"key": name, "operator": operator, "values": [labels[name]]} for name in keys]
    selector["matchExpressions"] = [*(selector.get("matchExpressions") or []), *added]


# --- AppArmor: annotations until 1.30, fields since ---------------------------------------------------------


def read_app_armor(pod: Object) -> None:
    """Fills the fields of AppArmor from annotations, in containers without them (in place)."""
    spec, annotations = pod["spec"], pod["metadata"]["annotations"]
    if (spec.get("os") or {}).get("name") == "windows":
        return
    of_pod = (spec.get("securityContext") or {}).get("appArmorProfile")
    for container, _ in all_containers(spec, "spec"):
        said = annotations.get(APP_ARMOR + (container.get("name") or ""))
        if said is None or (container.get("securityContext") or {}).get("appArmorProfile") is not None:
            continue
        profile = app_armor_profile(said)
        if profile is not None and profile != of_pod:
            container["securityContext"] = {
                **(container.get("securityContext") or {}),
                "appArmorProfile": profile,
            }
