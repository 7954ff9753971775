"""Sets up the volumes of one pod, tries again after failures, and keeps them up to date while it runs.

Source: pkg/kubelet/volumemanager, pkg/kubelet/eviction/eviction_manager.go, 1.36.
"""

from datetime import datetime, timedelta

from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.volumes.files import go_error
from kubeskew.kubelet.volumes.manager import VolumeSetUpError
from kubeskew.kubelet.volumes.pod_volumes import PodVolumes

RETRY_SECONDS = 2.0  # upstream's waits begin at 0.5 s and double


class VolumeSync:
    def __init__(self, volumes: PodVolumes, recorder: EventRecorder) -> None:
        self._volumes = volumes
        self._recorder = recorder
        self._was_set_up = False
        self.next: datetime | None = None  # when the volumes should be looked at again
        self.excess = ""  # the message of the pod's eviction if a volume is too large

    def pod_changed(self) -> None:
        """The files may show something of the pod."""
        if self.next is not None:
            self.next = datetime.min.replace(tzinfo=self.next.tzinfo)

    async def sync(self, pod: Object, now: datetime) -> bool:
        """Decides whether containers may start. A volume that has been set up stays, whatever fails later."""
        if self._was_set_up and (self.next is None or now < self.next):
            return True
        try:
            await self._volumes.set_up(pod)
        except VolumeSetUpError as error:
            for message in error.messages:
                self._recorder.event(pod, "Warning", "FailedMount", message)
            if not (self._was_set_up and self._volumes.is_up(pod)):
                self.next = now + timedelta(seconds=RETRY_SECONDS)
                return False
        except OSError as error:  # of the pod's directory, before any volume
            path = error.filename if error.filename is not None else ""
            text = f"error making pod data directories: {go_error('mkdir', path, error)}"
            self._recorder.event(pod, "Warning", "FailedToMakePodDataDirectories", text)
            self.next = now + timedelta(seconds=RETRY_SECONDS)
            return self._was_set_up
        self._was_set_up = True
        self.excess = await self._volumes.excess(pod)
        seconds = self._volumes.next_sync(pod)
        self.next = None if seconds is None else now + timedelta(seconds=seconds)
        return True
