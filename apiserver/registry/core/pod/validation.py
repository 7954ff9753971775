"""Pod: the rules that templates are exempt from, and those of changes, by a resize too.

Sources: pkg/apis/core/validation/validation.go (validatePodMetadataAndSpec, ValidatePodUpdate,
ValidateContainerUpdates, validateNodeSelectorMutation, validateNodeAffinityMutation, ValidatePodResize) and
pkg/registry/core/pod/strategy.go, 1.36; for updates that resize, 1.27 to 1.31.
"""

import copy
from collections import defaultdict
from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    ROOT,
    FieldError,
    InternalValue,
    child,
    forbidden,
    index,
    invalid,
    key,
    required,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.features import PodFeatures
from kubeskew.apiserver.registry.shared.pod_options import PodOptions
from kubeskew.apiserver.registry.shared.podtemplate.security import (
    APP_ARMOR,
    MIRROR,
    all_containers,
    app_armor_profile,
)
from kubeskew.apiserver.registry.shared.podtemplate.validation import toleration_errors

_TERMS = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NODE_TERMS = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_RESIZABLE = ",`spec.containers[*].resources` (for CPU/memory only)"
_AMOUNTS = ("cpu", "memory")
_MAX_INT32 = 2**31 - 1
_FIELDS = ("containers", "initContainers")
_MUTABLE = ("cpu", "memory")
_QOS = "Pod QOS Class may not change as a result of resizing"
_ONLY = "only cpu and memory resources are mutable"


def token_errors(spec: Object) -> Iterator[FieldError]:
    for position, volume in enumerate(spec.get("volumes") or ()):
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                at = index(child(index("spec.volumes", position), "projected.sources"), number)
                text = "must not be specified when serviceAccountName is not set"
                yield forbidden(child(at, "serviceAccountToken"), text)


def keep_observed_generations(new: Object, old: Object) -> None:
    """Observed generations that a status write leaves out are copied (in place)."""
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
    """Annotations fill the fields of AppArmor, in containers without them (in place)."""
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


