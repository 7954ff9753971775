"""Says which of its checkpoints a kubelet could not read if another one had written them.

The formats are those that fake kubelets use. A checkpoint is written as the earlier kubelet would, with what
the node's pods give it, and read as the later one would. Left out is the device manager's, whose format is
the same in all releases, and which no kubelet insists on.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.allocation.state import file_names, resources_of
from kubeskew.kubelet.checkpoints import cpu_manager_state, memory_manager_state, pod_allocations
from kubeskew.kubelet.checkpoints.cpu_manager_state import CPUManagerState
from kubeskew.kubelet.checkpoints.memory_manager_state import MemoryManagerState
from kubeskew.kubelet.checkpoints.pod_allocations import PodsState
from kubeskew.kubelet.checkpoints.reading import CheckpointError
from kubeskew.kubelet.dra import checkpoint
from kubeskew.kubelet.dra.claims import ClaimInfo
from kubeskew.kubelet.dra.features import codec_for
from kubeskew.kubelet.dra.plugin import PreparedDevice
from kubeskew.kubelet.features import KubeletFeatures, features_of
from kubeskew.kubelet.resourcemanagers import cpu, memory

Refusal = tuple[str, str]  # the name of a file, and why it cannot be read


def refused(pods: Sequence[Object], before: FeatureGates, after: FeatureGates) -> Iterator[Refusal]:
    """Yields the files of a node with these pods that its next kubelet cannot read, in a defined order."""
    written, reads = (features_of(gates.version, gates) for gates in (before, after))
    for file, why in chain(
        _claims(pods, written, reads),
        _cpus(written, reads),
        _memory(written, reads),
        _given(pods, written, reads),
    ):
        if why:
            yield file, why


def _claims(pods: Sequence[Object], before: KubeletFeatures, after: KubeletFeatures) -> Iterator[Refusal]:
    if not (before.dynamic_resources and after.dynamic_resources):
        return
    infos = [
        ClaimInfo(
            pod_spec.namespace_of(pod),
            pod_spec.name_of(pod),
            pod_spec.uid_of(pod),
            {pod_spec.uid_of(pod)},
            {"driver": [PreparedDevice("pool", "device", ("request",), ("vendor/class=device",))]},
            driver="driver",
            class_name="class",
            handles=({"driverName": "driver", "data": "{}"},),
        )
        for pod in pods
        if _has_claims(pod)
    ]
    written, reads = codec_for(before.version), codec_for(after.version)
    if not isinstance(written, checkpoint.NoCodec):
        yield checkpoint.FILE_NAME, _why(partial(reads.decode, written.encode(infos)))


def _has_claims(pod: Object) -> bool:
    status = pod.get("status") or {}
    return bool(pod["spec"].get("resourceClaims") or status.get("extendedResourceClaimStatus"))


def _cpus(before: KubeletFeatures, after: KubeletFeatures) -> Iterator[Refusal]:
    """A format is the same whatever the file holds."""
    content = cpu_manager_state.encode(CPUManagerState("none"), before.cpu_state)
    yield cpu.FILE_NAME, _why(partial(cpu_manager_state.decode, content, after.cpu_state))


def _memory(before: KubeletFeatures, after: KubeletFeatures) -> Iterator[Refusal]:
    written, reads = before.memory_state, after.memory_state
    if written is not None and reads is not None:
        content = memory_manager_state.encode(MemoryManagerState("None"), written)
        yield memory.FILE_NAME, _why(partial(memory_manager_state.decode, content, reads))


def _given(pods: Sequence[Object], before: KubeletFeatures, after: KubeletFeatures) -> Iterator[Refusal]:
    """Of files in another place the next kubelet knows nothing."""
    written, reads = before.allocation_form, after.allocation_form
    if written is None or reads is None:
        return
    given = PodsState({pod_spec.uid_of(pod): resources_of(pod, written) for pod in pods})
    for file in file_names(written):
        if file in file_names(reads):
            content = pod_allocations.encode(given, written)
            yield file, _why(partial(pod_allocations.decode, content, reads))


def _why(decode: Callable[[], object]) -> str:
    """Returns why a kubelet cannot decode a file; empty if it can."""
    try:
        decode()
    except (
        CheckpointError,
        AttributeError,
        TypeError,
        ValueError,
    ) as error:  # as the managers' loading has it
        return str(error)
    return ""
