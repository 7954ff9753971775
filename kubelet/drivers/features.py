"""The differences between releases in what drivers do: of their library, and of the API server.

Drivers have no feature gates. The library's release is that of the kubelet's host; the server's decides what
slices may hold. Source: k8s.io/dynamic-resource-allocation/kubeletplugin and resourceslice, 0.26 to 0.36.
"""

from kubeskew.apimachinery.features import FeatureTable, bug, by_release, since

PLAIN_VERSIONS = ("1.0.0",)  # of the library up to 0.31; to kubelets they mean v1alpha3.Node
HEALTH_SERVICE = ".DRAResourceHealth"
HEALTH, STABLE_HEALTH = f"v1alpha1{HEALTH_SERVICE}", f"v1{HEALTH_SERVICE}"


class PluginLibrary(FeatureTable):
    """The helper that registers a driver with its kubelet and serves its calls."""

    # The services that a driver names at its registration.
    services: tuple[str, ...] = by_release(
        {
            0: PLAIN_VERSIONS,
            32: ("v1beta1.DRAPlugin", "v1alpha3.Node"),
            34: ("v1.DRAPlugin", "v1beta1.DRAPlugin", HEALTH),
            37: ("v1.DRAPlugin", "v1beta1.DRAPlugin", STABLE_HEALTH, HEALTH),
        }
    )


class SliceLibrary(FeatureTable):
    """The controller of a driver's slices."""

    indexed_names: bool = since(36)  # names begin with the slice's index, by which slices match
    single_matches: bool = since(32)  # one stored slice and a wanted one match, whatever is in them
    deletes_first: bool = since(34)  # what is obsolete, before anything is written
    checks_pools: bool = since(35)  # a pool that refers to nothing is not published
    refuses_own_domain: bool = since(37)  # attributes and capacities named with the driver's own domain
    keeps_last_time_alone: bool = bug("k8s-141107")  # of the taints that a device has had before
    # Takes what it wrote for present, though the watch has shown that it is gone.
    keeps_written: bool = bug("k8s-140063")
    # Looks once whether what it made counts no longer; an earlier look takes the place of that one.
    looks_once: bool = bug("k8s-132683")


class ServedSlices(FeatureTable):
    """The limits of slices, by the release of the API server."""

    counters: bool = since(33)
    counters_apart: bool = since(35)  # sets of counters and devices are in slices of their own
    fewer_advanced_devices: bool = since(35)  # of a slice whose devices have taints or consume counters
    nodes_of_devices: bool = since(33)  # a device may be of other nodes than its slice
