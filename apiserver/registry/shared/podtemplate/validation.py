"""Holds the rules of a pod's spec, for pods and templates.

Source: pkg/apis/core/validation/validation.go (ValidatePodSpec, ValidatePodTemplateSpec), 1.36. What a spec
does not have costs nothing here, as pods are what is created most.
"""

from collections.abc import Iterator, Sequence

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver import object_meta
from kubeskew.apiserver.registry.shared import amounts
from kubeskew.apiserver.registry.shared.pod_options import PodOptions
from kubeskew.apiserver.registry.shared.podtemplate import (
    affinity,
    environments,
    network,
    security,
    tolerations,
    windows,
)
from kubeskew.apiserver.registry.shared.podtemplate import (
    annotations as pod_annotations,
)
from kubeskew.apiserver.registry.shared.podtemplate.claims import claim_errors
from kubeskew.apiserver.registry.shared.podtemplate.containers import (
    PodFacts,
    init_containers,
    regular_containers,
)
from kubeskew.apiserver.registry.shared.podtemplate.ephemeral_containers import ephemeral_errors
from kubeskew.apiserver.registry.shared.podtemplate.pod_resources import pod_resource_errors
from kubeskew.apiserver.registry.shared.volumes import pod_volumes

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION = ("PreemptLowerPriority", "Never")
_MAX_INT32 = 2**31 - 1


def pod_spec_errors(
    spec: Object, path: str, options: PodOptions, pod: Object | None = None
) -> list[FieldError]:
    """Returns the errors of a pod's spec. `pod`: the metadata of a real pod, not given for templates."""
    errors: list[FieldError] = []
    get = spec.get
    grace = get("terminationGracePeriodSeconds")
    if grace is None:
        errors.append(required(child(path, "terminationGracePeriodSeconds")))
    known: dict[str, Object] = {}
    if get("volumes"):
        pod_name = (pod or {}).get("name") or ""
        found, known = pod_volumes.volume_errors(spec["volumes"], child(path, "volumes"), options, pod_name)
        errors += found
    if get("resourceClaims"):
        errors += claim_errors(spec["resourceClaims"], child(path, "resourceClaims"), options.features, pod)
    facts = PodFacts(
        volumes=known,
        claims={claim.get("name") or "" for claim in get("resourceClaims") or ()} - {""},
        grace_seconds=grace,
        restart_policy=get("restartPolicy") or "",
        host_users=get("hostUsers") is not False,
        system=None if get("os") is None else spec["os"].get("name") or "",
        options=options,
    )
    errors += regular_containers(get("containers") or [], facts, child(path, "containers"))
    if get("initContainers"):
        errors += init_containers(spec, facts, child(path, "initContainers"))
    if get("ephemeralContainers"):
        errors += ephemeral_errors(spec, facts, path)
    if get("resources") is not None and options.pod_resources:
        errors += pod_resource_errors(spec, path, options)
    errors += _rest(spec, path, options)
    return errors


def _rest(spec: Object, path: str, options: PodOptions) -> list[FieldError]:
    """Checks the fields that are not about containers and volumes."""
    errors: list[FieldError] = []
    get = spec.get
    if get("hostNetwork"):
        errors += network.host_network_errors(spec, path, options)
    for field, allowed in (("restartPolicy", _RESTART), ("dnsPolicy", _DNS)):
        value = get(field)
        if value not in allowed:
            at = child(path, field)
            errors.append(not_supported(at, value, allowed) if value else required(at))
    if get("nodeSelector"):
        errors += object_meta.validate_labels(spec["nodeSelector"], child(path, "nodeSelector"))
    if get("securityContext") or get("shareProcessNamespace"):
        errors += security.pod_security_errors(spec, child(path, "securityContext"), options)
    if get("affinity"):
        errors += affinity.affinity_errors(spec["affinity"], child(path, "affinity"), options)
    if get("dnsConfig") is not None or get("dnsPolicy") == "None":
        errors += network.dns_errors(spec, child(path, "dnsConfig"), options)
    if get("readinessGates") or get("schedulingGates"):
        errors += _gates(spec, path)
    if get("topologySpreadConstraints"):
        at = child(path, "topologySpreadConstraints")
        errors += affinity.spread_errors(spec["topologySpreadConstraints"], at, options)
    errors += windows.host_process_errors(spec, path)
    if get("hostUsers") is False:
        errors += network.host_user_errors(spec, path, options)
    if get("hostnameOverride") is not None:
        errors += network.host_name_errors(spec, path)
    errors += _names(spec, path, options)
    return errors


