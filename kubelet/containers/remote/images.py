"""The images of a node whose container runtime pulls them.

Source: pkg/kubelet/kuberuntime/kuberuntime_image.go and k8s.io/cri-client/pkg/remote_image.go, 1.36.
"""

from collections.abc import Sequence
from typing import Any

from kubeskew.kubelet.containers.remote.calls import RuntimeCalls
from kubeskew.kubelet.containers.runtime_service import Image, ImageError
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages

_INSPECT_FAILED, _PULL_FAILED = "ImageInspectError", "ErrImagePull"


class RemoteImages:
    """Asks the runtime at each call: others may pull and remove images, too."""

    def __init__(self, calls: RuntimeCalls) -> None:
        self._calls = calls

    async def images(self) -> Sequence[Image]:
        answer = await self._call("ListImages", messages.ListImagesRequest(), _INSPECT_FAILED)
        return [_image(each) for each in answer.images]

    async def image(self, name: str) -> Image | None:
        request = messages.ImageStatusRequest(image=messages.ImageSpec(image=name))
        answer = await self._call("ImageStatus", request, _INSPECT_FAILED)
        return _image(answer.image) if answer.HasField("image") else None

    async def pull_image(self, name: str) -> Image:
        request = messages.PullImageRequest(image=messages.ImageSpec(image=name))
        reference = (await self._call("PullImage", request, _PULL_FAILED)).image_ref
        if not reference:
            raise ImageError(_PULL_FAILED, f'imageRef of image "{name}" is not set')
        found = await self.image(name)
        return found if found is not None else Image(reference, reference, 0, [name])

    async def remove_image(self, name: str) -> None:
        request = messages.RemoveImageRequest(image=messages.ImageSpec(image=name))
        await self._call("RemoveImage", request, _INSPECT_FAILED)

    async def _call(self, verb: str, request: Any, reason: str) -> Any:
        """Raises ImageError with a reason of upstream's."""
        try:
            return await self._calls.call(verb, request)
        except RpcError as error:
            raise ImageError(reason, str(error)) from error


def _image(found: messages.Image) -> Image:
    reference = found.repo_digests[0] if found.repo_digests else found.id
    user = str(found.uid.value) if found.HasField("uid") else found.username
    return Image(found.id, reference, found.size, [*found.repo_tags], user)
