"""Writers of pods and pod templates get these warnings.

Among them are those of duplicate ports, of volumes of removed kinds, of files in a volume that hide each
other, and of host names that no pod could have. Where upstream walks a map the names come sorted.

Sources: pkg/api/pod/warnings.go, 1.26 to 1.36; pkg/registry/core/pod/strategy.go, 1.36.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import child, index, key
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.features import PodFeatures
from kubeskew.apiserver.registry.shared.addresses import ip_warnings
from kubeskew.apiserver.registry.shared.internal_values import container_port
from kubeskew.apiserver.registry.shared.podtemplate.security import (
    APP_ARMOR,
    SECCOMP_CONTAINER,
    SECCOMP_POD,
    all_containers,
    app_armor_profile,
)
from kubeskew.apiserver.registry.shared.selectors import DEPRECATED, term_warnings
from kubeskew.apiserver.registry.shared.volumes.warnings import claim_warnings

_WARNINGS_MAX = 1000  # of a volume: our limit, far more than a response carries
_PLAIN = (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName"))
_CERTIFICATES = (
    ("certificateChainPath", "chain"),
    ("keyPath", "key"),
    ("credentialBundlePath", "credential bundle"),
)
_PROJECTED = (("configMap", "ConfigMap", "name"), ("secret", "Secret", "name"))
# (field, text), in upstream's order
_KINDS = (
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("ephemeral", ""),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
)
_SHOWN_AS = {"storageos": "storageOS"}
_PLANNED = "deprecated in v1.22, support removal is planned in v1.26"
_REMOVALS = {  # texts of 1.26 about kinds that were to be removed
    **dict.fromkeys(("flocker", "storageos", "quobyte"), _PLANNED),
    "glusterfs": "deprecated in v1.25, this feature will be removed soon after in a subsequent release",
}
_CEPH = ("cephfs", "rbd")
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
_HOST_NAMES = (
    "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS "
    "label is recommended: "
)


def overlap_warnings(volumes: list[Object], *, sources_repeat: bool = False) -> Iterator[str]:
    for volume in volumes:
        name = json.dumps(volume.get("name") or "")
        for kind, shown, named_by in _PLAIN:
            source = volume.get(kind) or {}
            what = f"{shown} {json.dumps(source.get(named_by) or '')}"
            yield from _pair_warnings(name, what, [(path, "") for path in _paths(source)])
        yield from _pair_warnings(
            name, "DownwardAPI", [(path, "") for path in _paths(volume.get("downwardAPI") or {})]
        )
        parts = (volume.get("projected") or {}).get("sources") or ()
        yield from _projected_warnings(name, parts, sources_repeat=sources_repeat)


def _projected_warnings(name: str, parts: Sequence[Object], *, sources_repeat: bool) -> Iterator[str]:
    """Warns of a projected volume, source by source; one without files may repeat those before it."""
    paths: list[tuple[str, str]] = []
    owners: list[int] = []
    last: list[tuple[str, str]] = []
    found: list[tuple[int, str]] = []
    for number, part in enumerate(parts):
        if not part:
            found.append((number, f"volume {name} (Projected) has no sources provided"))
            continue
        own = list(_projected(part))
        last = own if own or not sources_repeat else last
        paths += last
        owners += [number] * len(last)
    found += [(owners[position], text) for position, text in _pairs(name, "Projected", paths)]
    yield from (text for _, text in sorted(found, key=lambda pair: pair[0]))


def _paths(source: Object) -> list[str]:
    return [item.get("path") or "" for item in source.get("items") or ()]


def _projected(part: Object) -> Iterator[tuple[str, str]]:
    for kind, shown, named_by in _PROJECTED:
        source = part.get(kind) or {}
        for path in _paths(source):
            yield path, f"{shown} {json.dumps(source.get(named_by) or '')}"
    yield from ((path, "DownwardAPI") for path in _paths(part.get("downwardAPI") or {}))
    token, bundle = part.get("serviceAccountToken"), part.get("clusterTrustBundle")
    if token is not None:
        yield token.get("path") or "", "ServiceAccountToken"
    if bundle is not None:
        name = bundle.get("name") or bundle.get("signerName") or ""
        yield bundle.get("path") or "", f"ClusterTrustBundle {json.dumps(name)}"
    certificate = part.get("podCertificate") or {}
    for named_by, what in _CERTIFICATES:
        if certificate.get(named_by):
            yield certificate[named_by], f"PodCertificate {what}"


def _pair_warnings(name: str, what: str, paths: list[tuple[str, str]]) -> Iterator[str]:
    yield from (text for _, text in _pairs(name, what, paths))


def _pairs(name: str, what: str, paths: list[tuple[str, str]]) -> Iterator[tuple[int, str]]:
    """Each warning of paths that overlap comes with the later one's position."""
    for position, other in islice(_overlapping([path.rstrip("/") for path, _ in paths]), _WARNINGS_MAX):
        pair = f"{_shown(*paths[position])} with {_shown(*paths[other])}"
        yield position, f"volume {name} ({what}): overlapping paths: {pair}"


