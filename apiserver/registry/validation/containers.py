"""Rules of the containers of a pod.

Source: pkg/apis/core/validation/validation.go (validateContainerCommon and what it calls), 1.36.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from apimachinery.errors import Object
from apimachinery.field import (
    FieldError,
    child,
    duplicate,
    index,
    invalid,
    not_found,
    not_supported,
    required,
)
from apimachinery.validation import names
from apiserver.registry.validation import amounts, paths, probes, volumes

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("FallbackToLogsOnError", "File")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROPAGATION = ("Bidirectional", "HostToContainer", "None")


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What a container's rules need to know of its pod."""

    volumes: Collection[str]
    claims: set[str]
    host_network: bool
    grace_seconds: int
    relaxed_env: bool


def container_errors(container: Object, facts: PodFacts, path: str) -> Iterator[FieldError]:
    """What all kinds of containers have in common."""
    name = container.get("name") or ""
    if not name:
        yield required(child(path, "name"))
    else:
        yield from (invalid(child(path, "name"), name, text) for text in names.dns1123_label(name))
    image = container.get("image") or ""
    if not image:
        yield required(child(path, "image"))
    elif image.strip() != image:
        yield invalid(child(path, "image"), image, "must not have leading or trailing whitespace")
    yield from _choice(container, "terminationMessagePolicy", _MESSAGE_POLICIES, path)
    yield from port_errors(container.get("ports") or [], facts, child(path, "ports"))
    yield from env_errors(container.get("env") or [], facts, child(path, "env"))
    yield from _env_from_errors(container.get("envFrom") or [], facts, child(path, "envFrom"))
    yield from mount_errors(container.get("volumeMounts") or [], facts, child(path, "volumeMounts"))
    yield from _choice(container, "imagePullPolicy", _PULL_POLICIES, path)
    resources = container.get("resources") or {}
    yield from amounts.requirement_errors(resources, facts.claims, child(path, "resources"))
    yield from _security_errors(container.get("securityContext") or {}, child(path, "securityContext"))


def regular_errors(container: Object, facts: PodFacts, path: str) -> Iterator[FieldError]:
    """Hooks and probes, which only long-running containers may have."""
    grace = facts.grace_seconds
    yield from probes.lifecycle_errors(container.get("lifecycle") or {}, grace, child(path, "lifecycle"))
    for name in _PROBES:
        probe = container.get(name)
        if probe is not None:
            yield from probes.probe_errors(probe, child(path, name))
            if name != "readinessProbe" and (probe.get("successThreshold") or 1) != 1:
                yield invalid(
                    child(child(path, name), "successThreshold"), probe["successThreshold"], "must be 1"
                )


def init_errors(container: Object, facts: PodFacts, path: str) -> Iterator[FieldError]:
    """An init container: a sidecar (restartPolicy Always) is treated as a regular one."""
    policy = container.get("restartPolicy")
    if policy == "Always":
        yield from regular_errors(container, facts, path)
        return
    if container.get("lifecycle") is not None:
        yield invalid(child(path, "lifecycle"), container["lifecycle"], _ONLY_SIDECARS)
    for name in _PROBES:
        if container.get(name) is not None:
            yield invalid(child(path, name), container[name], _ONLY_SIDECARS)


_ONLY_SIDECARS = "must not be set for init containers"


def _choice(obj: Object, field: str, allowed: tuple[str, ...], path: str) -> Iterator[FieldError]:
    value = obj.get(field) or ""
    if not value:
        yield required(child(path, field))
    elif value not in allowed:
        yield not_supported(child(path, field), value, allowed)


