"""The gRPC services that kubelets call, how they choose one of them, and how they refuse a plugin.

Source: pkg/kubelet/cm/dra/plugin: plugin.go (1.31), registration.go (1.32, 1.33), dra_plugin_manager.go (1.34
and later).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kubeskew.kubelet.plugins.plugin_handler import PluginRefusedError

HEALTH_SERVICE = "DRAResourceHealth"
V1, V1BETA1, V1ALPHA4 = "v1.DRAPlugin", "v1beta1.DRAPlugin", "v1alpha3.Node"
_GENERIC_VERSION = re.compile(r"^\s*v?([0-9]+(?:\.[0-9]+)*)(.*)*$")


@dataclass(frozen=True, slots=True)
class ServiceFeatures:
    """The rules of one release. Texts have the fields `name`, `endpoint` and `error`."""

    choose: Callable[[Sequence[str]], str]  # among the announced versions; raises PluginRefusedError
    invalid: str  # refusal before the registration
    failed: str  # refusal during it
    taken: str  # another plugin of the driver has the endpoint
    several: bool  # allows several plugins of one driver; else the newest replaces the one before
    follows_connections: bool  # a driver whose plugins are all disconnected counts as gone


@dataclass(frozen=True, slots=True)
class HealthFeatures:
    """The rules by which a release's kubelet asks for the health of devices, and keeps it."""

    versions: Sequence[str]  # versions of the service, the newest first
    careful: bool  # only a driver's newest plugin, if it names the service, and not again if it lacks it
    timeouts: bool = True  # a driver may say how long a report is valid
    messages: bool = True  # a driver may say why a device is unhealthy

    def choose(self, announced: Sequence[str]) -> str | None:
        """Picks one of the versions that a plugin announced at its registration; None if it announced none of
        them."""
        if not self.careful:
            return self.versions[0]
        return next(
            (version for version in self.versions if f"{version}.{HEALTH_SERVICE}" in announced), None
        )


def first_known(versions: Sequence[str]) -> str:
    """The plugin's own order decides. Raises PluginRefusedError."""
    known = (V1, V1BETA1)
    _check_any(versions)
    for version in versions:
        if version in known:
            return version
    raise PluginRefusedError(
        f"none of services supported by the plugin ({_quoted(versions)}) "
        f"are supported by the kubelet ({_quoted(known)})"
    )


def newest_or_alpha(versions: Sequence[str]) -> str:
    """Picks the newest; a plugin of that time that names neither is taken to have the alpha one."""
    _check_any(versions)
    return next((service for service in (V1BETA1, V1ALPHA4) if service in versions), V1ALPHA4)


def _check_any(versions: Sequence[str]) -> None:
    if not versions:
        raise PluginRefusedError("empty list of supported gRPC services (aka supported versions)")


def alpha(versions: Sequence[str]) -> str:
    """The alpha service serves any announced version 1.x, as in 1.31. Raises PluginRefusedError."""
    check_generic(versions)
    return V1ALPHA4


def check_generic(versions: Sequence[str]) -> None:
    """Raises PluginRefusedError unless a version 1.x is announced, which is all that kubelets up to 1.31 look
    at."""
    if not versions:
        raise PluginRefusedError("empty list for supported versions")
    parsed = [found for version in versions if (found := _major(version)) is not None and found <= 1]
    if not parsed:
        unparsed = next((version for version in versions if _major(version) is None), None)
        why = "<nil>" if unparsed is None else f'could not parse "{unparsed}" as version'
        raise PluginRefusedError(
            "none of the versions are supported: could not find a highest supported version from versions "
            f"([{' '.join(versions)}]) reported by this plugin: {why}"
        )
    if 1 not in parsed:
        raise PluginRefusedError(
            "none of the versions are supported: highest supported version reported by plugin is "
            f"{max(versions)}, must be v1.x"
        )


def _major(version: str) -> int | None:
    """Parses a version as util/version.ParseGeneric: `v1.2-anything` is 1.2, and a single number is an
    error."""
    found = _GENERIC_VERSION.match(version)
    if found is None or "." not in found[1]:
        return None
    return int(found[1].split(".")[0])


def _quoted(texts: Sequence[str]) -> str:
    """Prints strings as Go's %q does."""
    return "[" + " ".join(f'"{text}"' for text in texts) + "]"
