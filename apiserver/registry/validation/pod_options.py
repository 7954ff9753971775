"""Which of the rules of pods hold: chosen once from the version and the gates.

Source: pkg/api/pod/util.go (GetValidationOptionsFromPodSpecAndMeta), 1.36, without what it allows because an
old object had it already.
"""

from dataclasses import dataclass
from functools import lru_cache

from apimachinery.gates import FeatureGates
from apimachinery.versions import Version

_RELAXED_ENV_SINCE, _RESIZE_OF_SIDECARS_SINCE = 32, 33


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
