"""Rules of a pod's spec, for pods and templates.

Source: pkg/apis/core/validation/validation.go (ValidatePodSpec), 1.36; fields that the rest of the control
plane reads first.
"""

import ipaddress
from collections.abc import Iterator

from apimachinery.errors import Object
from apimachinery.field import (
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
)
from apimachinery.validation import names, object_meta
from apiserver.registry.validation import selectors, volumes
from apiserver.registry.validation.containers import (
    PodFacts,
    container_errors,
    init_errors,
    regular_errors,
)
from apiserver.registry.validation.ephemeral_containers import ephemeral_errors

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION = ("Never", "PreemptLowerPriority")
_MAX_INT32 = 2**31 - 1


def pod_spec_errors(spec: Object, path: str, *, relaxed_env: bool = True) -> list[FieldError]:
    """What is wrong with a pod's spec."""
    errors, known = volumes.volume_errors(spec.get("volumes") or [], child(path, "volumes"))
    errors += _claims(spec, child(path, "resourceClaims"))
    facts = PodFacts(
        volumes=known.keys(),
        claims={claim.get("name") or "" for claim in spec.get("resourceClaims") or []},
        host_network=bool(spec.get("hostNetwork")),
        grace_seconds=spec.get("terminationGracePeriodSeconds") or 0,
        relaxed_env=relaxed_env,
    )
    errors += _containers(spec, facts, path)
    errors += _policies(spec, path)
    errors += _security(spec, path)
    errors += _names(spec, path)
    errors += _placement(spec, path)
    errors += _aliases(spec, child(path, "hostAliases"))
    return errors


def _containers(spec: Object, facts: PodFacts, path: str) -> Iterator[FieldError]:
    containers = spec.get("containers") or []
    at = child(path, "containers")
    if not containers:
        yield required(at)
    seen: set[str] = set()
    for position, container in enumerate(containers):
        yield from _unique(container, seen, index(at, position))
        yield from container_errors(container, facts, index(at, position))
        yield from regular_errors(container, facts, index(at, position))
    at = child(path, "initContainers")
    for position, container in enumerate(spec.get("initContainers") or []):
        yield from container_errors(container, facts, index(at, position))
        yield from _unique(container, seen, index(at, position))
        yield from init_errors(container, facts, index(at, position))
    yield from ephemeral_errors(spec, facts, path)


def _unique(container: Object, seen: set[str], path: str) -> Iterator[FieldError]:
    name = container.get("name") or ""
    if name and name in seen:
        yield duplicate(child(path, "name"), name)
    seen.add(name)


