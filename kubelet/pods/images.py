"""The images of a node's containers: present, pulled, or not to be had, with the events of each.

Source: pkg/kubelet/images/image_manager.go and client-go's util/flowcontrol/backoff.go, 1.31 to 1.36.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.go_formats import SECOND, duration_text
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.runtime_service import Image, ImageError, ImageService
from kubeskew.kubelet.features import EventTexts

PULL_FAILED, BACKS_OFF, NEVER_PULL = "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull"
Emit = Callable[[str, str, str], None]  # an event's type, reason and message
_MILLISECOND = SECOND // 1000
_FIRST_SECONDS, _LONGEST_SECONDS = 10.0, 300.0


@dataclass(slots=True)
class _Failure:
    """The last failed pull of an image for a pod."""

    at: datetime
    seconds: float  # that the next one waits
    text: str


class ImageManager:
    """Makes sure that images are there; a pull that failed waits before it is tried again, per pod."""

    def __init__(self, images: ImageService, clock: Clock, texts: EventTexts) -> None:
        self._images = images
        self._clock = clock
        self._texts = texts
        self._failures: dict[tuple[str, str], _Failure] = {}

    async def ensure(self, pod: Object, spec: Object, emit: Emit) -> Image:
        """Finds or pulls the image before an attempt of its container. Raises ImageError."""
        name, policy = spec.get("image") or "", spec.get("imagePullPolicy")
        found = await self._images.image(name)
        if found is not None and policy != "Always":
            emit("Normal", "Pulled", self._texts.pulled.format(image=name))
            return found
        if policy == "Never":
            text = f'Container image "{name}" is not present with pull policy of Never'
            emit("Warning", NEVER_PULL, text)
            raise ImageError(NEVER_PULL, text)
        return await self._pull((pod_spec.uid_of(pod), name), emit)

    async def _pull(self, key: tuple[str, str], emit: Emit) -> Image:
        _, name = key
        known = self._failures.get(key)
        if known is not None and (self._clock.now() - known.at).total_seconds() < known.seconds:
            text = f'Back-off pulling image "{name}"'
            emit("Normal", "BackOff", text)
            raise ImageError(BACKS_OFF, f"{text}: {known.text}" if self._texts.repeats_pull_error else text)
        emit("Normal", "Pulling", f'Pulling image "{name}"')
        begun = self._clock.monotonic()
        try:
            image = await self._images.pull_image(name)
        except ImageError as error:
            emit("Warning", "Failed", f'Failed to pull image "{name}": {error}')
            self._failed(key, f"{error.reason}: {error}")
            raise
        seconds = self._clock.monotonic() - begun if image.seconds is None else image.seconds
        took = duration_text(round(seconds * 1000) * _MILLISECOND)
        emit("Normal", "Pulled", self._texts.fetched.format(image=name, took=took, size=image.size))
        return image

    def _failed(self, key: tuple[str, str], text: str) -> None:
        known, now = self._failures.get(key), self._clock.now()
        seconds = _FIRST_SECONDS
        if known is not None and (now - known.at).total_seconds() <= 2 * _LONGEST_SECONDS:
            seconds = min(known.seconds * 2, _LONGEST_SECONDS)
        self._failures[key] = _Failure(now, seconds, text)

    def forget(self, uid: str) -> None:
        """Called when a pod is gone."""
        for key in [key for key in self._failures if key[0] == uid]:
            del self._failures[key]
