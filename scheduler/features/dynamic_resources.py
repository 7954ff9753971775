"""The differences between releases and gates in the DynamicResources plugin, and its arguments."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kubeskew.apimachinery import field
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler.settings import ConfigurationError, parse_duration

FILTER_SECONDS = 10.0  # DynamicResourcesArgs.filterTimeout
BINDING_SECONDS = 600.0  # DynamicResourcesArgs.bindingTimeout


@dataclass(frozen=True, slots=True)
class DynamicResourcesFeatures:
    """Named decisions of one scheduler."""

    filter_seconds: float | None  # seconds for the search on one node; None is no limit
    binding_seconds: float  # seconds until binding conditions must be true
    timeout_is_error: bool  # 1.36+: a search cut short is retried after its backoff, without an event
    knows_filter_timeout: bool
    knows_binding_timeout: bool  # the argument; 1.34 waited as long as the default says
    binding_conditions: bool
    binding_error_prefix: bool  # 1.36+: failures begin "device binding failed" or "device binding timeout"
    knows_alternatives: bool
    prioritized_list: bool
    scores_alternatives: bool  # 1.35+
    scores_by_place: bool  # takes what a claim was given before for one of those that this attempt allocates
    looks_twice: bool  # gathers the devices in use in two looks, between which a binding may end
    groups: bool  # claims can be reserved for groups of pods (DRAWorkloadResourceClaims)
    owner_capitalized: bool  # 1.36+: "for Pod x (Pod is not owner)"
    deletion_helps: bool  # the deletion of a claim is an event that pods wait for
    slices_help: bool  # pods wait for slices that are new or changed
    allocatable_helps: bool  # 1.34+: node events include what can be allocated (extended resources)
    refuses_controllers: bool  # 1.31, without the gate that has drivers allocate claims
    idle_reason: str  # in PostFilter, without checking claims
    quiet_without_claims: bool  # 1.33: unless the pod has none at all
    stuck_reason: str  # in PostFilter, if no claim can be freed
    named_loggers: bool  # log lines of plugins name their extension point

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "DynamicResourcesFeatures":
        minor = version.minor
        conditions = gates.enabled("DRADeviceBindingConditions") and gates.enabled(
            "DRAResourceClaimDeviceStatus"
        )
        speaks = minor < 37
        return cls(
            filter_seconds=FILTER_SECONDS if gates.enabled("DRASchedulerFilterTimeout") else None,
            binding_seconds=BINDING_SECONDS,
            timeout_is_error=minor >= 36,
            knows_filter_timeout=minor >= 34,
            knows_binding_timeout=minor >= 35,
            binding_conditions=conditions,
            binding_error_prefix=minor >= 36,
            knows_alternatives=minor >= 33,
            prioritized_list=gates.enabled("DRAPrioritizedList"),
            scores_alternatives=minor >= 35 and gates.enabled("DRAPrioritizedList"),
            scores_by_place=gates.bugs.present("k8s-139016"),
            looks_twice=gates.bugs.present("k8s-136269"),
            groups=gates.enabled("DRAWorkloadResourceClaims"),
            owner_capitalized=minor >= 36,
            deletion_helps=minor >= 32 and not gates.bugs.present("k8s-140831"),
            slices_help=minor >= 31 and gates.bugs.mended("k8s-126807"),
            allocatable_helps=minor >= 34,
            refuses_controllers=minor == 31 and not gates.enabled("DRAControlPlaneController"),
            idle_reason="no new claims to deallocate" if speaks else "",
            quiet_without_claims=minor == 33,
            stuck_reason="still not schedulable" if speaks else "",
            named_loggers=gates.enabled("ContextualLogging"),
        )

    def with_arguments(self, args: Mapping[str, Any]) -> "DynamicResourcesFeatures":
        """Applies DynamicResourcesArgs; raises ConfigurationError, also for an argument without effect
        because of a gate."""
        known = {"filterTimeout": self.knows_filter_timeout, "bindingTimeout": self.knows_binding_timeout}
        unknown = [name for name in args if name not in ("apiVersion", "kind") and not known.get(name)]
        if unknown:
            listed = ", ".join(f'unknown field "{name}"' for name in unknown)
            raise ConfigurationError(f"strict decoding error: {listed}")
        errors = [*self._refuse_filter(args), *self._refuse_binding(args)]
        if errors:
            texts = [str(error) for error in errors]
            raise ConfigurationError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
        searching, binding = args.get("filterTimeout"), args.get("bindingTimeout")
        return replace(
            self,
            filter_seconds=self.filter_seconds if searching is None else _seconds(searching) or None,
            binding_seconds=self.binding_seconds if binding is None else _seconds(binding),
        )

    def _refuse_filter(self, args: Mapping[str, Any]) -> list[field.FieldError]:
        timeout = args.get("filterTimeout")
        if timeout is None:
            return []
        if self.filter_seconds is None:
            return [field.forbidden("filterTimeout", "DRASchedulingFilterTimeout feature gate is disabled")]
        if _seconds(timeout) < 0:
            return [field.invalid("filterTimeout", field.Unquoted(timeout), "must be zero or positive")]
        return []

    def _refuse_binding(self, args: Mapping[str, Any]) -> list[field.FieldError]:
        timeout = args.get("bindingTimeout")
        if timeout is None:
            return []
        if not self.binding_conditions:
            detail = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
            return [field.forbidden("bindingTimeout", detail)]
        if _seconds(timeout) < 1:
            return [field.invalid("bindingTimeout", field.Unquoted(timeout), "must be at least 1 second")]
        return []


def _seconds(text: Any) -> float:
    written = str(text)
    return -parse_duration(written[1:]) if written.startswith("-") else parse_duration(written)
