"""Reads the settings of a node's kubelet: some of a KubeletConfiguration's, by its names."""

from collections.abc import Mapping
from typing import Any

from kubeskew.apimachinery.quantity import Quantity, QuantityError
from kubeskew.apimachinery.suggestions import did_you_mean

POLICIES = {
    "cpuManagerPolicy": ("none", "static"),
    "memoryManagerPolicy": ("None", "Static"),
    "topologyManagerScope": ("container", "pod"),
}
# A kubelet with a static policy does not start without a reserve.
_RESERVES = {"cpuManagerPolicy": ("static", "cpu", "1"), "memoryManagerPolicy": ("Static", "memory", "1Gi")}
RESERVED = ("cpu", "memory")
KEYS = (*POLICIES, "kubeReserved")


class SettingsError(ValueError):
    """A setting that no kubelet has."""


def parse(settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Returns the settings, with the reserves that policies need unless they are said.

    Raises SettingsError.
    """
    for key, known in POLICIES.items():
        if key in settings and settings[key] not in known:
            hint = did_you_mean(str(settings[key]), known)
            raise SettingsError(
                f"{where}.{key}: expected {' or '.join(known)}, found {settings[key]!r}{hint}"
            )
    parsed = dict(settings)
    if "kubeReserved" in settings:
        parsed["kubeReserved"] = _reserved(settings["kubeReserved"], f"{where}.kubeReserved")
        return parsed
    reserves = {
        name: amount for key, (policy, name, amount) in _RESERVES.items() if settings.get(key) == policy
    }
    return parsed | ({"kubeReserved": reserves} if reserves else {})


def _reserved(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict) or not set(value) <= set(RESERVED):
        raise SettingsError(f"{where}: expected a mapping with {' and '.join(RESERVED)}, found {value!r}")
    for name, amount in value.items():
        try:
            Quantity.parse(str(amount))
        except QuantityError as error:
            raise SettingsError(f"{where}.{name}: {error}") from error
    return {name: str(amount) for name, amount in value.items()}