def _gates(spec: Object, path: str) -> Iterator[FieldError]:
    for position, gate in enumerate(spec.get("readinessGates") or ()):
        at = child(index(child(path, "readinessGates"), position), "conditionType")
        value = gate.get("conditionType") or ""
        yield from (invalid(at, value, text) for text in names.qualified_name(value))
    seen: set[str] = set()
    for position, gate in enumerate(spec.get("schedulingGates") or ()):
        at, name = index(child(path, "schedulingGates"), position), gate.get("name") or ""
        yield from (invalid(at, name, text) for text in names.qualified_name(name))
        if name in seen:
            yield duplicate(at, name)
        seen.add(name)


def _bad_names(spec: Object, path: str, fields: Sequence[str], check: names.NameCheck) -> list[FieldError]:
    return [
        invalid(child(path, field), spec[field], text)
        for field in fields
        if spec.get(field)
        for text in check(spec[field], False)
    ]


def _names(spec: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    yield from _bad_names(spec, path, ("serviceAccountName", "nodeName"), names.dns1123_subdomain)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        yield invalid(child(path, "activeDeadlineSeconds"), deadline, names.range_text(1, _MAX_INT32))
    if spec.get("hostname") or spec.get("subdomain"):
        yield from _bad_names(spec, path, ("hostname", "subdomain"), names.dns1123_label)
    if spec.get("tolerations"):
        found, at = spec["tolerations"], child(path, "tolerations")
        yield from tolerations.toleration_errors(found, at, comparisons=options.comparisons)
    if spec.get("hostAliases"):
        yield from network.alias_errors(spec["hostAliases"], child(path, "hostAliases"), options)
    if spec.get("priorityClassName"):
        yield from _bad_names(spec, path, ("priorityClassName",), names.dns1123_subdomain)
    runtime = spec.get("runtimeClassName")
    if runtime is not None:
        at = child(path, "runtimeClassName")
        yield from (invalid(at, runtime, text) for text in names.dns1123_subdomain(runtime))
    preemption = spec.get("preemptionPolicy")
    if preemption is not None and preemption not in _PREEMPTION:
        at = child(path, "preemptionPolicy")
        yield not_supported(at, preemption, _PREEMPTION) if preemption else required(at)
    if spec.get("overhead"):
        yield from amounts.requirement_errors({"limits": spec["overhead"]}, (), child(path, "overhead"))
    if spec.get("os") is not None:
        yield from windows.system_errors(spec, path, options.features)
    if spec.get("schedulingGroup") is not None:
        yield from _group(spec["schedulingGroup"], child(path, "schedulingGroup.podGroupName"))
    yield from environments.file_volume_errors(spec, path)


def _group(group: Object, path: str) -> Iterator[FieldError]:
    name = group.get("podGroupName")
    if name is None:
        yield invalid(path, None, "must specify one of: `podGroupName`")
    else:
        yield from (invalid(path, name, text) for text in names.dns1123_subdomain(name))


def template_errors(template: Object, path: str, options: PodOptions) -> list[FieldError]:
    """Checks a pod template: labels and annotations, spec. Upstream's paths of the first two lack
    `metadata`.
    """
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    at, inside = child(path, "annotations"), child(path, "spec")
    errors = object_meta.validate_labels(labels, child(path, "labels"))
    if annotations:
        errors += object_meta.validate_annotations(annotations, at)
        errors += pod_annotations.annotation_errors(annotations, spec, at)
    errors += pod_spec_errors(spec, inside, options)
    if annotations:
        errors += pod_annotations.mismatch_errors(annotations, spec, inside)
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(child(inside, "ephemeralContainers"), text))
    return errors
