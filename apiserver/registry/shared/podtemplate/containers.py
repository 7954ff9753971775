"""Containers of a pod follow these rules: environment, mounts, devices, restarts; ephemeral ones too.

Source: pkg/apis/core/validation/validation.go (validateContainerCommon, validateContainers,
validateInitContainers, ValidateEnv, ValidateEnvFrom, ValidateVolumeMounts, ValidateVolumeDevices,
validateContainerRestartPolicy, validateResizePolicy, validateEphemeralContainers,
ValidatePodEphemeralContainersUpdate), 1.36.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    ROOT,
    FieldError,
    Stringer,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_found,
    not_supported,
    required,
    too_many,
)
from kubeskew.apimachinery.golang.roundtrip import given, has_empties
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.apiserver.internal_types import InternalTypes
from kubeskew.apiserver.registry.shared import amounts
from kubeskew.apiserver.registry.shared.pod_options import PodOptions
from kubeskew.apiserver.registry.shared.podtemplate import probes
from kubeskew.apiserver.registry.shared.podtemplate.security import all_containers, container_security_errors
from kubeskew.apiserver.registry.shared.volumes import sources
from kubeskew.apiserver.registry.shared.volumes.sources import (
    ENV_FIELDS,
    field_reference_errors,
    resource_reference_errors,
)

_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ONE_OF = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`"
_MANY = "may not have more than one field specified at a time"
_PROPAGATION = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")
_UNIQUE = "must be unique"
_CLAIMS_ONLY = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
_POLICY_NEEDED = "must specify restartPolicy when restart rules are used"
_POLICIES = ("Always", "Never", "OnFailure")
_OPERATORS = ("In", "NotIn")
_MAX_RULES = 20
_MAX_VALUES = 255
_RESOURCES = ("cpu", "memory")
_RESIZES = ("NotRequired", "RestartContainer")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_NO_INIT = "may not be set for init containers"
_WHITESPACE = "must not have leading or trailing whitespace"
_MIRROR = "kubernetes.io/config.mirror"
_NOT_ALLOWED = "cannot be set for an Ephemeral Container"
# In the order of the fields of the Go type; targetContainerName is not part of what is checked.
_FORBIDDEN = (
    "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "livenessProbe",
    "readinessProbe", "startupProbe", "lifecycle",
)  # fmt: skip


def env_errors(variables: list[Object], path: str, options: PodOptions) -> list[FieldError]:
    errors: list[FieldError] = []
    for position, variable in enumerate(variables):
        name = variable.get("name") or ""
        texts = names.env_name(name, options.relaxed_env) if name else ()
        if name and not texts and variable.get("valueFrom") is None:
            continue  # nearly all of them
        at = index(path, position)
        if not name:
            errors.append(required(child(at, "name")))
        errors += [invalid(child(at, "name"), name, text) for text in texts]
        if variable.get("valueFrom") is not None:
            errors += _value_errors(variable, child(at, "valueFrom"), options)
    return errors


def _value_errors(variable: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    source = variable["valueFrom"]
    used = [name for name in _SOURCES if source.get(name) is not None]
    for name in used:
        at, value = child(path, name), source[name]
        if name == "fieldRef":
            yield from field_reference_errors(value, at, ENV_FIELDS)
        elif name == "resourceFieldRef":
            yield from resource_reference_errors(value, at, volume=False)
        elif name == "fileKeyRef":
            yield from _file_errors(value, at)
        else:
            yield from _key_errors(value, at)
    if not used:
        files = ", `secretKeyRef` or `fileKeyRef`" if options.env_files else " or `secretKeyRef`"
        yield invalid(path, "", _ONE_OF + files)
    elif variable.get("value"):
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif len(used) > 1:
        yield invalid(path, "", _MANY)


def _key_errors(source: Object, path: str) -> Iterator[FieldError]:
    """An empty `name` gets the errors of a wrong name, not that of a missing one."""
    name, wanted = source.get("name") or "", source.get("key") or ""
    yield from (invalid(child(path, "name"), name, text) for text in names.dns1123_subdomain(name))
    at = child(path, "key")
    if not wanted:
        yield required(at)
    else:
        yield from (invalid(at, wanted, text) for text in names.config_key(wanted))


def _file_errors(source: Object, path: str) -> Iterator[FieldError]:
    wanted, volume, file = (source.get(name) or "" for name in ("key", "volumeName", "path"))
    if not wanted:
        yield required(child(path, "key"))
    else:
        yield from (invalid(child(path, "key"), wanted, text) for text in names.env_name(wanted))
    at = child(path, "volumeName")
    if not volume:
        yield required(at)
    else:
        yield from (invalid(at, volume, text) for text in names.dns1123_label(volume))
    if not file:
        yield required(child(path, "path"))
    else:
        yield from sources.without_backsteps(child(path, "path"), file)


def env_from_errors(sources: list[Object], path: str, options: PodOptions) -> Iterator[FieldError]:
    for position, source in enumerate(sources):
        at = index(path, position)
        prefix = source.get("prefix") or ""
        if prefix:
            texts = names.env_name(prefix, options.relaxed_env)
            yield from (invalid(child(at, "prefix"), prefix, text) for text in texts)
        used = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for kind in used:
            where, name = child(child(at, kind), "name"), source[kind].get("name") or ""
            if not name:
                yield required(where)
            else:
                yield from (invalid(where, name, text) for text in names.dns1123_subdomain(name, True))
        if not used:
            yield invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(used) > 1:
            yield invalid(path, "", _MANY)


def file_volume_errors(spec: Object, path: str) -> Iterator[FieldError]:
    """Files of variables are in volumes of the kind emptyDir."""
    volumes = {volume.get("name"): volume for volume in spec.get("volumes") or ()}
    for container, at in all_containers(spec, path):
        for position, variable in enumerate(container.get("env") or ()):
            source = variable.get("valueFrom")
            if not source or (source := source.get("fileKeyRef")) is None:
                continue
            name = source.get("volumeName") or ""
            where = child(index(child(at, "env"), position), "valueFrom.fileKeyRef.volumeName")
            if name not in volumes:
                yield not_found(where, name)
            elif volumes[name].get("emptyDir") is None:
                yield invalid(where, name, "referenced volume must be of type emptyDir")


def mount_errors(
    container: Object, volumes: Mapping[str, Object], path: str, options: PodOptions
) -> Iterator[FieldError]:
    devices = {
        device.get("name") or "": device.get("devicePath") or ""
        for device in container.get("volumeDevices") or ()
    }
    seen: set[str] = set()
    for position, mount in enumerate(container["volumeMounts"]):
        at = index(path, position)
        name, where = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield required(child(at, "name"))
        if name not in volumes:
            yield not_found(child(at, "name"), name)
        if not where:
            yield required(child(at, "mountPath"))
        if where in seen:
            yield invalid(child(at, "mountPath"), where, _UNIQUE)
        seen.add(where)
        if name in devices:
            yield invalid(child(at, "name"), name, "must not already exist in volumeDevices")
        if where in devices.values():
            text = "must not already exist as a path in volumeDevices"
            yield invalid(child(at, "mountPath"), where, text)
        if options.features.image_mount_paths and (volumes.get(name) or {}).get("image") is not None:
            yield from _image_paths(mount, at)
        yield from _sub_paths(mount, path, at)
        yield from _propagation_errors(mount, container, child(path, "mountPropagation"))
        yield from _recursive_errors(mount, child(path, "recursiveReadOnly"))


def _image_paths(mount: Object, path: str) -> Iterator[FieldError]:
    for name in ("subPath", "subPathExpr"):
        if mount.get(name):
            yield invalid(child(path, name), mount[name], "not allowed in image volume sources")


def _sub_paths(mount: Object, path: str, at: str) -> Iterator[FieldError]:
    """`path` is that of the list, as upstream reports it."""
    sub, expression = mount.get("subPath") or "", mount.get("subPathExpr") or ""
    if sub:
        yield from sources.descending_path(child(path, "subPath"), sub)
    if expression:
        if sub:
            text = "subPathExpr and subPath are mutually exclusive"
            yield invalid(child(at, "subPathExpr"), expression, text)
        yield from sources.descending_path(child(path, "subPathExpr"), expression)


def _propagation_errors(mount: Object, container: Object, path: str) -> Iterator[FieldError]:
    value = mount.get("mountPropagation")
    if value is None:
        return
    if value not in _PROPAGATION:
        yield not_supported(path, value, _PROPAGATION)
    if value == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        text = "Bidirectional mount propagation is available only to privileged containers"
        yield forbidden(path, text)


def _recursive_errors(mount: Object, path: str) -> Iterator[FieldError]:
    value = mount.get("recursiveReadOnly")
    if value is None or value == "Disabled":
        return
    if value not in _RECURSIVE:
        yield not_supported(path, value, _RECURSIVE)
        return
    if not mount.get("readOnly"):
        yield forbidden(path, "may only be specified when readOnly is true")
    if mount.get("mountPropagation") not in {None, "None"}:
        yield forbidden(path, "may only be specified when mountPropagation is None or not specified")


def device_errors(container: Object, volumes: Mapping[str, Object], path: str) -> Iterator[FieldError]:
    mounts = {
        mount.get("name") or "": mount.get("mountPath") or "" for mount in container.get("volumeMounts") or ()
    }
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    for position, device in enumerate(container["volumeDevices"]):
        at = index(path, position)
        name, where = device.get("name") or "", device.get("devicePath") or ""
        yield from _device_name(name, volumes, seen_names, child(at, "name"))
        at_path = child(at, "devicePath")
        if not where:
            yield required(at_path)
        if where in seen_paths:
            yield invalid(at_path, where, _UNIQUE)
        if ".." in where.split("/"):
            yield invalid(at_path, where, "can not contain backsteps ('..')")
        else:
            seen_paths.add(where)
        if name in mounts:
            yield invalid(child(at, "name"), name, "must not already exist in volumeMounts")
        if where in mounts.values():
            yield invalid(at_path, where, "must not already exist as a path in volumeMounts")


def _device_name(name: str, volumes: Mapping[str, Object], seen: set[str], path: str) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    if name in seen:
        yield invalid(path, name, _UNIQUE)
    volume = volumes.get(name)
    if volume is None:
        yield not_found(path, name)
    elif volume.get("persistentVolumeClaim") is None and volume.get("ephemeral") is None:
        yield invalid(path, name, _CLAIMS_ONLY)
    if name:
        seen.add(name)


def regular_policy_errors(container: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    if options.restart_rules:
        yield from _policy_errors(container, path, options)
    elif container.get("restartPolicy") is not None:
        yield forbidden(child(path, "restartPolicy"), "may not be set for non-init containers")


def init_policy_errors(container: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    """Always makes an init container a sidecar."""
    policy = container.get("restartPolicy")
    if policy is None:
        if container.get("restartPolicyRules") and options.features.init_rules_need_policy:
            yield required(child(path, "restartPolicy"), _POLICY_NEEDED)
    elif options.restart_rules and policy == "Always" and not options.restart_all:
        if container.get("restartPolicyRules"):
            text = "restartPolicyRules are not allowed for init containers with restart policy Always"
            yield forbidden(child(path, "restartPolicyRules"), text)
    elif options.restart_rules:
        yield from _policy_errors(container, path, options)
    elif policy != "Always":
        yield not_supported(child(path, "restartPolicy"), policy, ("Always",))


def _policy_errors(container: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    at = child(path, "restartPolicy")
    if policy is None:
        if not rules:
            return
        yield required(at, _POLICY_NEEDED)
    elif policy not in _POLICIES:
        yield not_supported(at, policy, _POLICIES)
    at = child(path, "restartPolicyRules")
    if len(rules) > _MAX_RULES:
        yield too_many(at, len(rules), _MAX_RULES)
    actions = ("Restart", "RestartAllContainers") if options.restart_all else ("Restart",)
    for position, rule in enumerate(rules):
        where, action = index(at, position), rule.get("action") or ""
        if action not in actions:
            yield not_supported(child(where, "action"), action, actions)
        yield from _exit_codes(rule.get("exitCodes"), child(where, "exitCodes"))


def _exit_codes(codes: Object | None, path: str) -> Iterator[FieldError]:
    if codes is None:
        yield required(path, "must be specified")
        return
    operator, values = codes.get("operator") or "", codes.get("values") or []
    if operator not in _OPERATORS:
        yield not_supported(child(path, "operator"), operator, _OPERATORS)
    if len(values) > _MAX_VALUES:
        yield too_many(child(path, "values"), len(values), _MAX_VALUES)


def resize_policy_errors(
    policies: list[Object], pod_policy: str, path: str, options: PodOptions
) -> Iterator[FieldError]:
    seen: set[str] = set()
    word = "pod " if options.features.restart_wording else ""
    for position, policy in enumerate(policies):
        resource, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if resource in seen:
            yield duplicate(index(path, position), resource)
        seen.add(resource)
        for value, allowed in ((Stringer(resource), _RESOURCES), (restart, _RESIZES)):
            if not value:
                yield required(path)
            elif value not in allowed:
                yield not_supported(path, value, allowed)
        if pod_policy == "Never" and restart != "NotRequired":
            text = f"must be 'NotRequired' when {word}`restartPolicy` is 'Never'"
            yield invalid(path, restart, text)


@dataclass(frozen=True, slots=True)
class PodFacts:
    """Rules of containers need these facts about their pod. `grace_seconds`: None is an error of its own."""

    volumes: Mapping[str, Object]
    claims: Collection[str]
    grace_seconds: int | None
    restart_policy: str
    host_users: bool
    system: str | None
    options: PodOptions


def container_errors(container: Object, facts: PodFacts, path: str) -> list[FieldError]:
    """All sorts of containers share these fields; absent fields cost nothing."""
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
        errors += env_errors(container["env"], child(path, "env"), options)
    if get("envFrom"):
        errors += env_from_errors(container["envFrom"], child(path, "envFrom"), options)
    if get("volumeMounts"):
        errors += mount_errors(container, facts.volumes, child(path, "volumeMounts"), options)
    if get("volumeDevices"):
        errors += device_errors(container, facts.volumes, child(path, "volumeDevices"))
    return errors


def _limits(container: Object, facts: PodFacts, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    get, options = container.get, facts.options
    if get("resources"):
        at = child(path, "resources")
        errors += amounts.requirement_errors(container["resources"], facts.claims, at)
    if get("resizePolicy"):
        policies, at = container["resizePolicy"], child(path, "resizePolicy")
        errors += resize_policy_errors(policies, facts.restart_policy, at, options)
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
            errors += regular_policy_errors(container, at, facts.options)
    errors += host_port_conflicts(containers, path)
    return errors


def init_containers(spec: Object, facts: PodFacts, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen = {container.get("name") or "" for container in spec.get("containers") or ()}
    for position, container in enumerate(spec.get("initContainers") or ()):
        at = index(path, position)
        errors += container_errors(container, facts, at)
        errors += init_policy_errors(container, at, facts.options)
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
    """Only long-running containers may have hooks and probes."""
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
    """Templates are exempt. `first`: the position of the first container in its list."""
    for position, container in enumerate(containers, first):
        image = container.get("image") or ""
        if image.strip() != image:
            yield invalid(child(index(path, position), "image"), image, _WHITESPACE)


def ephemeral_errors(spec: Object, facts: PodFacts, path: str) -> Iterator[FieldError]:
    others = {
        container.get("name") or ""
        for field in ("containers", "initContainers")
        for container in spec.get(field) or []
    }
    seen = set(others)
    at = child(path, "ephemeralContainers")
    for position, container in enumerate(spec.get("ephemeralContainers") or []):
        where = index(at, position)
        yield from container_errors(container, facts, where)
        yield from image_errors([container], at, position)
        name = container.get("name") or ""
        if name in seen:
            yield duplicate(child(where, "name"), name)
        seen.add(name)
        target = container.get("targetContainerName") or ""
        if target and target not in others:
            yield not_found(child(where, "targetContainerName"), target)
        for field in _FORBIDDEN:
            value = given(container, field)
            unset = value is None or (field == "resources" and value == {} and not has_empties(value))
            if not unset:
                yield forbidden(child(where, field), _NOT_ALLOWED)
        mounts = child(where, "volumeMounts")
        for number, mount in enumerate(container.get("volumeMounts") or []):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    yield forbidden(child(index(mounts, number), field), _NOT_ALLOWED)


def ephemeral_creation_errors(spec: Object, path: str) -> Iterator[FieldError]:
    if spec.get("ephemeralContainers"):
        yield forbidden(child(path, "ephemeralContainers"), "cannot be set on create")


def ephemeral_update_errors(new: Object, old: Object, types: InternalTypes) -> list[FieldError]:
    if _MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden(ROOT, "static pods do not support ephemeral containers")]
    path = "spec.ephemeralContainers"
    now = {container.get("name"): container for container in new["spec"].get("ephemeralContainers") or []}
    errors = []
    for before in old["spec"].get("ephemeralContainers") or []:
        name = before["name"]
        if name not in now:
            text = f'existing ephemeral containers "{name}" may not be removed\n'
            errors.append(forbidden(path, text))
        elif now[name] != before:
            text = f'existing ephemeral containers "{name}" may not be changed\n'
            text += types.difference("core.EphemeralContainer", before, now[name])
            errors.append(forbidden(path, text))
    return errors