def _policies(spec: Object, path: str) -> Iterator[FieldError]:
    for field, allowed in (("restartPolicy", _RESTART), ("dnsPolicy", _DNS)):
        value = spec.get(field) or ""
        if not value:
            yield required(child(path, field))
        elif value not in allowed:
            yield not_supported(child(path, field), value, allowed)
    if spec.get("dnsPolicy") == "None":
        config = spec.get("dnsConfig")
        at = child(path, "dnsConfig")
        if config is None:
            yield required(at, "must provide `dnsConfig` when `dnsPolicy` is None")
        elif not config.get("nameservers"):
            yield required(
                child(at, "nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None"
            )
    preemption = spec.get("preemptionPolicy")
    if preemption is not None and preemption not in _PREEMPTION:
        yield not_supported(child(path, "preemptionPolicy"), preemption, _PREEMPTION)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        yield invalid(child(path, "activeDeadlineSeconds"), deadline, names.range_text(1, _MAX_INT32))


def _security(spec: Object, path: str) -> Iterator[FieldError]:
    security = spec.get("securityContext") or {}
    at = child(path, "securityContext")
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        number = security.get(field)
        if number is not None and not 0 <= number <= _MAX_INT32:
            yield invalid(child(at, field), number, names.range_text(0, _MAX_INT32))
    for position, number in enumerate(security.get("supplementalGroups") or []):
        if not 0 <= number <= _MAX_INT32:
            group_path = index(child(at, "supplementalGroups"), position)
            yield invalid(group_path, number, names.range_text(0, _MAX_INT32))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        yield invalid(
            child(at, "shareProcessNamespace"),
            True,
            "ShareProcessNamespace and HostPID cannot both be enabled",
        )


def _names(spec: Object, path: str) -> Iterator[FieldError]:
    for field, check in (
        ("serviceAccountName", names.dns1123_subdomain),
        ("nodeName", names.dns1123_subdomain),
        ("hostname", names.dns1123_label),
        ("subdomain", names.dns1123_label),
        ("priorityClassName", names.dns1123_subdomain),
        ("runtimeClassName", names.dns1123_subdomain),
    ):
        value = spec.get(field) or ""
        if value:
            yield from (invalid(child(path, field), value, text) for text in check(value))
    for position, reference in enumerate(spec.get("imagePullSecrets") or []):
        if not reference.get("name"):
            yield required(child(index(child(path, "imagePullSecrets"), position), "name"))


def _placement(spec: Object, path: str) -> Iterator[FieldError]:
    selector = spec.get("nodeSelector") or {}
    yield from object_meta.validate_labels(selector, child(path, "nodeSelector"))
    yield from selectors.toleration_errors(spec.get("tolerations") or [], child(path, "tolerations"))
    yield from _affinity(spec.get("affinity") or {}, child(path, "affinity"))
    for position, gate in enumerate(spec.get("readinessGates") or []):
        at = child(index(child(path, "readinessGates"), position), "conditionType")
        value = gate.get("conditionType") or ""
        yield from (invalid(at, value, text) for text in names.qualified_name(value))
    yield from _scheduling_gates(spec, child(path, "schedulingGates"))
    yield from _spread(spec.get("topologySpreadConstraints") or [], child(path, "topologySpreadConstraints"))


def _scheduling_gates(spec: Object, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, gate in enumerate(spec.get("schedulingGates") or []):
        name = gate.get("name") or ""
        yield from (invalid(index(path, position), name, text) for text in names.qualified_name(name))
        if name in seen:
            yield duplicate(index(path, position), name)
        seen.add(name)
    if seen and spec.get("nodeName"):
        yield forbidden(
            child(path.rpartition(".")[0], "nodeName"),
            "cannot be set until all schedulingGates have been cleared",
        )


def _affinity(affinity: Object, path: str) -> Iterator[FieldError]:
    node = affinity.get("nodeAffinity") or {}
    at = child(path, "nodeAffinity")
    needed = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    if needed is not None:
        yield from selectors.node_selector_errors(
            needed, child(at, "requiredDuringSchedulingIgnoredDuringExecution")
        )
    preferred = child(at, "preferredDuringSchedulingIgnoredDuringExecution")
    for position, term in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution") or []):
        weight = term.get("weight") or 0
        if not 1 <= weight <= 100:
            yield invalid(child(index(preferred, position), "weight"), weight, "must be in the range 1-100")
        inner = child(index(preferred, position), "preference")
        yield from selectors.node_term_errors(term.get("preference") or {}, inner)


def _spread(constraints: list[Object], path: str) -> Iterator[FieldError]:
    for position, constraint in enumerate(constraints):
        at = index(path, position)
        skew = constraint.get("maxSkew") or 0
        if skew <= 0:
            yield invalid(child(at, "maxSkew"), skew, "must be greater than zero")
        if not constraint.get("topologyKey"):
            yield required(child(at, "topologyKey"), "can not be empty")
        action = constraint.get("whenUnsatisfiable") or ""
        if action not in {"DoNotSchedule", "ScheduleAnyway"}:
            yield not_supported(child(at, "whenUnsatisfiable"), action, ("DoNotSchedule", "ScheduleAnyway"))


def _aliases(spec: Object, path: str) -> Iterator[FieldError]:
    for alias in spec.get("hostAliases") or []:
        address = alias.get("ip") or ""
        if not is_ip(address):
            text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            yield invalid(child(path, "ip"), address, text)
        for host in alias.get("hostnames") or []:
            yield from (
                invalid(child(path, "hostnames"), host, text) for text in names.dns1123_subdomain(host)
            )


def is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _claims(spec: Object, path: str) -> Iterator[FieldError]:
    """`resourceClaims`, in the flat shape (1.31 on) or with `source` (before)."""
    seen: set[str] = set()
    for position, claim in enumerate(spec.get("resourceClaims") or []):
        at = index(path, position)
        name = claim.get("name") or ""
        yield from (invalid(child(at, "name"), name, text) for text in names.dns1123_label(name))
        if name in seen:
            yield duplicate(child(at, "name"), name)
        seen.add(name)
        inside = child(at, "source") if claim.get("source") else at
        yield from _claim_source(claim.get("source") or claim, inside)


def _claim_source(source: Object, path: str) -> Iterator[FieldError]:
    used = [
        name for name in ("resourceClaimName", "resourceClaimTemplateName") if source.get(name) is not None
    ]
    text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
    if len(used) > 1:
        yield invalid(
            path, source, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        )
    elif not used:
        yield invalid(path, source, text)
    for field in used:
        texts = names.dns1123_subdomain(source[field])
        yield from (invalid(child(path, field), source[field], text) for text in texts)


def template_errors(template: Object, path: str) -> list[FieldError]:
    """A pod template: labels and annotations, spec."""
    metadata = template.get("metadata") or {}
    return [
        *object_meta.validate_labels(metadata.get("labels") or {}, child(path, "labels")),
        *object_meta.validate_annotations(metadata.get("annotations") or {}, child(path, "annotations")),
        *pod_spec_errors(template.get("spec") or {}, child(path, "spec")),
        *_template_only(template.get("spec") or {}, child(path, "spec")),
    ]


def _template_only(spec: Object, path: str) -> Iterator[FieldError]:
    if spec.get("ephemeralContainers"):
        yield forbidden(
            child(path, "ephemeralContainers"), "ephemeral containers not allowed in pod template"
        )
