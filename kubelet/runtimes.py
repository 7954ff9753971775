"""The container runtimes: which one a node's kubelet has, and its images."""

from typing import NamedTuple

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.kubelet.containers.host.images.store import ImageSource
from kubeskew.kubelet.containers.host.node_runtime import NodePlace, host_runtime
from kubeskew.kubelet.containers.remote.runtime import RemotePlace, RemoteRuntime
from kubeskew.kubelet.containers.runtime_service import ContainerRuntimeError, ImageService, RuntimeService
from kubeskew.kubelet.containers.simulated.runtime import SimulatedImages, SimulatedRuntime
from kubeskew.kubelet.files import StateFiles
from kubeskew.kubelet.node.config import CRI, HOST, RUNTIMES, SIMULATED, NodeConfig, NodeLayout
from kubeskew.kubelet.node.object import host_ip
from kubeskew.kubelet.protocols.message_sockets import message_sockets


class NodeRuntime(NamedTuple):
    runtime: RuntimeService
    images: ImageService


def runtime_of(
    config: NodeConfig,
    layout: NodeLayout,
    clock: Clock,
    entropy: Entropy,
    files: StateFiles,
    *,
    follows_events: bool = False,
) -> NodeRuntime:
    """Makes the runtime that a node's configuration names; its state is in the node's directories.

    Raises ContainerRuntimeError if there is none of that name, or if it cannot act images without an entry.
    """
    if config.runtime not in RUNTIMES:
        raise ContainerRuntimeError(f"node {config.name}: there is no container runtime {config.runtime}")
    if config.runtime == SIMULATED:
        simulated = SimulatedRuntime(layout.runtime, config.name, clock, entropy, files, config.images)
        return NodeRuntime(simulated, SimulatedImages(config.images, strict=config.strict_images))
    if config.runtime == CRI:
        if message_sockets() is not None:
            raise ContainerRuntimeError(f"node {config.name}: a simulation has no container runtime by CRI")
        where = RemotePlace(layout.remote, layout.logs, layout.seccomp, host_ip(config.name))
        remote = RemoteRuntime(*(config.endpoint, config.name, where, clock), follows_events=follows_events)
        return NodeRuntime(remote, remote.images)
    if not config.strict_images:
        raise ContainerRuntimeError(
            f"node {config.name}: only the runtime {SIMULATED} acts images without entry"
        )
    place = NodePlace(layout.host, layout.images, host_ip(config.name), config.network, config.pod_cidr)
    sources = {name: ImageSource(entry.path, entry.program) for name, entry in config.images}
    plain = config.runtime != HOST
    return NodeRuntime(*host_runtime(config.name, place, sources, clock, entropy, plain=plain))
