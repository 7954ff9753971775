"""All that one node's kubelet has for volumes, made of what it depends on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.kubelet.features import VolumeFeatures
from kubeskew.kubelet.volumes.files import VolumeFiles
from kubeskew.kubelet.volumes.layout import KUBELET_ROOT, NodeRoot, PodDirectories
from kubeskew.kubelet.volumes.manager import Node, VolumeManager
from kubeskew.kubelet.volumes.memory import MemoryDirectories
from kubeskew.kubelet.volumes.mounts import ContainerMounts
from kubeskew.kubelet.volumes.objects import PodObjects
from kubeskew.kubelet.volumes.orphans import OrphanCleaner
from kubeskew.kubelet.volumes.pod_certificates import IssuingManager
from kubeskew.kubelet.volumes.sources import VolumeSources
from kubeskew.kubelet.volumes.tokens import TokenManager
from kubeskew.kubelet.volumes.trust_bundles import TrustBundles


@dataclass(frozen=True, slots=True)
class NodeVolumes:
    root: NodeRoot
    directories: PodDirectories
    files: VolumeFiles
    sources: VolumeSources
    manager: VolumeManager
    mounts: ContainerMounts
    orphans: OrphanCleaner
    memory: MemoryDirectories

    @classmethod
    def of(
        cls,
        node_name: str,
        directory: Path,
        elsewhere: Mapping[str, Path],
        labels: Callable[[], Mapping[str, str]],
        client: APIClient,
        clock: Clock,
        entropy: Entropy,
        features: VolumeFeatures,
        recorder: EventRecorder,
        *,
        files: VolumeFiles | None = None,
        supports_recursive_read_only: bool = False,
    ) -> Self:
        """`directory` is for the node's own root directory; `elsewhere` maps paths of the node, that of the
        kubelet among them, to directories of this machine."""
        files = files or VolumeFiles()
        root = NodeRoot(directory, elsewhere)
        directories = PodDirectories(elsewhere[KUBELET_ROOT])
        objects = PodObjects(client)
        certificates = IssuingManager(
            client,
            clock,
            entropy,
            node_name,
            lambda pod, reason, text: recorder.event(pod, "Warning", reason, text),
            version=features.pod_certificate_version,
            as_stubs=features.pod_certificate_stubs,
        )
        sources = VolumeSources(
            objects,
            TokenManager(client, clock, entropy),
            TrustBundles(client, entropy, features.trust_bundle_version),
            certificates,
        )
        memory = MemoryDirectories(directories.root, files)
        node = Node(node_name, root, directories, labels)
        return cls(
            root,
            directories,
            files,
            sources,
            VolumeManager(node, objects, sources, clock, entropy, features, files, memory),
            ContainerMounts(
                *(root, directories, files, entropy, features),
                supports_recursive_read_only=supports_recursive_read_only,
            ),
            OrphanCleaner(directories, files, memory, names_subpaths_alike=features.orphaned_subpaths_alike),
            memory,
        )