def port_errors(ports: list[Object], facts: PodFacts, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, port in enumerate(ports):
        at = index(path, position)
        name = port.get("name") or ""
        if name:
            yield from (invalid(child(at, "name"), name, text) for text in names.port_name(name))
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
            if facts.host_network and host != number:
                yield invalid(
                    child(at, "hostPort"), host, "must match `containerPort` when `hostNetwork` is true"
                )
        yield from _choice(port, "protocol", _PROTOCOLS, at)


def env_errors(variables: list[Object], facts: PodFacts, path: str) -> Iterator[FieldError]:
    for position, variable in enumerate(variables):
        at = index(path, position)
        name = variable.get("name") or ""
        if not name:
            yield required(child(at, "name"))
        else:
            texts = names.env_name(name, facts.relaxed_env)
            yield from (invalid(child(at, "name"), name, text) for text in texts)
        if variable.get("valueFrom") is not None:
            yield from _value_from(variable, child(at, "valueFrom"))


def _value_from(variable: Object, path: str) -> Iterator[FieldError]:
    source = variable["valueFrom"]
    used = [name for name in _ENV_SOURCES if source.get(name) is not None]
    for name in used:
        at, value = child(path, name), source[name]
        if name == "fieldRef":
            yield from volumes.field_reference(value, at, _ENV_FIELDS)
        elif name == "resourceFieldRef":
            yield from volumes.resource_reference(value, at, local=True)
        elif name in {"configMapKeyRef", "secretKeyRef"}:
            yield from _key_reference(value, at)
    if not used:
        yield invalid(path, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
                      "`secretKeyRef` or `fileKeyRef`")  # fmt: skip
    elif variable.get("value"):
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif len(used) > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


def _key_reference(source: Object, path: str) -> Iterator[FieldError]:
    if not source.get("name"):
        yield required(child(path, "name"))
    wanted = source.get("key") or ""
    if not wanted:
        yield required(child(path, "key"))
    else:
        yield from (invalid(child(path, "key"), wanted, text) for text in names.config_key(wanted))


def _env_from_errors(sources: list[Object], facts: PodFacts, path: str) -> Iterator[FieldError]:
    for position, source in enumerate(sources):
        at = index(path, position)
        prefix = source.get("prefix") or ""
        if prefix:
            texts = names.env_name(prefix, facts.relaxed_env)
            yield from (invalid(child(at, "prefix"), prefix, text) for text in texts)
        used = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in used:
            if not source[name].get("name"):
                yield required(child(child(at, name), "name"))
        if not used:
            yield invalid(at, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(used) > 1:
            yield invalid(at, "", "may not have more than one field specified at a time")


def mount_errors(mounts: list[Object], facts: PodFacts, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, mount in enumerate(mounts):
        at = index(path, position)
        name, where = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield required(child(at, "name"))
        if not where:
            yield required(child(at, "mountPath"))
        if where in seen:
            yield invalid(child(at, "mountPath"), where, "must be unique")
        seen.add(where)
        if name not in facts.volumes:
            yield not_found(child(at, "name"), name)
        sub, expression = mount.get("subPath") or "", mount.get("subPathExpr") or ""
        if sub:
            yield from paths.descending(child(path, "subPath"), sub)
        if expression:
            if sub:
                yield invalid(
                    child(at, "subPathExpr"), expression, "subPathExpr and subPath are mutually exclusive"
                )
            yield from paths.descending(child(path, "subPathExpr"), expression)
        propagation = mount.get("mountPropagation")
        if propagation is not None and propagation not in _PROPAGATION:
            yield not_supported(child(at, "mountPropagation"), propagation, _PROPAGATION)


def _security_errors(security: Object, path: str) -> Iterator[FieldError]:
    for name in ("runAsUser", "runAsGroup"):
        number = security.get(name)
        if number is not None and not 0 <= number <= 2**31 - 1:
            yield invalid(child(path, name), number, names.range_text(0, 2**31 - 1))
    if security.get("allowPrivilegeEscalation") is False:
        if security.get("privileged"):
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield invalid(path, security, text)
        if "CAP_SYS_ADMIN" in ((security.get("capabilities") or {}).get("add") or []):
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield invalid(path, security, text)