def narrowing_errors(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = new.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if any(after.get(name) != value for name, value in before.items()):
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid("spec.nodeSelector", after, text)
    if _node_affinity(new) != _node_affinity(old):
        yield from _term_errors(_terms(new), _terms(old))


def _term_errors(new: list[Object], old: list[Object]) -> Iterator[FieldError]:
    if old and len(old) != len(new):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield invalid(_NODE_TERMS, InternalValue(new, "[core.NodeSelectorTerm"), text)
        return
    for position, before in enumerate(old):
        if not _only_grows(new[position], before):
            text = "only additions are allowed (no mutations or deletions)"
            shown = InternalValue(new[position], "core.NodeSelectorTerm")
            yield invalid(index(_NODE_TERMS, position), shown, text)


def _only_grows(new: Object, old: Object) -> bool:
    fields = ("matchExpressions", "matchFields")
    if not any(old.get(name) for name in fields):
        return not any(new.get(name) for name in fields)
    return all((new.get(name) or [])[: len(old[name])] == old[name] for name in fields if old.get(name))


def _node_affinity(spec: Object) -> Object:
    return (spec.get("affinity") or {}).get("nodeAffinity") or {}


def _terms(spec: Object) -> list[Object]:
    terms: list[Object] = (_node_affinity(spec).get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    return terms


def put_back_placement(munged: Object, old: Object) -> None:
    """`munged` gets the placement of `old`, except affinity to pods."""
    munged.pop("nodeSelector", None)
    if "nodeSelector" in old:
        munged["nodeSelector"] = old["nodeSelector"]
    before = (old.get("affinity") or {}).get("nodeAffinity")
    after = dict(munged.get("affinity") or {})
    after.pop("nodeAffinity", None)
    if before is not None:
        after["nodeAffinity"] = before
    if after or "affinity" in old:
        munged["affinity"] = after
    else:
        munged.pop("affinity", None)


def pod_update_errors(
    new: Object, old: Object, options: PodOptions, *, resizes: bool = False
) -> list[FieldError]:
    """`new` and `old` are specs; the new one itself is checked elsewhere. `resizes`: containers' amounts of
    CPU and memory may change."""
    if new == old:
        return list(_toleration_errors(new, old, options)) if new.get("tolerations") else []
    errors: list[FieldError] = []
    for field in ("containers", "initContainers"):
        found, stop = _container_errors(new.get(field) or [], old.get(field) or [], f"spec.{field}")
        errors += found
        if stop:
            return errors
    found = list(_deadline_errors(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")))
    errors += found
    if found and new.get("activeDeadlineSeconds") is not None:
        return errors
    errors += _toleration_errors(new, old, options)
    errors += _gate_errors(new, old)
    munged = munge(new, old)
    if resizes:
        put_back_amounts(munged, old)
    if old.get("schedulingGates"):  # a gated pod's placement may still be narrowed
        errors += narrowing_errors(new, old)
        put_back_placement(munged, old)
    if munged != old:
        difference = options.features.internal.difference("core.PodSpec", old, munged)
        updatable = UPDATABLE + (_RESIZABLE if resizes else "")
        text = f"pod updates may not change fields other than {updatable}\n{difference}"
        errors.append(forbidden("spec", text))
    return errors


def _container_errors(new: list[Object], old: list[Object], path: str) -> tuple[list[FieldError], bool]:
    if len(new) != len(old):
        return [forbidden(path, "pod updates may not add or remove containers")], True
    errors = []
    for position, container in enumerate(new):
        at = child(index(path, position), "image")
        image = container.get("image") or ""
        if not image:
            errors.append(required(at))
        if image.strip() != image:
            errors.append(invalid(at, image, "must not have leading or trailing whitespace"))
    return errors, False


def _deadline_errors(new: int | None, old: int | None) -> Iterator[FieldError]:
    at = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            yield invalid(at, None, "must not update from a positive integer to nil value")
    elif not 0 <= new <= _MAX_INT32:
        yield invalid(at, new, names.range_text(0, _MAX_INT32))
    elif old is not None and old < new:
        yield invalid(at, new, "must be less than or equal to previous value")


def _toleration_errors(new: Object, old: Object, options: PodOptions) -> Iterator[FieldError]:
    def plain(toleration: Object) -> Object:
        return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}

    found = new.get("tolerations") or []
    kept = [plain(toleration) for toleration in found]
    if any(plain(toleration) not in kept for toleration in old.get("tolerations") or []):
        text = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden("spec.tolerations", text)
    else:
        compare = options.known_comparisons
        yield from toleration_errors(found, "spec.tolerations", comparisons=compare)


def _gate_errors(new: Object, old: Object) -> Iterator[FieldError]:
    known = {gate.get("name") for gate in old.get("schedulingGates") or []}
    for position, gate in enumerate(new.get("schedulingGates") or []):
        if gate.get("name") not in known:
            at = child(index("spec.schedulingGates", position), "name")
            text = f"only deletion is allowed, but found new scheduling gate '{gate.get('name') or ''}'"
            yield forbidden(at, text)


def munge(new: Object, old: Object) -> Object:
    """Fields of the new spec that may change are put back to what they were."""
    munged = copy.deepcopy(new)
    for field in ("containers", "initContainers"):
        for container, before in zip(munged.get(field) or [], old.get(field) or [], strict=False):
            put_back(container, before, "image")
            if container.get("resizePolicy") is None and before.get("resizePolicy") is not None:
                container["resizePolicy"] = before["resizePolicy"]
    for field in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        put_back(munged, old, field)
    grace = "terminationGracePeriodSeconds"
    if (old.get(grace) or 0) < 0 and munged.get(grace) == 1:
        munged[grace] = old[grace]
    return munged


def put_back_amounts(munged: Object, old: Object) -> None:
    """The containers' amounts of CPU and memory become what they were.

    A list that was not there goes, with all that is in it now; resources that are no CPU and no memory are
    those of the new container, which loses its claims.
    """
    for container, before in zip(munged.get("containers") or [], old.get("containers") or [], strict=False):
        had = before.get("resources") or {}
        resources = dict(container.get("resources") or {})
        resources.pop("claims", None)
        for kind in ("limits", "requests"):
            amounts = _munged_amounts(resources.get(kind), had.get(kind))
            if amounts is None:
                resources.pop(kind, None)
            else:
                resources[kind] = amounts
        if resources or had or "resources" in container:
            container["resources"] = resources


def _munged_amounts(amounts: Object | None, before: Object | None) -> Object | None:
    if before is None:
        return None
    rest = {name: amount for name, amount in (amounts or {}).items() if name not in _AMOUNTS}
    return rest | {name: before[name] for name in _AMOUNTS if name in before}


def put_back(new: Object, old: Object, field: str) -> None:
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


def resize_errors(
    new: Object, old: Object, qos: tuple[str, str], features: PodFeatures, spec_errors: list[FieldError]
) -> list[FieldError]:
    """`qos` are the classes of the new spec and the old, `spec_errors` those of the new."""
    if MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden(ROOT, "static pods cannot be resized")]
    if (old["spec"].get("os") or {}).get("name") == "windows":
        return [forbidden(ROOT, "windows pods cannot be resized")]
    pod_level = bool(_amounts(new["spec"]) or _amounts(old["spec"]))
    if pod_level and not features.pod_resize and not features.pod_resize_wording:
        return [forbidden(ROOT, "pods with pod-level resources cannot be resized")]
    errors = list(spec_errors)
    if qos[0] != qos[1]:
        errors.append(invalid("spec", (new.get("status") or {}).get("qosClass", ""), _QOS))
    if not _is_supported(old):
        errors.append(forbidden("spec", "Pod running on node without support for resize"))
    munged = copy.deepcopy(new["spec"])
    if pod_level:
        if not features.pod_resize:
            gate = "InPlacePodLevelResourcesVerticalScalingEnabled"
            what = "resize of pods with pod-level resources"
            text = f"{what} is forbidden when {gate} feature gate is disabled"
            return [*errors, forbidden(ROOT, text)]
        errors += _pod_level_errors(munged, old["spec"])
    if (old.get("status") or {}).get("nodeAllocatableResourceClaimStatuses"):
        errors.append(forbidden("spec", "pods with node allocatable resource claims cannot be resized"))
    order = list(_order_errors(new["spec"], old["spec"]))
    if order:
        return [*errors, *order]
    errors += _resized_container_errors(munged, new["spec"], old["spec"], features)
    if not errors and munged != old["spec"]:
        errors.append(forbidden("spec", _ONLY))
    return errors


def _amounts(spec: Object) -> Object:
    resources = spec.get("resources") or {}
    return {**(resources.get("requests") or {}), **(resources.get("limits") or {})}


def _is_supported(pod: Object) -> bool:
    """Running containers report resources if the kubelet can resize."""
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        if "running" in (status.get("state") or {}):
            return "resources" in status
    return True


def _order_errors(new: Object, old: Object) -> Iterator[FieldError]:
    for field in _FIELDS:
        after, before = new.get(field) or [], old.get(field) or []
        at = f"spec.{field}"
        if len(after) != len(before):
            yield forbidden(at, f"{field} may not be added or removed on resize")
            continue
        for position, (container, other) in enumerate(zip(after, before, strict=True)):
            if container.get("name") != other.get("name"):
                text = f"{field} may not be renamed or reordered on resize"
                yield forbidden(child(index(at, position), "name"), text)


def _pod_level_errors(munged: Object, old: Object) -> Iterator[FieldError]:
    before, after = old.get("resources"), munged.get("resources")
    if before is not None and after is None:
        yield forbidden("spec.resources", "pod-level resources cannot be removed")
        return
    for kind in ("requests", "limits"):
        if set((before or {}).get(kind) or {}) - set((after or {}).get(kind) or {}):
            yield forbidden(f"spec.resources.{kind}", f"pod-level resource {kind} cannot be removed")
    _put_back(munged, old, keeps_claims=True)
    if munged.get("resources") != before:
        yield forbidden("spec", "only cpu and memory resources are mutable at pod-level")


def _resized_container_errors(
    munged: Object, new: Object, old: Object, features: PodFeatures
) -> Iterator[FieldError]:
    """`munged` gets what must not change."""
    for field in reversed(_FIELDS):
        for position, (after, before) in enumerate(_pairs(new, old, field)):
            if field == "containers" or features.init_resize or is_sidecar(before):
                at = child(index(f"spec.{field}", position), "resources")
                yield from _resource_errors(after, before, at, features)
    for after, before in _pairs(munged, old, "containers"):
        _put_back(after, before)
        if after != before:
            yield forbidden("spec", _ONLY)
    for position, (after, before) in enumerate(_pairs(munged, old, "initContainers")):
        yield from _init_errors(after, before, index("spec.initContainers", position), features)


def _pairs(new: Object, old: Object, field: str) -> list[tuple[Object, Object]]:
    return list(zip(new.get(field) or [], old.get(field) or [], strict=False))


def _init_errors(after: Object, before: Object, path: str, features: PodFeatures) -> Iterator[FieldError]:
    changed, sidecar = after != before, is_sidecar(before)
    if not (sidecar or features.init_resize):
        if changed:
            yield forbidden("spec", "resources for non-sidecar init containers are immutable")
        return
    _put_back(after, before)
    if after != before and features.init_resize:
        yield forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable")
    elif after != before:
        yield forbidden("spec", "only cpu and memory resources for sidecar containers are mutable")
    if changed and not sidecar:
        for policy in before.get("resizePolicy") or []:
            if policy.get("restartPolicy") == "RestartContainer":
                what = "non-sidecar init containers with a resize policy of RestartContainer"
                yield forbidden(path, f"{what} cannot be resized")


def _resource_errors(new: Object, old: Object, path: str, features: PodFeatures) -> Iterator[FieldError]:
    after, before = new.get("resources") or {}, old.get("resources") or {}
    for kind in ("requests", "limits"):
        if set(before.get(kind) or {}) - set(after.get(kind) or {}):
            yield forbidden(child(path, kind), f"resource {kind} cannot be removed")
    if features.memory_shrinks or _memory_policy(new) == "RestartContainer":
        return
    now, was = ((resources.get("limits") or {}).get("memory") for resources in (after, before))
    at = key(child(path, "limits"), "memory")
    if now is not None and was is None:
        yield forbidden(at, "memory limits cannot be added unless resizePolicy is RestartContainer")
    elif now is not None and was is not None and Quantity.parse(now) < Quantity.parse(was):
        yield forbidden(at, "memory limits cannot be decreased unless resizePolicy is RestartContainer")


def _memory_policy(container: Object) -> str:
    for policy in container.get("resizePolicy") or []:
        if policy.get("resourceName") == "memory":
            return str(policy.get("restartPolicy") or "")
    return "NotRequired"


def _put_back(after: Object, before: Object, *, keeps_claims: bool = False) -> None:
    """The claims of containers are left out, as if there had been none before."""
    resources = copy.deepcopy(after.get("resources") or {})
    if not keeps_claims:
        resources.pop("claims", None)
    for kind in ("requests", "limits"):
        amounts = {n: v for n, v in (resources.get(kind) or {}).items() if n not in _MUTABLE}
        was = (before.get("resources") or {}).get(kind) or {}
        amounts |= {name: was[name] for name in _MUTABLE if name in was}
        resources.pop(kind, None)
        if amounts:
            resources[kind] = amounts
    after.pop("resources", None)
    if resources or "resources" in before:
        after["resources"] = resources
