"""Device profiles: tables of hardware, and the devices that follow from them."""

from kubeskew.kubelet.drivers.profiles.catalogue import PROFILES, ProfileError, resources_of

__all__ = ["PROFILES", "ProfileError", "resources_of"]
