"""Holds the rules of the annotations that pods and templates know, and of their changes.

Source: pkg/apis/core/validation/validation.go (ValidatePodSpecificAnnotations and its neighbours), 1.36.
"""

import re
from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, child, forbidden, invalid, key
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.shared import paths
from kubeskew.apiserver.registry.shared.podtemplate.security import annotation_mismatch
from kubeskew.apiserver.registry.shared.podtemplate.windows import all_containers

MIRROR = "kubernetes.io/config.mirror"
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_NAMES = ("runtime/default", "docker/default", "unconfined")
_APP_ARMOR_NAMES = ("", "runtime/default", "unconfined")
_MIN = -(2**31)
_MAX = 2**31 - 1


def annotation_errors(annotations: dict[str, str], spec: Object, path: str) -> Iterator[FieldError]:
    """Checks annotations; `path`: that of the annotations."""
    if MIRROR in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid(key(path, MIRROR), annotations[MIRROR], text)
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not _is_cost(cost):
        yield invalid(key(path, _DELETION_COST), cost, "must be a 32bit integer")
    if SECCOMP_POD in annotations:
        yield from _seccomp(annotations[SECCOMP_POD], child(path, SECCOMP_POD))
    for name in sorted(annotations):
        if name.startswith(SECCOMP_CONTAINER):
            yield from _seccomp(annotations[name], child(path, name))
    for name in sorted(annotations):
        if name.startswith(APP_ARMOR):
            yield from _app_armor(name, annotations[name], spec, key(path, name))


def _is_cost(text: str) -> bool:
    """Returns whether the text is a plain number: no plus sign, no leading zeros."""
    if text == "0":
        return True
    return bool(re.fullmatch("-?[1-9][0-9]*", text)) and _MIN <= int(text) <= _MAX


def _seccomp(value: str, path: str) -> Iterator[FieldError]:
    if value.startswith("localhost/"):
        yield from paths.descending(path, value.removeprefix("localhost/"))
    elif value not in _SECCOMP_NAMES:
        yield invalid(path, value, "must be a valid seccomp profile")


def _app_armor(name: str, value: str, spec: Object, path: str) -> Iterator[FieldError]:
    wanted = name.removeprefix(APP_ARMOR)
    if all(container.get("name") != wanted for container, _ in all_containers(spec, "")):
        yield invalid(path, wanted, "container not found")
    if value not in _APP_ARMOR_NAMES and not value.startswith("localhost/"):
        yield invalid(path, value, f'invalid AppArmor profile name: "{value}"')


def annotation_change_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """Checks that annotations about a pod's containers stay as they were; new annotations are
    checked again.
    """
    after, before = (pod["metadata"].get("annotations") or {} for pod in (new, old))
    path = "metadata.annotations"
    if after != before:
        for name in sorted(before):
            if after.get(name) == before[name]:
                continue
            if name.startswith(APP_ARMOR):
                yield forbidden(key(path, name), "may not remove or update AppArmor annotations")
            if name == MIRROR:
                yield forbidden(key(path, name), "may not remove or update mirror pod annotation")
        for name in sorted(after.keys() - before.keys()):
            if name.startswith(APP_ARMOR):
                yield forbidden(key(path, name), "may not add AppArmor annotations")
            if name == MIRROR:
                yield forbidden(key(path, name), "may not add mirror pod annotation")
    yield from annotation_errors(after, new["spec"], path)


def mismatch_errors(annotations: dict[str, str], spec: Object, path: str) -> Iterator[FieldError]:
    """Checks annotations against the fields that replaced them. `path`: that of the spec."""
    security = spec.get("securityContext") or {}
    at = child(path, "securityContext.seccompProfile")
    if security.get("seccompProfile") is not None and SECCOMP_POD in annotations:
        yield from annotation_mismatch(annotations[SECCOMP_POD], security["seccompProfile"], at)
    for container, where in all_containers(spec, path):
        profile = (container.get("securityContext") or {}).get("seccompProfile")
        said = annotations.get(SECCOMP_CONTAINER + (container.get("name") or ""))
        if profile is not None and said is not None:
            yield from annotation_mismatch(said, profile, child(where, "securityContext.seccompProfile"))
    if (spec.get("os") or {}).get("name") == "windows":
        return
    for container, where in all_containers(spec, path):
        own = (container.get("securityContext") or {}).get("appArmorProfile")
        profile = own if own is not None else security.get("appArmorProfile")
        said = annotations.get(APP_ARMOR + (container.get("name") or ""))
        if profile is not None and said is not None:
            yield from _armor_mismatch(said, profile, child(where, "securityContext.appArmorProfile"))


def _armor_mismatch(said: str, profile: Object, path: str) -> Iterator[FieldError]:
    expected = {"Unconfined": "unconfined", "RuntimeDefault": "runtime/default"}
    kind = profile.get("type") or ""
    wrong = said != expected[kind] if kind in expected else kind == "Localhost" and said[:10] != "localhost/"
    if wrong:
        yield forbidden(child(path, "type"), "apparmor type in annotation and field must match")
    elif kind == "Localhost" and said.removeprefix("localhost/") != profile.get("localhostProfile"):
        text = "apparmor profile in annotation and field must match"
        yield forbidden(child(path, "localhostProfile"), text)
