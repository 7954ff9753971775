"""The images of a node's containers: present, or pulled, with the events of both.

Source: pkg/kubelet/images/image_manager.go, 1.36.
"""

from collections.abc import Callable

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.go_formats import SECOND, duration_text
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.containers.runtime_service import Image, ImageService
from kubeskew.kubelet.features import EventTexts

Emit = Callable[[str, str, str], None]  # an event's type, reason and message
_MILLISECOND = SECOND // 1000


class ImageManager:
    """Makes sure that images are there."""

    def __init__(self, images: ImageService, clock: Clock, texts: EventTexts) -> None:
        self._images = images
        self._clock = clock
        self._texts = texts

    async def ensure(self, spec: Object, emit: Emit) -> Image:
        """Finds or pulls the image before an attempt of its container. Raises ImageError."""
        name = spec.get("image") or ""
        found = self._images.image(name)
        if found is not None and spec.get("imagePullPolicy") != "Always":
            emit("Normal", "Pulled", self._texts.pulled.format(image=name))
            return found
        emit("Normal", "Pulling", f'Pulling image "{name}"')
        begun = self._clock.monotonic()
        image = await self._images.pull_image(name)
        seconds = self._clock.monotonic() - begun if image.seconds is None else image.seconds
        took = duration_text(round(seconds * 1000) * _MILLISECOND)
        emit("Normal", "Pulled", self._texts.fetched.format(image=name, took=took, size=image.size))
        return image
