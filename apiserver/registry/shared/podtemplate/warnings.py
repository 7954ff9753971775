"""Makes the warnings for pods and pod templates.

Source: pkg/api/pod/warnings.go and pkg/registry/core/pod/strategy.go, 1.36. Where upstream walks a map the
names come sorted.
"""

from collections.abc import Iterator, Sequence

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import child, index, key
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.features import PodFeatures
from kubeskew.apiserver.registry.shared.addresses import ip_warnings
from kubeskew.apiserver.registry.shared.node_labels import DEPRECATED, term_warnings
from kubeskew.apiserver.registry.shared.podtemplate.annotations import (
    APP_ARMOR,
    SECCOMP_CONTAINER,
    SECCOMP_POD,
)
from kubeskew.apiserver.registry.shared.podtemplate.app_armor import app_armor_profile
from kubeskew.apiserver.registry.shared.podtemplate.port_warnings import port_warnings
from kubeskew.apiserver.registry.shared.podtemplate.volume_warnings import volume_warnings
from kubeskew.apiserver.registry.shared.podtemplate.windows import all_containers

_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
}
_BYTES = ("memory", "ephemeral-storage")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SECCOMP_FIELD = 'use the "seccompProfile" field instead'
_NO_SELECTOR = "a null labelSelector results in matching no pod"


def label_text(texts: list[str]) -> str:
    """Returns several errors as Go prints a list."""
    return f"[{' '.join(texts)}]"


def pod_warnings(pod: Object, features: PodFeatures) -> list[str]:
    """Returns the warnings about a new pod."""
    name = pod["metadata"].get("name") or ""
    texts = names.dns1123_label(name)
    found = []
    if texts:
        found.append(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a "
            "DNS "
            f"label is recommended: {label_text(texts)}"
        )
    if features.app_armor_fields and pod["metadata"].get("annotations"):
        found += _app_armor(pod)
    return [*found, *_spec_warnings(pod["metadata"], pod["spec"], "", features)]


def template_warnings(template: Object, path: str, features: PodFeatures) -> list[str]:
    return list(_spec_warnings(template.get("metadata") or {}, template.get("spec") or {}, path, features))


def status_warnings(status: Object) -> list[str]:
    """Warns of addresses written in an unusual way."""
    return [
        text
        for field in ("podIPs", "hostIPs")
        for position, address in enumerate(status.get(field) or ())
        for text in ip_warnings(f"status.{field}[{position}].ip", address.get("ip") or "")
    ]


def _app_armor(pod: Object) -> Iterator[str]:
    annotations = pod["metadata"]["annotations"]
    for container, _ in all_containers(pod["spec"], "spec"):
        name = APP_ARMOR + (container.get("name") or "")
        if name not in annotations:
            continue
        profile = app_armor_profile(annotations[name])
        own = (container.get("securityContext") or {}).get("appArmorProfile")
        if profile is None or profile == own:
            text = 'deprecated since v1.30; use the "appArmorProfile" field instead'
            yield f"{key('metadata.annotations', name)}: {text}"


def _spec_warnings(metadata: Object, spec: Object, path: str, features: PodFeatures) -> Iterator[str]:
    """Warns of a spec; `path`: of the template, empty for a pod."""
    inside, annotations = child(path, "spec"), metadata.get("annotations") or {}
    if spec.get("nodeSelector") or spec.get("affinity") or spec.get("topologySpreadConstraints"):
        yield from _placement(spec, inside, features)
    if annotations:
        yield from _without_effect(annotations, child(path, "metadata.annotations"))
    if spec.get("volumes"):
        yield from volume_warnings(spec["volumes"], child(inside, "volumes"), features)
    if spec.get("hostAliases") or spec.get("imagePullSecrets"):
        yield from _repeated(spec, "hostAliases", "ip", inside)
        yield from _repeated(spec, "imagePullSecrets", "name", inside)
        yield from _nameless_secrets(spec.get("imagePullSecrets") or (), child(inside, "imagePullSecrets"))
    if spec.get("overhead"):
        yield from _fractions(spec["overhead"], child(inside, "overhead"))
    if annotations:
        yield from _seccomp_of_pod(spec, annotations, path, features)
    for container, at in all_containers(spec, inside):
        if annotations:
            yield from _annotated(container, spec, annotations, path, features)
        yield from _container(container, at, features)
    yield from port_warnings(spec, inside, features)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0 and features.grace_warnings:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{child(inside, 'terminationGracePeriodSeconds')}: {text}"
    if spec.get("affinity") and features.selector_warnings:
        yield from _affinity(spec["affinity"], child(inside, "affinity"))
    if features.address_warnings and (spec.get("dnsConfig") or spec.get("hostAliases")):
        yield from _address_warnings(spec, inside)


def _without_effect(annotations: Object, path: str) -> Iterator[str]:
    for name, text in _ANNOTATIONS.items():
        if name in annotations:
            yield f"{key(path, name)}: {text}"


def _nameless_secrets(secrets: Sequence[Object], path: str) -> Iterator[str]:
    for position, secret in enumerate(secrets):
        if not secret.get("name"):
            yield f'{index(path, position)}.name: invalid empty name ""'


