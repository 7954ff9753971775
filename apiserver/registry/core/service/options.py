"""Holds the options of service validation, chosen once from the version and the gates."""

from dataclasses import dataclass
from functools import lru_cache

from kubeskew.apimachinery.gates import FeatureGates

_DISTRIBUTION = ("PreferClose",)


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """`distributions`: what `trafficDistribution` may say. The defaults are those of 1.36."""

    strict_addresses: bool = True
    distributions: tuple[str, ...] = (*_DISTRIBUTION, "PreferSameZone", "PreferSameNode")
    any_balancer_status: bool = False  # services of other types may have a balancer's status
    ip_modes: bool = True


@lru_cache(maxsize=64)
def service_options(gates: FeatureGates) -> ServiceOptions:
    all_ways = gates.enabled("PreferSameTrafficDistribution")
    return ServiceOptions(
        strict_addresses=gates.enabled("StrictIPCIDRValidation"),
        distributions=(*_DISTRIBUTION, "PreferSameZone", "PreferSameNode") if all_ways else _DISTRIBUTION,
        any_balancer_status=gates.enabled("AllowServiceLBStatusOnNonLB"),
        ip_modes=gates.version.minor >= _IP_MODES_SINCE or gates.enabled("LoadBalancerIPMode"),
    )


_IP_MODES_SINCE = 32
