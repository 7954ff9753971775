"""Holds the rules of the containers of a pod.

Source: pkg/apis/core/validation/validation.go (validateContainerCommon, validateContainers,
validateInitContainers), 1.36.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

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
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.apiserver.registry.shared import amounts
from kubeskew.apiserver.registry.shared.pod_options import PodOptions
from kubeskew.apiserver.registry.shared.podtemplate import environments, mounts, probes, restart_policies
from kubeskew.apiserver.registry.shared.podtemplate.security import container_security_errors

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_NO_INIT = "may not be set for init containers"
_WHITESPACE = "must not have leading or trailing whitespace"


@dataclass(frozen=True, slots=True)
class PodFacts:
    """Holds the facts about a pod that its containers' rules need. `grace_seconds`: None is an error of its
    own.
    """

    volumes: Mapping[str, Object]
    claims: Collection[str]
    grace_seconds: int | None
    restart_policy: str
    host_users: bool
    system: str | None
    options: PodOptions


def container_errors(container: Object, facts: PodFacts, path: str) -> list[FieldError]:
    """Checks the fields that all sorts of containers share; absent fields cost nothing."""
    errors: list[FieldError] = []
    get = container.get
    name = get("name") or ""
    if not name:
        errors.append(required(child(path, "name")))
    else:
        errors += [invalid(child(path, "name"), name, text) for text in names.dns1123_label(name)]
    if not get("image"):
        errors.append(required(child(path, "image")))
    if get("terminationMessagePolicy") not in _MESSAGE_POLICIES:
        errors.append(_choice(container, "terminationMessagePolicy", _MESSAGE_POLICIES, path))
    errors += _inside(container, facts, path)
    if get("imagePullPolicy") not in PULL_POLICIES:
        errors.append(_choice(container, "imagePullPolicy", PULL_POLICIES, path))
    errors += _limits(container, facts, path)
    return errors


def _inside(container: Object, facts: PodFacts, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    get, options = container.get, facts.options
    if get("ports"):
        errors += port_errors(container["ports"], child(path, "ports"))
    if get("env"):
        errors += environments.env_errors(container["env"], child(path, "env"), options)
    if get("envFrom"):
        errors += environments.env_from_errors(container["envFrom"], child(path, "envFrom"), options)
    if get("volumeMounts"):
        errors += mounts.mount_errors(container, facts.volumes, child(path, "volumeMounts"), options)
    if get("volumeDevices"):
        errors += mounts.device_errors(container, facts.volumes, child(path, "volumeDevices"))
    return errors


def _limits(container: Object, facts: PodFacts, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    get, options = container.get, facts.options
    if get("resources"):
        at = child(path, "resources")
        errors += amounts.requirement_errors(container["resources"], facts.claims, at)
    if get("resizePolicy"):
        policies, at = container["resizePolicy"], child(path, "resizePolicy")
        errors += restart_policies.resize_policy_errors(policies, facts.restart_policy, at, options)
    if get("securityContext"):
        security, at = container["securityContext"], child(path, "securityContext")
        errors += container_security_errors(security, at, host_users=facts.host_users)
    return errors


def _choice(obj: Object, field: str, allowed: tuple[str, ...], path: str) -> FieldError:
    value = obj.get(field) or ""
    at = child(path, field)
    return not_supported(at, value, allowed) if value else required(at)


def regular_containers(containers: list[Object], facts: PodFacts, path: str) -> list[FieldError]:
    if not containers:
        return [required(path)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, container in enumerate(containers):
        at = index(path, position)
        errors += container_errors(container, facts, at)
        name = container.get("name") or ""
        if name in seen:
            errors.append(duplicate(child(at, "name"), name))
        seen.add(name)
        errors += _running_errors(container, facts, at)
        if "restartPolicy" in container or "restartPolicyRules" in container:
            errors += restart_policies.regular_policy_errors(container, at, facts.options)
    errors += host_port_conflicts(containers, path)
    return errors


def init_containers(spec: Object, facts: PodFacts, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen = {container.get("name") or "" for container in spec.get("containers") or ()}
    for position, container in enumerate(spec.get("initContainers") or ()):
        at = index(path, position)
        errors += container_errors(container, facts, at)
        errors += restart_policies.init_policy_errors(container, at, facts.options)
        name = container.get("name") or ""
        if name in seen:
            errors.append(duplicate(child(at, "name"), name))
        elif name:
            seen.add(name)
        errors += host_port_conflicts([container], path)
        errors += _init_errors(container, facts, at)
    return errors


def _init_errors(container: Object, facts: PodFacts, path: str) -> Iterator[FieldError]:
    sidecar = is_sidecar(container)
    if sidecar:
        yield from _running_errors(container, facts, path)
    else:
        without = " without restartPolicy=Always" if facts.options.features.names_sidecars else ""
        for name in ("lifecycle", *_PROBES):
            if container.get(name) is not None:
                yield forbidden(child(path, name), _NO_INIT + without)
    policies = container.get("resizePolicy") or []
    if policies and not facts.options.sidecar_resize:
        yield invalid(child(path, "resizePolicy"), policies, "must not be set for init containers")
    if not sidecar and facts.options.features.no_restart_of_init:
        for position, policy in enumerate(policies):
            if policy.get("restartPolicy") == "RestartContainer":
                at = child(index(child(path, "resizePolicy"), position), "restartPolicy")
                text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                yield invalid(at, "RestartContainer", text)


def _running_errors(container: Object, facts: PodFacts, path: str) -> Iterator[FieldError]:
    """Checks hooks and probes, which only long-running containers may have."""
    if container.get("lifecycle") is not None:
        yield from probes.lifecycle_errors(
            container["lifecycle"], facts.grace_seconds, child(path, "lifecycle"), facts.options, facts.system
        )
    for name in _PROBES:
        probe = container.get(name)
        if probe is not None:
            yield from probes.probe_errors(probe, name, child(path, name))


def port_errors(ports: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, port in enumerate(ports):
        at = index(path, position)
        name = port.get("name") or ""
        texts = names.port_name(name) if name else []
        yield from (invalid(child(at, "name"), name, text) for text in texts)
        if name and not texts:
            if name in seen:
                yield duplicate(child(at, "name"), name)
            seen.add(name)
        number, host = port.get("containerPort") or 0, port.get("hostPort") or 0
        if not number:
            yield required(child(at, "containerPort"))
        else:
            yield from (invalid(child(at, "containerPort"), number, text) for text in names.port(number))
        if host:
            yield from (invalid(child(at, "hostPort"), host, text) for text in names.port(host))
        if port.get("protocol") not in _PROTOCOLS:
            yield _choice(port, "protocol", _PROTOCOLS, at)


def host_port_conflicts(containers: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for number, container in enumerate(containers):
        for position, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            taken = f"{port.get('protocol') or ''}/{port.get('hostIP') or ''}/{port['hostPort']}"
            if taken in seen:
                at = index(child(index(path, number), "ports"), position)
                yield duplicate(child(at, "hostPort"), taken)
            seen.add(taken)


def image_errors(containers: list[Object], path: str, first: int = 0) -> Iterator[FieldError]:
    """Checks the images of pods, not of templates. `first`: the position of the first one in its list."""
    for position, container in enumerate(containers, first):
        image = container.get("image") or ""
        if image.strip() != image:
            yield invalid(child(index(path, position), "image"), image, _WHITESPACE)
