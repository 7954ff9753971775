"""The checkpoint up to 1.30: `{"version": "v1", "entries": […], "checksum": …}`.

Its checksum is a hash of Go's dump of the structs. 1.28 to 1.30 read what 1.27 wrote, too; else none of them
reads another's entries: as upstream, the kubelet does not start then (issues 123552, 127653).
"""

from collections.abc import Sequence

import orjson

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.checkpoints.checkpoint_manager import CheckpointError, go_text
from kubeskew.kubelet.dra.claims import ClaimInfo
from kubeskew.kubelet.dra.classic.checksum import EntryForm, checksum
from kubeskew.kubelet.dra.plugin import PreparedDevice

FIRST_FORM = EntryForm(handles=False, structured=False)  # that of 1.27


class ClassicCodec:
    """The format of 1.27 to 1.30, which follows each kubelet's own structs."""

    def __init__(self, form: EntryForm) -> None:
        self._form = form

    def encode(self, infos: Sequence[ClaimInfo]) -> bytes:
        entries = [self._entry(info) for info in infos]
        some = {"entries": entries} if entries else {}  # omitempty
        return orjson.dumps({"version": "v1", **some, "checksum": checksum("v1", entries, self._form)})

    def decode(self, content: bytes) -> list[ClaimInfo]:
        outer = _parsed(content)
        entries = outer.get("entries") or []
        # Go matches keys without regard to case: a newer file has a checksum, but no entries.
        stored = outer.get("checksum", outer.get("Checksum", 0))
        version = outer.get("version", "v1")
        if stored != checksum(version, entries, self._form) and not self._is_old(stored, version, entries):
            raise CheckpointError("checkpoint is corrupted")
        return [_info(entry) for entry in entries]

    def _is_old(self, stored: object, version: str, entries: Sequence[Object]) -> bool:
        """True for a file of 1.27, which later kubelets still read."""
        return self._form.handles and stored == checksum(version, entries, FIRST_FORM)

    def _entry(self, info: ClaimInfo) -> Object:
        handles = {"ResourceHandles": list(info.handles) or None} if self._form.handles else {}
        return {
            "DriverName": info.driver,
            "ClassName": info.class_name,
            "ClaimUID": info.uid,
            "ClaimName": info.name,
            "Namespace": info.namespace,
            "PodUIDs": {uid: {} for uid in sorted(info.pod_uids)},
            **handles,
            "CDIDevices": {
                driver: [cdi_id for device in devices for cdi_id in device.cdi_ids]
                for driver, devices in sorted(info.devices.items())
            },
        }


def _info(entry: Object) -> ClaimInfo:
    driver = entry.get("DriverName") or ""
    handles = tuple(entry.get("ResourceHandles") or ()) or ({"driverName": driver, "data": ""},)
    devices = {
        name: [PreparedDevice("", "", cdi_ids=tuple(ids))] if ids else []
        for name, ids in (entry.get("CDIDevices") or {}).items()
    }
    return ClaimInfo(
        namespace=entry["Namespace"],
        name=entry["ClaimName"],
        uid=entry["ClaimUID"],
        pod_uids=set(entry.get("PodUIDs") or {}),
        devices=devices,
        driver=driver,
        class_name=entry.get("ClassName") or "",
        handles=handles,
    )


def _parsed(content: bytes) -> Object:
    try:
        parsed = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise CheckpointError(go_text(content, error)) from error
    if not isinstance(parsed, dict):
        raise CheckpointError("checkpoint is corrupted")
    return parsed
