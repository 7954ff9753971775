"""The page by which the cluster sees a node's containers, whichever kubelet has started them."""

from collections.abc import Sequence
from datetime import datetime

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.containers.acting import PREFIX
from kubeskew.kubelet.containers.sandbox import Sandbox


def container_page(sandboxes: Sequence[Sandbox], now: datetime) -> list[Object]:
    """An entry for each container; of its annotations only those that its devices brought."""
    return [
        {
            "namespace": sandbox.namespace,
            "pod": sandbox.name,
            "uid": sandbox.pod_uid,
            "container": container.name,
            "id": container.container_id,
            "restartCount": container.attempt,
            "running": container.running(now),
            "startedAt": timestamp(container.started_at),
            "env": container.env,
            "cdiDevices": container.cdi_devices,
            "devices": container.device_nodes,
            "mounts": container.host_mounts,
            "annotations": {
                name: value
                for name, value in container.annotations.items()
                if not name.startswith((PREFIX, "io.kubernetes."))
            },
        }
        for sandbox in sandboxes
        for container in sandbox.containers
    ]
