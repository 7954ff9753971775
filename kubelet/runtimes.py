"""The container runtimes: which one a node's kubelet has, and its images."""

from pathlib import Path
from typing import NamedTuple

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.kubelet.containers.runtime_service import (
    ContainerRuntimeError,
    ImageService,
    RuntimeService,
)
from kubeskew.kubelet.containers.simulated.runtime import SimulatedImages, SimulatedRuntime
from kubeskew.kubelet.files import StateFiles
from kubeskew.kubelet.node.config import SIMULATED, NodeConfig


class NodeRuntime(NamedTuple):
    runtime: RuntimeService
    images: ImageService


def runtime_of(
    config: NodeConfig, directory: Path, clock: Clock, entropy: Entropy, files: StateFiles
) -> NodeRuntime:
    """Makes the runtime that a node's configuration names; its state is in `directory`.

    Raises ContainerRuntimeError if there is none of that name.
    """
    if config.runtime != SIMULATED:
        raise ContainerRuntimeError(f"node {config.name}: there is no container runtime {config.runtime}")
    runtime = SimulatedRuntime(directory, config.name, clock, entropy, files, config.images)
    return NodeRuntime(runtime, SimulatedImages(config.images, strict=config.strict_images))
