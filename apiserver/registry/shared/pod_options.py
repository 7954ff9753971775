"""Pods and templates are validated with these options.

They are chosen once from version and gates, and widened by those that an old pod has.

Source: pkg/api/pod/util.go (GetValidationOptionsFromPodSpecAndMeta), 1.36, without what it allows because
pods may be older than the releases that are here.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from kubeskew.apimachinery import names
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.apiserver.features import PodFeatures
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.selectors import has_impossible_values


@dataclass(frozen=True, slots=True)
class PodOptions:
    """`is_pod`: a pod itself, not a template of one."""

    features: PodFeatures
    is_pod: bool
    relaxed_env: bool
    relaxed_dns: bool
    zero_sleep: bool
    pod_resources: bool
    restart_rules: bool
    restart_all: bool
    env_files: bool
    merged_spread: bool
    strict_addresses: bool
    comparisons: bool
    host_network_users: bool
    any_selinux_change: bool
    sidecars: bool
    sidecar_resize: bool
    any_affinity_values: bool

    @property
    def known_comparisons(self) -> bool | None:
        """None if the release does not know such operators of tolerations."""
        return self.comparisons if self.features.names_comparisons or self.comparisons else None


_WIDENED = tuple(field.name for field in fields(PodOptions))[2:]


@lru_cache(maxsize=256)
def pod_options(features: PodFeatures, is_pod: bool) -> PodOptions:
    """The options are those for a new object."""
    return PodOptions(features, is_pod, *(getattr(features, name) for name in _WIDENED))


def widened(options: PodOptions, spec: Object, before: Object) -> PodOptions:
    """Fields that the pod spec `before` uses stay allowed when their gate goes off."""
    used: dict[str, Any] = {
        name: True for name, uses in _USES.items() if not getattr(options, name) and uses(before)
    }
    if not options.relaxed_env and any(map(_is_relaxed, _env_names(spec) & _env_names(before))):
        used["relaxed_env"] = True
    return replace(options, **used) if used else options


def _containers(spec: Object) -> Iterator[Object]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field) or ()


def _env_names(spec: Object) -> set[str]:
    found = {env.get("name") or "" for container in _containers(spec) for env in container.get("env") or ()}
    return found | {
        env.get("prefix") or "" for container in _containers(spec) for env in container.get("envFrom") or ()
    }


def _is_relaxed(name: str) -> bool:
    return bool(names.env_name(name, False)) and not names.env_name(name, True)


def _searches_relaxed(spec: Object) -> bool:
    return any(
        domain == "." or "_" in domain for domain in (spec.get("dnsConfig") or {}).get("searches") or ()
    )


def _sleeps_for_nothing(spec: Object) -> bool:
    hooks = [
        (container.get("lifecycle") or {}).get(at) or {} for container in _containers(spec) for at in _HOOKS
    ]
    return any((hook["sleep"].get("seconds") or 0) == 0 for hook in hooks if hook.get("sleep") is not None)


def _rules(spec: Object) -> Iterator[Object]:
    for container in _containers(spec):
        yield from container.get("restartPolicyRules") or ()


def _has_own_policies(spec: Object) -> bool:
    inits = spec.get("initContainers") or ()
    if any(
        container.get("restartPolicy") not in {None, "Always"} or container.get("restartPolicyRules")
        for container in inits
    ):
        return True
    return any(container.get("restartPolicy") is not None for container in spec.get("containers") or ())


def _resizes_sidecars(spec: Object) -> bool:
    inits = spec.get("initContainers") or ()
    return any(is_sidecar(container) and container.get("resizePolicy") for container in inits)


def _requires_impossible_values(spec: Object) -> bool:
    nodes = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return has_impossible_values(nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {})


_HOOKS = ("postStart", "preStop")
_USES: Mapping[str, Callable[[Object], bool]] = {
    "relaxed_dns": _searches_relaxed,
    "zero_sleep": _sleeps_for_nothing,
    "restart_rules": _has_own_policies,
    "restart_all": lambda spec: any(rule.get("action") == "RestartAllContainers" for rule in _rules(spec)),
    "comparisons": lambda spec: any(
        toleration.get("operator") in {"Lt", "Gt"} for toleration in spec.get("tolerations") or ()
    ),
    "host_network_users": lambda spec: bool(spec.get("hostNetwork")) and spec.get("hostUsers") is False,
    "any_selinux_change": lambda spec: (
        (spec.get("securityContext") or {}).get("seLinuxChangePolicy") == "MountOption"
    ),
    "sidecar_resize": _resizes_sidecars,
    "any_affinity_values": _requires_impossible_values,
}


def template_options(
    ctx: StrategyContext, new: Object | None = None, old: Object | None = None
) -> PodOptions:
    """`new` and `old` hold the template of an update, and held it."""
    options = pod_options(ctx.features.pods, False)
    if new is None or old is None:
        return options
    after, before = ((spec.get("template") or {}).get("spec") or {} for spec in (new, old))
    return widened(options, after, before)
