"""The file `dra_manager_state`: claims in use, kept over restarts of the kubelet. Its format depends on the
release.

From 1.31 on it is `{"Data": "<JSON>", "Checksum": <CRC-32 of Data>}` (pkg/kubelet/cm/dra/state). 1.31 cannot
read what a release before it wrote: as upstream, the kubelet does not start then (issue 127653).
"""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import orjson

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.checkpoints.checkpoint_manager import (
    CORRUPTED,
    CheckpointError,
    parsed,
    sum_of,
    text_of,
)
from kubeskew.kubelet.dra.claims import ClaimInfo
from kubeskew.kubelet.dra.plugin import PreparedDevice
from kubeskew.kubelet.files import UNJOURNALLED, StateFiles

FILE_NAME = "dra_manager_state"
_TYPE = {"kind": "DRACheckpoint", "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1"}


class EntriesError(CheckpointError):
    """The checkpoint's sum is right, and its claims cannot be read."""


class Codec(Protocol):
    """One format of the file."""

    def encode(self, infos: Sequence[ClaimInfo]) -> bytes: ...

    def decode(self, content: bytes) -> list[ClaimInfo]:
        """Raises CheckpointError."""
        ...


class ModernCodec:
    """The format of 1.31 and later; data unknown to a release is lost when it rewrites the file."""

    def __init__(self, *, share_ids: bool, skips: bool) -> None:
        self._share_ids = share_ids
        self._skips = skips

    def encode(self, infos: Sequence[ClaimInfo]) -> bytes:
        data = _data([_entry(info, share_ids=self._share_ids) for info in infos])
        return orjson.dumps({"Data": data.decode(), "Checksum": zlib.crc32(data)})

    def decode(self, content: bytes) -> list[ClaimInfo]:
        # The struct that Go reads into is an empty checkpoint: a file without data has its data and sum.
        outer = parsed(content, "state.Checkpoint")
        nothing = _data([])
        data = text_of(outer, "Data", "Checkpoint", nothing.decode())
        if zlib.crc32(data.encode()) != sum_of(
            outer, "Checksum", "Checkpoint", zlib.crc32(nothing), "uint32"
        ):
            raise CheckpointError(CORRUPTED)
        try:
            entries = parsed(data.encode(), "state.CheckpointData").get("claiminfostatelist") or []
        except CheckpointError as error:
            raise EntriesError(str(error)) from error
        return [_info(entry, share_ids=self._share_ids, skips=self._skips) for entry in entries]


def _data(entries: Sequence[Object]) -> bytes:
    return orjson.dumps({**_TYPE, "ClaimInfoStateList": entries})


class CheckpointFile:
    def __init__(
        self,
        directory: Path,
        codec: Codec | None,
        files: StateFiles = UNJOURNALLED,
        refusal: str = "{error}",
        refusal_of_entries: str = "{error}",
    ) -> None:
        """Without a codec nothing is kept, and what another release left is not looked at.

        `refusal` is the text of a kubelet that does not start because of an `{error}`.
        """
        self._path = directory / FILE_NAME
        self._codec = codec
        self._files = files
        self._refusal = refusal
        self._refusal_of_entries = refusal_of_entries

    def load(self) -> list[ClaimInfo]:
        """Loads what the last kubelet stored; writes an empty file if there is none.

        Raises CheckpointError.
        """
        if self._codec is None:
            return []
        content = self._files.read(self._path)
        if content is None:
            self.store([])
            return []
        try:
            return self._codec.decode(content)
        except EntriesError as error:
            raise CheckpointError(self._refusal_of_entries.format(error=error)) from error
        except CheckpointError as error:
            raise CheckpointError(self._refusal.format(error=error)) from error
        except (AttributeError, KeyError, TypeError) as error:
            shape = f"checkpoint has another shape: {error!r}"
            raise CheckpointError(self._refusal_of_entries.format(error=shape)) from error

    def store(self, infos: Sequence[ClaimInfo]) -> None:
        if self._codec is not None:
            self._files.write(self._path, self._codec.encode(infos), synced=True)


def _entry(info: ClaimInfo, *, share_ids: bool) -> Object:
    return {
        "ClaimUID": info.uid,
        "ClaimName": info.name,
        "Namespace": info.namespace,
        "PodUIDs": {uid: {} for uid in sorted(info.pod_uids)},
        "DriverState": {
            driver: {
                "Devices": [_device(device, share_ids=share_ids) for device in devices] or None,
                **_skips(info, driver),
            }
            for driver, devices in sorted(info.devices.items())
        },
    }


def _skips(info: ClaimInfo, driver: str) -> Object:
    """Known since 1.37; older kubelets ignore the skipped calls, and lose them with the next write. The key
    is a guess about 1.37."""
    skips = info.skips.get(driver)
    return {"SkipNodeOperations": sorted(skips)} if skips else {}


def _device(device: PreparedDevice, *, share_ids: bool) -> Object:
    share = {"ShareID": device.share_id or None} if share_ids else {}
    return {
        "PoolName": device.pool,
        "DeviceName": device.device,
        **share,
        "RequestNames": list(device.requests) or None,
        "CDIDeviceIDs": list(device.cdi_ids) or None,
    }


def _info(entry: Object, *, share_ids: bool, skips: bool) -> ClaimInfo:
    devices = {
        driver: [_prepared(device, share_ids=share_ids) for device in state.get("Devices") or []]
        for driver, state in (entry.get("DriverState") or {}).items()
    }
    return ClaimInfo(
        namespace=entry["Namespace"],
        name=entry["ClaimName"],
        uid=entry["ClaimUID"],
        pod_uids=set(entry.get("PodUIDs") or {}),
        devices=devices,
        skips=_known_skips(entry) if skips else {},
    )


def _known_skips(entry: Object) -> dict[str, frozenset[str]]:
    states = (entry.get("DriverState") or {}).items()
    return {
        driver: frozenset(state["SkipNodeOperations"])
        for driver, state in states
        if state.get("SkipNodeOperations")
    }


def _prepared(device: Object, *, share_ids: bool) -> PreparedDevice:
    return PreparedDevice(
        pool=device["PoolName"],
        device=device["DeviceName"],
        requests=tuple(device.get("RequestNames") or ()),
        cdi_ids=tuple(device.get("CDIDeviceIDs") or ()),
        share_id=(device.get("ShareID") or "") if share_ids else "",
    )
