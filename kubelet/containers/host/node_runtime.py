"""Makes the runtime and the images of a node whose containers are processes of this machine."""

import hashlib
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path
from typing import NamedTuple

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apimachinery.process.network_agent import POD_RANGE, NetworkAgent
from kubeskew.kubelet.containers.host.image_service import HostImages
from kubeskew.kubelet.containers.host.images.store import ImageSource, ImageStore
from kubeskew.kubelet.containers.host.runtime import HostRuntime


class NodePlace(NamedTuple):
    """The directories of one node's runtime and of the images of all nodes; the node's address; the socket of
    the network of pods and the range of their addresses, empty if they have none."""

    directory: Path
    images: Path
    address: str
    network: str = ""
    pods: str = ""


def host_runtime(
    node_name: str,
    place: NodePlace,
    sources: Mapping[str, ImageSource],
    clock: Clock,
    entropy: Entropy,
    *,
    plain: bool = False,
) -> tuple[HostRuntime, HostImages]:
    images = HostImages(place.directory / "images.json", ImageStore(place.images), sources)
    network = NetworkAgent(place.network) if place.network and not plain else None
    runtime = HostRuntime(
        place.directory,
        node_name,
        images,
        clock,
        entropy,
        plain=plain,
        networks=network,
        addresses=IPv4Network(place.pods) if place.pods else pod_range(node_name),
        node_address=place.address,
    )
    return runtime, images


def pod_range(node_name: str) -> IPv4Network:
    """A /24 for a node's pods, by its name. Nodes may have the same one: the network refuses an address that
    another pod has."""
    networks = [*POD_RANGE.subnets(new_prefix=24)]
    digest = hashlib.sha256(node_name.encode()).digest()
    return networks[1 + int.from_bytes(digest[:4]) % (len(networks) - 2)]
