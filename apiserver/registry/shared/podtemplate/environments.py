"""Holds the rules of a container's environment.

Source: pkg/apis/core/validation/validation.go (ValidateEnv, ValidateEnvFrom), 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, index, invalid, not_found, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.shared import downward, paths
from kubeskew.apiserver.registry.shared.pod_options import PodOptions
from kubeskew.apiserver.registry.shared.podtemplate.windows import all_containers

_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ONE_OF = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`"
_MANY = "may not have more than one field specified at a time"


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
            yield from downward.field_errors(value, at, downward.ENV_FIELDS)
        elif name == "resourceFieldRef":
            yield from downward.resource_errors(value, at, volume=False)
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
    """Checks a key of a config map or of a secret; that the name is empty is said as of any other name."""
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
        yield from paths.without_backsteps(child(path, "path"), file)


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