@dataclass(slots=True)
class _Directory:
    """Earlier paths are known by position: those that end here and those that end below."""

    children: dict[str, "_Directory"] = field(default_factory=dict)
    ending: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)


def _overlapping(paths: list[str]) -> Iterator[tuple[int, int]]:
    """Two paths overlap if one is the other or lies below it; the later one's position comes first.

    Takes time in the length of all paths and the number of pairs.
    """
    root = _Directory()
    for position, path in enumerate(paths):
        if not path:
            continue
        directory, others = root, list[int]()
        for part in path.split("/"):
            directory.below.append(position)
            directory = directory.children.setdefault(part, _Directory())
            others += directory.ending
        others += directory.below
        directory.ending.append(position)
        yield from ((position, other) for other in sorted(others))


def _shown(path: str, source: str) -> str:
    quoted = json.dumps(path.rstrip("/"))
    return f"{quoted} ({source})" if source else quoted


def volume_warnings(volumes: list[Object], path: str, features: PodFeatures) -> Iterator[str]:
    for position, volume in enumerate(volumes):
        at = index(path, position)
        for kind, text in _KINDS:
            if volume.get(kind) is None or (kind in _CEPH and not features.ceph_warnings):
                continue
            if kind == "ephemeral":
                template = volume["ephemeral"].get("volumeClaimTemplate") or {}
                where = child(at, "ephemeral.volumeClaimTemplate.spec")
                yield from claim_warnings(template.get("spec") or {}, where)
                continue
            shown = _REMOVALS.get(kind, text) if features.old_removals else text
            if kind == "gitRepo" and features.git_disabled:
                shown += ", and disabled by default in v1.33+"
            yield f"{child(at, _SHOWN_AS.get(kind, kind))}: {shown}"
    if features.overlap_warnings:
        yield from overlap_warnings(volumes, sources_repeat=features.sources_repeat)


def port_warnings(spec: Object, path: str, features: PodFeatures) -> Iterator[str]:
    if not features.port_warnings:
        return
    known: dict[tuple[int, str], list[tuple[str, Object]]] = {}
    for container, inside in all_containers(spec, path):
        for position, port in enumerate(container.get("ports") or ()):
            at = index(child(inside, "ports"), position)
            if port.get("hostIP") and not port.get("hostPort"):
                yield f"{at}: hostIP set without hostPort: {container_port(port)}"
            others = known.setdefault((port.get("containerPort") or 0, port.get("protocol") or ""), [])
            for where, other in others:
                word = _conflict(port, other)
                if word:
                    yield f"{at}: {word} port definition with {where}"
            others.append((at, port))
    if features.port_name_warnings:
        yield from _repeated_names(spec, path)


def _repeated_names(spec: Object, path: str) -> Iterator[str]:
    known: dict[str, str] = {}
    for container, inside in all_containers(spec, path):
        for position, port in enumerate(container.get("ports") or ()):
            at, name = index(child(inside, "ports"), position), port.get("name") or ""
            if name and known.setdefault(name, at) != at:
                chosen = f"services and probes that select ports by name will use {known[name]}"
                yield f'{at}: duplicate port name "{name}" with {known[name]}, {chosen}'


def _conflict(port: Object, other: Object) -> str:
    """An empty text means that no other port of the same number and protocol collides."""
    one, two = port.get("hostIP") or "", other.get("hostIP") or ""
    first, second = port.get("hostPort") or 0, other.get("hostPort") or 0
    if one == two and first == second:
        return "duplicate"
    if not first or not second:
        return "overlapping"
    return "dangerously ambiguous" if first == second and (not one) != (not two) else ""


def label_text(texts: list[str]) -> str:
    return f"[{' '.join(texts)}]"


def pod_warnings(pod: Object, features: PodFeatures) -> list[str]:
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
    """`path` is that of the template, empty for a pod."""
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
        for amounts in ("limits", "requests"):
            text = (resources.get(amounts) or {}).get(name)
            if text is not None:
                yield from _fractions({name: text}, child(at, amounts))
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
    value, reference = variable.get("value") or "", f"$({name})"
    return variable.get("valueFrom") is not None or value == reference or reference not in value


def host_name_warnings(obj: Object) -> list[str]:
    """Names of pods are made of this one; unless it is a label, no host can have them."""
    texts = names.dns1123_label(obj["metadata"].get("name") or "")
    return [_HOST_NAMES + label_text(texts)] if texts else []
