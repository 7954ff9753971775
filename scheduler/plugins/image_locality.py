"""ImageLocality: prefer nodes that have the pod's images already, the large ones above all.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/imagelocality, 1.36.
"""

from collections.abc import Iterator, Sequence

from kubeskew.scheduler.framework.interfaces import MAX_NODE_SCORE, CycleState
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status
from kubeskew.scheduler.handle import Handle

NAME = "ImageLocality"

_MB = 1024 * 1024
_MIN_BYTES = 23 * _MB
_MAX_BYTES_PER_CONTAINER = 1000 * _MB


class ImageLocality:
    name = NAME

    def __init__(self, handle: Handle) -> None:
        self._cache = handle.cache

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status:
        """All nodes are alike if none has an image of the pod."""
        images = [normalized(image) for image in _images(pod)]
        if not any(map(self._cache.nodes_with_image, images)):
            return SKIP
        state.write(NAME, images)
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        images: list[str] = state.read(NAME)
        present = node.images
        total = len(self._cache.nodes())
        found = sum(
            int(present[image] * (self._cache.nodes_with_image(image) / total))
            for image in images
            if image in present
        )
        most = _MAX_BYTES_PER_CONTAINER * len(images)
        clamped = min(max(found, _MIN_BYTES), most)
        return MAX_NODE_SCORE * (clamped - _MIN_BYTES) // (most - _MIN_BYTES)


def _images(pod: PodInfo) -> Iterator[str]:
    for kind in ("initContainers", "containers"):
        for container in pod.spec.get(kind) or ():
            yield container.get("image") or ""


def normalized(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
