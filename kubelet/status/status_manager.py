"""Writes pod statuses to the API server in the background: the newest wins, one write per pod at a time.

Also ends a pod's life by the DELETE that removes the object once its containers are gone, and its claims with
them: while the kubelet counts the pod among a claim's users, its phase does not become final. What is written
is a strategic merge patch from the server's status to the kubelet's, which names only what changed. So two
writers of one status (kubelet and scheduler, kubelet and a device plugin's administrator) do not undo each
other, and an older kubelet keeps what it does not know.

Source: pkg/kubelet/status/status_manager.go (syncPod, mergePodStatus, canBeDeleted) and
pkg/kubelet/kubelet_pods.go (PodCouldHaveRunningContainers), 1.31 to 1.36.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.client.refs import PODS
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, STRATEGIC_PATCH, APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import TERMINAL_PHASES
from kubeskew.kubelet import pod_spec

# Lists that are merged by a key; other lists are replaced.
MERGE_KEYS = {"conditions": "type", "addresses": "type"}
# Lists with a merge key upstream that the kubelet writes whole.
_REPLACED = frozenset({"hostIPs", "podIPs", "volumesAttached"})
_OPTIONAL = ("reason", "message")
# Conditions that only the kubelet writes, and removes when they no longer apply.
_PASSING = frozenset({"PodResizePending", "PodResizeInProgress"})
# Those that it has of each pod; one that was not admitted has none (pkg/kubelet/types/pod_status.go).
_LASTING = frozenset({"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"})
# What of a status waits with the phase until nothing of the pod is in use.
_OF_PHASE = ("phase", "reason", "message")
_WITH_PHASE = "DisruptionTarget"  # a condition that is written with a final phase
log = logging.getLogger(__name__)


# The last wait repeats. Upstream retries every 10 s, but its servers are away for longer.
_RETRY_SECONDS = (0.1, 0.2, 0.5, 1.0)
SYNC_SECONDS = 10.0  # upstream's syncPeriod


def status_patch(old: Mapping[str, Any], new: Mapping[str, Any], owned: Iterable[str]) -> Object:
    """The `status` part of a patch is empty if nothing of `owned` differs.

    An owned field not in `new` is removed.
    """
    patch: Object = {}
    for name in owned:
        before, after = old.get(name), new.get(name)
        if name in MERGE_KEYS:
            patch |= _merged(name, before or [], after or [])
        elif before != after:
            patch[name] = (
                after if name not in _REPLACED or not before else [{"$patch": "replace"}, *(after or [])]
            )
    return patch


def _merged(name: str, old: Sequence[Object], new: Sequence[Object]) -> Object:
    """Lists changed and added entries, and the order of all. Entries of others stay."""
    key = MERGE_KEYS[name]
    before = {entry[key]: entry for entry in old}
    changed = [entry for entry in new if not _same(before.get(entry[key]), entry)]
    ours = {entry[key] for entry in new}
    removable = _PASSING if new else _PASSING | _LASTING
    over = [kind for kind in before if kind in removable and kind not in ours]
    if not (changed or over):
        return {}
    order = [*new, *(entry for entry in old if entry[key] not in {*ours, *over})]
    return {
        f"$setElementOrder/{name}": [{key: entry[key]} for entry in order],
        name: [
            *(_change(before.get(entry[key]), entry) for entry in changed),
            *({"$patch": "delete", key: kind} for kind in over),
        ],
    }


def _same(before: Object | None, after: Object) -> bool:
    return before is not None and all(
        before.get(name) == value for name, value in _change(before, after).items()
    )


def _change(before: Object | None, after: Object) -> Object:
    """A reason or message that is removed becomes null; fields of newer versions stay."""
    gone = [name for name in _OPTIONAL if (before or {}).get(name) and not after.get(name)]
    return {**dict.fromkeys(gone), **after}


@dataclass(slots=True)
class _Entry:
    """The stored and the desired status of one pod."""

    pod: Object  # as the server last returned it
    wanted: Object | None = None
    sent: Object | None = None
    compared: Object | None = None  # the pod whose stored status was last compared with what was sent
    finished: bool = False  # delete the object when the status is written
    held: bool = False  # the server's phase stays until the pod's claims are given back
    task: asyncio.Task[None] | None = None


class StatusWriter:
    """Writes the fields `owned`; `in_use` is asked with a pod's UID if the pod still uses claims here."""

    def __init__(
        self, client: APIClient, clock: Clock, owned: Sequence[str], in_use: Callable[[str], bool]
    ) -> None:
        self._client = client
        self._owned = owned
        self._clock = clock
        self._in_use = in_use
        self._entries: dict[str, _Entry] = {}

    async def run(self) -> None:
        """Writes again, every 10 s, what others have changed of the kubelet's parts (needsReconcile), and
        phases that waited."""
        while True:
            await self._clock.sleep(SYNC_SECONDS)
            for entry in self._entries.values():
                if entry.held or self._differs(entry):
                    log.debug("status of %s is not the one at the server", pod_spec.full_name(entry.pod))
                    entry.sent = None
                    self._wake(entry)

    def _differs(self, entry: _Entry) -> bool:
        """Decides whether the server holds another status than the one sent; each pod is compared once."""
        writes = entry.task is not None and not entry.task.done()
        if entry.sent is None or writes or entry.pod is entry.compared:
            return False
        entry.compared = entry.pod
        return bool(status_patch(entry.pod.get("status") or {}, entry.sent, self._owned))

    def observe(self, pod: Object) -> None:
        """Called with the pod as the server has it now."""
        entry = self._entries.get(pod_spec.uid_of(pod))
        if entry is not None:
            entry.pod = pod

    def put(self, pod: Object, status: Object) -> None:
        """Has the pod's status written, unless it was written last."""
        entry = self._entry(pod)
        entry.wanted = status
        if status != entry.sent:
            self._wake(entry)

    def finish(self, pod: Object) -> None:
        """Deletes the pod's object once its newest status is written."""
        entry = self._entry(pod)
        entry.finished = True
        self._wake(entry)

    def forget(self, uid: str) -> None:
        entry = self._entries.pop(uid, None)
        if entry is not None and entry.task is not None and entry.task is not asyncio.current_task():
            entry.task.cancel()

    def current(self, pod: Object) -> Object:
        """The status is as it is at the server, or will be."""
        entry = self._entries.get(pod_spec.uid_of(pod))
        written = entry.wanted if entry is not None else None
        return {**(pod.get("status") or {}), **(written or {})}

    async def close(self) -> None:
        """Stops writing; the next kubelet writes the rest."""
        tasks = [entry.task for entry in self._entries.values() if entry.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _entry(self, pod: Object) -> _Entry:
        return self._entries.setdefault(pod_spec.uid_of(pod), _Entry(pod))

    def _wake(self, entry: _Entry) -> None:
        if entry.task is None or entry.task.done():
            name = f"status of {pod_spec.full_name(entry.pod)}"
            entry.task = asyncio.create_task(self._write(entry), name=name)

    async def _write(self, entry: _Entry) -> None:
        tries = 0
        while self._open(entry):
            try:
                if entry.wanted is not None and entry.wanted != entry.sent:
                    await self._patch(entry, entry.wanted)
                else:
                    await self._delete(entry)
                    entry.finished = False
            except CONNECTION_ERRORS as error:
                log.debug("status of %s not written yet: %s", pod_spec.full_name(entry.pod), error)
            except StatusError as error:
                if error.code == 404 or _other_uid(error):
                    return  # the object is gone, or another pod has its name
                log.warning("status of %s: %s", pod_spec.full_name(entry.pod), error)
            else:
                tries = 0
                continue
            await self._clock.sleep(_RETRY_SECONDS[min(tries, len(_RETRY_SECONDS) - 1)])
            tries += 1

    @staticmethod
    def _open(entry: _Entry) -> bool:
        deletes = entry.finished and not entry.held
        return deletes or (entry.wanted is not None and entry.wanted != entry.sent)

    async def _patch(self, entry: _Entry, wanted: Object) -> None:
        stored = entry.pod.get("status") or {}
        entry.held = _ends(stored, wanted) and self._in_use(pod_spec.uid_of(entry.pod))
        changes = status_patch(stored, _held_back(stored, wanted) if entry.held else wanted, self._owned)
        if changes:
            metadata = entry.pod["metadata"]
            body = {"metadata": {"uid": metadata["uid"]}, "status": changes}
            entry.pod = await self._client.patch(
                PODS, metadata["name"], metadata["namespace"], body, STRATEGIC_PATCH, subresource="status"
            )
        entry.sent = wanted

    async def _delete(self, entry: _Entry) -> None:
        metadata = entry.pod["metadata"]
        await self._client.delete(
            PODS,
            metadata["name"],
            metadata["namespace"],
            grace_period=0,
            preconditions={"uid": metadata["uid"]},
        )


def _ends(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return wanted.get("phase") in TERMINAL_PHASES and stored.get("phase") not in TERMINAL_PHASES


def _held_back(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> Object:
    """Has all of the wanted status but a final phase, its reason and its message, and what goes with it."""
    status = {name: value for name, value in wanted.items() if name not in _OF_PHASE}
    status |= {name: stored[name] for name in _OF_PHASE if name in stored}
    if "conditions" in wanted:
        status["conditions"] = [each for each in wanted["conditions"] if each["type"] != _WITH_PHASE]
    return status


def _other_uid(error: StatusError) -> bool:
    return error.code in {409, 422} and "uid" in error.message.lower()