def _address_warnings(spec: Object, path: str) -> Iterator[str]:
    at = child(path, "dnsConfig.nameservers")
    for position, text in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
        yield from ip_warnings(index(at, position), text)
    for position, alias in enumerate(spec.get("hostAliases") or ()):
        where = child(index(child(path, "hostAliases"), position), "ip")
        yield from ip_warnings(where, alias.get("ip") or "")


def _placement(spec: Object, path: str, features: PodFeatures) -> Iterator[str]:
    for name in sorted(spec.get("nodeSelector") or ()):
        if name in DEPRECATED:
            yield f"{key(child(path, 'nodeSelector'), name)}: {DEPRECATED[name]}"
    node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    at = child(path, "affinity.nodeAffinity")
    for position, term in enumerate((node.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()):
        yield from term_warnings(term, index(f"{at}.{_REQUIRED}.nodeSelectorTerms", position), values=False)
    for position, preferred in enumerate(node.get(_PREFERRED) or ()):
        where = child(index(f"{at}.{_PREFERRED}", position), "preference")
        yield from term_warnings(preferred.get("preference") or {}, where, values=features.value_warnings)
    for position, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        where, name = index(child(path, "topologySpreadConstraints"), position), constraint.get("topologyKey")
        if name in DEPRECATED:
            yield f"{where}.topologyKey: {name} is {DEPRECATED[name]}"
        if constraint.get("labelSelector") is None and features.selector_warnings:
            yield f"{where}.labelSelector: {_NO_SELECTOR}"


def _affinity(affinity: Object, path: str) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        found, at = affinity.get(kind) or {}, child(path, kind)
        for position, term in enumerate(found.get(_REQUIRED) or ()):
            if term.get("labelSelector") is None:
                yield f"{index(child(at, _REQUIRED), position)}.labelSelector: {_NO_SELECTOR}"
        for position, weighted in enumerate(found.get(_PREFERRED) or ()):
            if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
                where = index(child(at, _PREFERRED), position)
                yield f"{where}.podAffinityTerm.labelSelector: {_NO_SELECTOR}"


def _repeated(spec: Object, field: str, name: str, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for position, item in enumerate(spec.get(field) or ()):
        value = item.get(name) or ""
        if value in seen:
            yield f'{index(child(path, field), position)}.{name}: duplicate {name} "{value}"'
        seen.add(value)


def _fractions(amounts: dict[str, str], path: str) -> Iterator[str]:
    for name in _BYTES:
        text = amounts.get(name)
        if text is not None and "m" in text and Quantity.parse(text).milli_value() % 1000:
            yield f'{key(path, name)}: fractional byte value "{text}" is invalid, must be an integer'


def _seccomp_of_pod(
    spec: Object, annotations: dict[str, str], path: str, features: PodFeatures
) -> Iterator[str]:
    profile = (spec.get("securityContext") or {}).get("seccompProfile")
    if profile is None and SECCOMP_POD in annotations:
        yield _seccomp_text(SECCOMP_POD, path, features)


def _seccomp_text(name: str, path: str, features: PodFeatures) -> str:
    planned = "deprecated since v1.19, non-functional in a future release"
    text = f"{planned if features.old_removals else 'non-functional in v1.27+'}; {_SECCOMP_FIELD}"
    return f"{key(child(path, 'metadata.annotations'), name)}: {text}"


def _annotated(
    container: Object, spec: Object, annotations: dict[str, str], path: str, features: PodFeatures
) -> Iterator[str]:
    own = container.get("securityContext") or {}
    name = SECCOMP_CONTAINER + (container.get("name") or "")
    if own.get("seccompProfile") is None and name in annotations:
        yield _seccomp_text(name, path, features)
    name = APP_ARMOR + (container.get("name") or "")
    given, common = own.get("appArmorProfile"), (spec.get("securityContext") or {}).get("appArmorProfile")
    if given is None and common is not None and name in annotations:
        same = common == app_armor_profile(annotations[name])
        given = common if same or not features.profile_warnings else None
    if path and given is None and name in annotations and features.app_armor_fields:
        text = 'deprecated since v1.30; use the "appArmorProfile" field instead'
        yield f"{key(child(path, 'metadata.annotations'), name)}: {text}"


def _container(container: Object, path: str, features: PodFeatures) -> Iterator[str]:
    resources = container.get("resources") or {}
    at = child(path, "resources")
    for name in _BYTES if resources else ():
        for field in ("limits", "requests"):
            text = (resources.get(field) or {}).get(name)
            if text is not None:
                yield from _fractions({name: text}, child(at, field))
    variables = container.get("env") or ()
    seen: set[str] = set()
    for position, variable in enumerate(variables if len(variables) > 1 else ()):
        name = variable.get("name") or ""
        where = index(child(path, "env"), position)
        if name in seen and not features.hidden_variables:
            yield f'{where}.name: duplicate name "{name}"'
        elif name in seen and _hides(variable, name):
            lost = ", which may be dropped when using apply" if features.hidden_from_apply else ""
            yield f'{where}: hides previous definition of "{name}"{lost}'
        seen.add(name)


def _hides(variable: Object, name: str) -> bool:
    """Decides whether a second definition does not build on the first."""
    value, reference = variable.get("value") or "", f"$({name})"
    return variable.get("valueFrom") is not None or value == reference or reference not in value
