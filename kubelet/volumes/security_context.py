"""The effect of a pod's and a container's security contexts on the container.

Profiles of seccomp and SELinux options are for runtimes that apply them; where none does, a profile that is a
file of the node's is refused, and the default one has no effect. Options for Windows have none either.

Source: pkg/securitycontext/util.go; pkg/kubelet/kuberuntime/security_context{,_others}.go;
pkg/security/apparmor, 1.31 to 1.36.
"""

import re
from collections.abc import Sequence

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.environment import ConfigError
from kubeskew.kubelet.containers.runtime_service import LOCALHOST, RUNTIME_DEFAULT, ContainerSecurity
from kubeskew.kubelet.features import ContainerFeatures

_OF_POD = ("runAsUser", "runAsGroup", "runAsNonRoot", "seLinuxOptions", "windowsOptions")
_LARGEST_USER = 2**31 - 1
_NUMBER = re.compile(r"[0-9]+")
_APP_ARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"


def effective_context(pod: Object, container: Object) -> Object:
    """The container's own fields come before those that it shares with the pod's context."""
    common = pod["spec"].get("securityContext") or {}
    own = container.get("securityContext") or {}
    shared = {field: common[field] for field in _OF_POD if common.get(field) is not None}
    return {**shared, **{field: value for field, value in own.items() if value is not None}}


def container_security(
    pod: Object,
    container: Object,
    image_user: str,
    features: ContainerFeatures,
    *,
    more_groups: Sequence[int] = (),
    has_profiles: bool = False,
) -> ContainerSecurity:
    """`image_user` is as the image's configuration names it, with or without a group; `more_groups` are
    those that its persistent volumes ask for; `has_profiles`: the runtime applies them. Raises ConfigError.
    """
    context = effective_context(pod, container)
    uid, name = _image_user(image_user)
    _check_non_root(pod, container, context, uid, name, checks_range=features.checks_user_range)
    seccomp = _seccomp(pod, container, has_profiles=has_profiles)
    common = pod["spec"].get("securityContext") or {}
    groups = [*_present(common.get("fsGroup")), *(common.get("supplementalGroups") or ()), *more_groups]
    capabilities = context.get("capabilities") or {}
    return ContainerSecurity(
        run_as_user=context["runAsUser"] if context.get("runAsUser") is not None else uid,
        run_as_group=context.get("runAsGroup"),
        supplemental_groups=tuple(int(group) for group in groups),
        strict_groups=features.knows_groups_policy and _is_strict(common.get("supplementalGroupsPolicy")),
        privileged=bool(context.get("privileged")),
        added_capabilities=tuple(capabilities.get("add") or ()),
        dropped_capabilities=tuple(capabilities.get("drop") or ()),
        read_only_root=bool(context.get("readOnlyRootFilesystem")),
        no_new_privileges=context.get("allowPrivilegeEscalation") is False,
        unmasked_proc=context.get("procMount") == "Unmasked",
        seccomp=seccomp,
        selinux=dict(context.get("seLinuxOptions") or {}),
    )


def sandbox_security(pod: Object, more_groups: Sequence[int] = ()) -> ContainerSecurity:
    """The context of the pod itself. Raises ConfigError."""
    common = pod["spec"].get("securityContext") or {}
    groups = [*_present(common.get("fsGroup")), *more_groups, *(common.get("supplementalGroups") or ())]
    return ContainerSecurity(
        run_as_user=common.get("runAsUser"),
        run_as_group=common.get("runAsGroup"),
        supplemental_groups=tuple(int(group) for group in groups),
        strict_groups=_is_strict(common.get("supplementalGroupsPolicy")),
        privileged=any(
            bool((spec.get("securityContext") or {}).get("privileged"))
            for spec in pod_spec.all_containers(pod)
        ),
        seccomp=RUNTIME_DEFAULT,
        selinux=dict(common.get("seLinuxOptions") or {}),
    )


def _present(value: int | None) -> tuple[int, ...]:
    return () if value is None else (value,)


def _is_strict(policy: str | None) -> bool:
    if policy not in (None, "", "Merge", "Strict"):
        raise ConfigError(f"unsupported supplementalGroupsPolicy: {policy}")
    return policy == "Strict"


def _image_user(user: str) -> tuple[int | None, str]:
    """The pair is (number, name); an image without a user runs as root."""
    first = user.partition(":")[0]
    if not first:
        return 0, ""
    return (int(first), "") if _NUMBER.fullmatch(first) else (None, first)


def _check_non_root(
    pod: Object, container: Object, context: Object, uid: int | None, name: str, *, checks_range: bool
) -> None:
    if not context.get("runAsNonRoot"):
        return
    where = f'(pod: "{pod_spec.full_name(pod)}", container: {container["name"]})'
    user = context.get("runAsUser")
    if user is not None:
        if user == 0:
            raise ConfigError(f"container's runAsUser breaks non-root policy {where}")
        return
    if uid is None:
        raise ConfigError(
            f"container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is "
            f"non-root {where}"
        )
    if uid == 0:
        raise ConfigError(f"container has runAsNonRoot and image will run as root {where}")
    if checks_range and uid > _LARGEST_USER:
        raise ConfigError(
            f"container has runAsNonRoot and image has an invalid user id ({uid}). (Must be "
            f"1-({_LARGEST_USER})): must be between 0 and {_LARGEST_USER}, inclusive {where}"
        )


def _seccomp(pod: Object, container: Object, *, has_profiles: bool) -> str:
    """Raises ConfigError; where no runtime applies profiles, also for those that are files of the node."""
    own = (container.get("securityContext") or {}).get("seccompProfile")
    profile = own or (pod["spec"].get("securityContext") or {}).get("seccompProfile") or {}
    kind, name = profile.get("type"), profile.get("localhostProfile")
    if kind != "Localhost":
        return RUNTIME_DEFAULT if kind == RUNTIME_DEFAULT else ""
    if not name:
        raise ConfigError("localhostProfile must be set if seccompProfile type is Localhost.")
    if not has_profiles and not (container.get("securityContext") or {}).get("privileged"):
        raise ConfigError("seccomp is not supported")
    return f"{LOCALHOST}{name}"


def app_armor_refusal(pod: Object) -> str:
    """The message with which a node without AppArmor refuses a pod that wants it, for the reason AppArmor."""
    contexts = [pod["spec"].get("securityContext") or {}]
    contexts += [spec.get("securityContext") or {} for spec in pod_spec.all_containers(pod)]
    kinds = {(context.get("appArmorProfile") or {}).get("type", "Unconfined") for context in contexts}
    annotations = pod["metadata"].get("annotations") or {}
    asked = {text for key, text in annotations.items() if key.startswith(_APP_ARMOR_ANNOTATION)}
    if kinds == {"Unconfined"} and asked <= {"unconfined"}:
        return ""
    return "Cannot enforce AppArmor: AppArmor is not enabled on the host"
