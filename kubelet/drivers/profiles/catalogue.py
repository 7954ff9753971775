"""Lists the profiles, and makes the pools of a driver's nodes from them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.pools import Pool, Slice, Unit, slices_for
from kubeskew.kubelet.drivers.profiles import mig, plain, sriov, tpu
from kubeskew.kubelet.drivers.profiles.devices import Hardware

_FIRST_WITH_DEVICE_NODES = 33


class ProfileError(ValueError):
    """The requested devices cannot be made."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of hardware: the default number per node, the names of its devices, and their contents."""

    count: int
    name: str
    units: Callable[[Hardware], list[Unit]]


PLAIN = ""
PROFILES: Mapping[str, Profile] = {
    PLAIN: Profile(1, "gpu", lambda hardware: plain.units(hardware, plain.EXAMPLE)),
    "a100-mig": Profile(2, "gpu", lambda hardware: mig.units(hardware, mig.A100)),
    "h100": Profile(8, "gpu", lambda hardware: plain.units(hardware, plain.H100)),
    "h100-mig": Profile(8, "gpu", lambda hardware: mig.units(hardware, mig.H100)),
    **dict.fromkeys(tpu.SIDES, Profile(1, "tpu", lambda hardware: [tpu.single(hardware)])),
    "nic-sriov": Profile(2, "nic", sriov.units),
}


@dataclass(frozen=True, slots=True)
class Offer:
    """The devices of a driver on one node: of a profile, or the `resources` that are written out.

    `resources` is `{slices: [{devices, sharedCounters}]}` in the shape of v1.
    """

    node: str
    profile: str = PLAIN
    devices: int | None = None
    device_name: str = ""
    attributes: Mapping[str, Any] | None = None
    capacity: Mapping[str, str] | None = None
    resources: Mapping[str, Any] | None = None

    def hardware(self, driver: str) -> Hardware:
        """Returns the hardware; raises ProfileError."""
        profile = _profile(self.profile)
        count = profile.count if self.devices is None else self.devices
        name = self.device_name or profile.name
        return Hardware(driver, self.node, count, name, self.attributes or {}, self.capacity or {})


def resources_of(driver: str, offers: Sequence[Offer], server: Version) -> dict[str, Pool]:
    """Returns the driver's pools by name, as a server of this version takes them. Raises ProfileError."""
    pools: dict[str, Pool] = {}
    hosts = [offer for offer in offers if offer.profile in tpu.SIDES and offer.resources is None]
    if server.minor < _FIRST_WITH_DEVICE_NODES:
        hosts = []
    for offer in offers:
        if offer not in hosts:
            pools[offer.node] = Pool(_node_slices(driver, offer, server), node_name=offer.node)
    for profile in tpu.SIDES:
        by_name = {offer.node: offer for offer in hosts if offer.profile == profile}
        for number, group in enumerate(tpu.groups(profile, [*by_name]), 1):
            made = tpu.unit(profile, by_name[group[0]].hardware(driver), group)
            pools[f"{profile}-{number}"] = Pool(slices_for(server, [made], per_device=True))
    return pools


def _node_slices(driver: str, offer: Offer, server: Version) -> tuple[Slice, ...]:
    if offer.resources is not None:
        return tuple(_written(slice_) for slice_ in offer.resources.get("slices") or [])
    return slices_for(server, _profile(offer.profile).units(offer.hardware(driver)))


def _written(entry: Object) -> Slice:
    return Slice(tuple(entry.get("devices") or ()), tuple(entry.get("sharedCounters") or ()))


def _profile(name: str) -> Profile:
    if name not in PROFILES:
        known = ", ".join(profile for profile in PROFILES if profile)
        raise ProfileError(f"unknown device profile {name}; known are {known}")
    return PROFILES[name]
