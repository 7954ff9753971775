"""Holds the options of pod validation, chosen once from version and gates, and widened by those an old pod
has.

Source: pkg/api/pod/util.go (GetValidationOptionsFromPodSpecAndMeta), 1.36, without what it allows because
pods may be older than the releases that are here.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.validation import names
from kubeskew.apimachinery.versions import Version

_RELAXED_ENV_SINCE = 32
_RESIZE_OF_SIDECARS_SINCE = 33


@dataclass(frozen=True, slots=True)
class PodOptions:
    """`is_pod`: a pod itself, not a template of one. The defaults are those of 1.36."""

    minor: int = 36
    is_pod: bool = False
    relaxed_env: bool = True  # names of environment variables may be nearly anything
    relaxed_dns: bool = True  # search paths may have underscores
    zero_sleep: bool = True
    pod_resources: bool = True
    restart_rules: bool = True
    restart_all: bool = True
    env_files: bool = True
    merged_spread: bool = True  # matchLabelKeys of spread constraints become part of the selector
    strict_addresses: bool = True
    comparisons: bool = False  # tolerations may compare numbers
    host_network_users: bool = False  # user namespaces on the node's network
    any_selinux_change: bool = True
    sidecars: bool = True
    sidecar_resize: bool = True


@lru_cache(maxsize=256)
def pod_options(version: Version, gates: FeatureGates, is_pod: bool) -> PodOptions:
    minor, on = version.minor, gates.enabled
    return PodOptions(
        minor=minor,
        is_pod=is_pod,
        relaxed_env=minor >= _RELAXED_ENV_SINCE or on("RelaxedEnvironmentVariableValidation"),
        relaxed_dns=on("RelaxedDNSSearchValidation"),
        zero_sleep=on("PodLifecycleSleepActionAllowZero"),
        pod_resources=on("PodLevelResources"),
        restart_rules=on("ContainerRestartRules"),
        restart_all=on("RestartAllContainersOnContainerExits"),
        env_files=on("EnvFiles"),
        merged_spread=on("MatchLabelKeysInPodTopologySpreadSelectorMerge"),
        strict_addresses=on("StrictIPCIDRValidation"),
        comparisons=on("TaintTolerationComparisonOperators"),
        host_network_users=on("UserNamespacesHostNetworkSupport"),
        any_selinux_change=on("SELinuxMount"),
        sidecars=on("SidecarContainers"),
        sidecar_resize=minor >= _RESIZE_OF_SIDECARS_SINCE or on("InPlacePodVerticalScaling"),
    )


def widened(options: PodOptions, spec: Object, before: Object) -> PodOptions:
    """The options for an update of pod spec `before`: what it uses stays allowed when its gate goes off."""
    used = {name: True for name, uses in _USES.items() if not getattr(options, name) and uses(before)}
    if not options.relaxed_env and any(map(_is_relaxed, _env_names(spec) & _env_names(before))):
        used["relaxed_env"] = True
    return replace(options, **used) if used else options


def _containers(spec: Object) -> Iterator[Object]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field) or ()


def _env_names(spec: Object) -> set[str]:
    found = {env.get("name") or "" for one in _containers(spec) for env in one.get("env") or ()}
    return found | {env.get("prefix") or "" for one in _containers(spec) for env in one.get("envFrom") or ()}


def _is_relaxed(name: str) -> bool:
    return bool(names.env_name(name, False)) and not names.env_name(name, True)


def _searches_relaxed(spec: Object) -> bool:
    return any(one == "." or "_" in one for one in (spec.get("dnsConfig") or {}).get("searches") or ())


def _sleeps_for_nothing(spec: Object) -> bool:
    hooks = [(one.get("lifecycle") or {}).get(at) or {} for one in _containers(spec) for at in _HOOKS]
    return any((hook["sleep"].get("seconds") or 0) == 0 for hook in hooks if hook.get("sleep") is not None)


def _rules(spec: Object) -> Iterator[Object]:
    for container in _containers(spec):
        yield from container.get("restartPolicyRules") or ()


def _has_own_policies(spec: Object) -> bool:
    inits = spec.get("initContainers") or ()
    if any(
        one.get("restartPolicy") not in {None, "Always"} or one.get("restartPolicyRules") for one in inits
    ):
        return True
    return any(one.get("restartPolicy") is not None for one in spec.get("containers") or ())


def _resizes_sidecars(spec: Object) -> bool:
    inits = spec.get("initContainers") or ()
    return any(one.get("restartPolicy") == "Always" and one.get("resizePolicy") for one in inits)


_HOOKS = ("postStart", "preStop")
_USES: Mapping[str, Callable[[Object], bool]] = {
    "relaxed_dns": _searches_relaxed,
    "zero_sleep": _sleeps_for_nothing,
    "restart_rules": _has_own_policies,
    "restart_all": lambda spec: any(rule.get("action") == "RestartAllContainers" for rule in _rules(spec)),
    "comparisons": lambda spec: any(
        one.get("operator") in {"Lt", "Gt"} for one in spec.get("tolerations") or ()
    ),
    "host_network_users": lambda spec: bool(spec.get("hostNetwork")) and spec.get("hostUsers") is False,
    "any_selinux_change": lambda spec: (
        (spec.get("securityContext") or {}).get("seLinuxChangePolicy") == "MountOption"
    ),
    "sidecar_resize": _resizes_sidecars,
}
