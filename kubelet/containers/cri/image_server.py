"""CRI's ImageService over the images of a node.

Source: k8s.io/cri-api/pkg/apis/runtime/v1/api.proto, 1.36.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc

from kubeskew.apimachinery.clock import Clock
from kubeskew.kubelet.containers.cri.conversion import image_message, nanoseconds
from kubeskew.kubelet.containers.runtime_faults import RuntimeFaults
from kubeskew.kubelet.containers.runtime_service import ImageError, ImageService
from kubeskew.kubelet.protocols import cri
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.message_sockets import Server
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages

_CLIENTS_WORDS, _DESCRIPTION = "rpc error: code = ", " desc = "
_CODES = {"NotFound": grpc.StatusCode.NOT_FOUND}


class ImageServer:
    """The service of one node; `mountpoint` is the directory of the file system that has the images."""

    def __init__(self, images: ImageService, clock: Clock, mountpoint: str) -> None:
        self._images = images
        self._clock = clock
        self._mountpoint = mountpoint

    def serve(self, server: Server, faults: RuntimeFaults | None = None) -> None:
        """Adds the service's methods to a gRPC server; pulls meet the faults first."""
        methods: Mapping[str, Callable[[Any], Any]] = {
            "ListImages": self.list_images,
            "ImageStatus": self.image_status,
            "PullImage": self.pull_image,
            "RemoveImage": self.remove_image,
            "ImageFsInfo": self.image_fs_info,
        }
        if faults is not None:
            methods = {verb: _faulty(faults, verb, handle) for verb, handle in methods.items()}
        for verb, method in cri.IMAGE_METHODS.items():
            method.serve(server, methods[verb])

    async def list_images(self, request: messages.ListImagesRequest) -> messages.ListImagesResponse:
        name = request.filter.image.image
        if not name:
            return messages.ListImagesResponse(images=map(image_message, await self._images.images()))
        found = await self._images.image(name)
        return messages.ListImagesResponse(images=[image_message(found)] if found is not None else [])

    async def image_status(self, request: messages.ImageStatusRequest) -> messages.ImageStatusResponse:
        """Has no image in its answer if the node does not have it."""
        found = await self._images.image(request.image.image)
        return messages.ImageStatusResponse(image=image_message(found) if found is not None else None)

    async def pull_image(self, request: messages.PullImageRequest) -> messages.PullImageResponse:
        name = request.image.image
        try:
            image = await self._images.pull_image(name)
        except ImageError as error:
            raise _refusal(str(error)) from error
        return messages.PullImageResponse(image_ref=image.id)

    async def remove_image(self, request: messages.RemoveImageRequest) -> messages.RemoveImageResponse:
        await self._images.remove_image(request.image.image)
        return messages.RemoveImageResponse()

    async def image_fs_info(self, _request: messages.ImageFsInfoRequest) -> messages.ImageFsInfoResponse:
        images = await self._images.images()
        usage = messages.FilesystemUsage(
            timestamp=nanoseconds(self._clock.now()),
            fs_id=messages.FilesystemIdentifier(mountpoint=self._mountpoint),
            used_bytes=messages.UInt64Value(value=sum(image.size for image in images)),
            inodes_used=messages.UInt64Value(value=len(images)),
        )
        return messages.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage])


def _faulty(
    faults: RuntimeFaults, verb: str, handle: Callable[[Any], Awaitable[Any]]
) -> Callable[[Any], Awaitable[Any]]:
    async def answered(request: Any) -> Any:
        name = request.image.image if verb == "PullImage" else ""
        return await faults.call(verb, lambda: handle(request), name=name)

    return answered


def _refusal(text: str) -> RpcError:
    """The error whose text is a client's `rpc error: code = NotFound desc = …`, or else of no known code."""
    code, found, description = text.removeprefix(_CLIENTS_WORDS).partition(_DESCRIPTION)
    if not text.startswith(_CLIENTS_WORDS) or not found:
        return RpcError(grpc.StatusCode.UNKNOWN, text)
    return RpcError(_CODES.get(code, grpc.StatusCode.UNKNOWN), description)
