"""Keeps a mirror pod at the API server for each static pod of the node (pkg/kubelet/pod/mirror_client.go,
pkg/kubelet/config/common.go).

Upstream's kubelet runs a static pod whether or not there is a server, and the mirror only shows it. Here the
mirror is what is run, as any pod of the node; so its containers end with it, and start with the next one.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import PODS
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import Clock, timestamp
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec

log = logging.getLogger(__name__)

HASH, MIRROR = "kubernetes.io/config.hash", "kubernetes.io/config.mirror"
SEEN, SOURCE = "kubernetes.io/config.seen", "kubernetes.io/config.source"
_RETRY_SECONDS = 1.0
# Static pods stay on a node in trouble (config/common.go).
_TOLERATION = {"operator": "Exists", "effect": "NoExecute"}


def mirror_of(manifest: Mapping[str, Any], node_name: str, node_uid: str, seen: str) -> Object:
    """Returns the mirror pod of a static pod's manifest.

    Its hash has upstream's form, 32 hexadecimal digits, of other bytes.
    """
    metadata, spec = manifest["metadata"], manifest["spec"]
    text = json.dumps([manifest, node_name], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    annotations = {HASH: digest, MIRROR: digest, SEEN: seen, SOURCE: "file"}
    owner = {"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node_uid, "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "name": f"{metadata['name']}-{node_name}".lower(),
            "namespace": metadata.get("namespace") or "default",
            "annotations": {**(metadata.get("annotations") or {}), **annotations},
            "ownerReferences": [owner],
        },
        "spec": {
            **spec,
            "nodeName": node_name,
            "tolerations": [*(spec.get("tolerations") or []), dict(_TOLERATION)],
        },
    }


class StaticPods:
    """The static pods of one node. `run` it once the node is registered."""

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        node_name: str,
        pods: Informer,
        manifests: Sequence[Mapping[str, Any]],
    ) -> None:
        """`pods` are those of the node, which somebody else starts to follow."""
        self._client = client
        self._clock = clock
        self._node_name = node_name
        self._pods = pods
        self._manifests = manifests
        self._changed = asyncio.Event()
        self._changed.set()
        pods.add_handler(self._seen, lambda _old, new: self._seen(new), self._seen)

    def replace(self, manifests: Sequence[Mapping[str, Any]]) -> None:
        """Takes other manifests in the place of those there were."""
        self._manifests = manifests
        self._changed.set()

    def _seen(self, pod: Object) -> None:
        if MIRROR in (pod["metadata"].get("annotations") or {}):
            self._changed.set()

    async def run(self, node_uid: str) -> None:
        """Makes the mirrors what the manifests say, whenever either changes; does not end."""
        seen = timestamp(self._clock.now())
        while True:
            await self._changed.wait()
            self._changed.clear()
            wanted = [mirror_of(each, self._node_name, node_uid, seen) for each in self._manifests]
            try:
                await self._reconcile({_key(pod): pod for pod in wanted})
            except (StatusError, *CONNECTION_ERRORS) as error:
                log.warning("mirror pods of node %s: %s", self._node_name, error)
                await self._clock.sleep(_RETRY_SECONDS)
                self._changed.set()

    async def _reconcile(self, wanted: dict[tuple[str, str], Object]) -> None:
        there = {_key(pod): pod for pod in self._pods.list()}
        for key, pod in there.items():
            mirrored = (pod["metadata"].get("annotations") or {}).get(MIRROR)
            if mirrored is None or pod_spec.is_deleted(pod):
                continue  # what is deleted tells its end
            if key not in wanted or wanted[key]["metadata"]["annotations"][MIRROR] != mirrored:
                await self._delete(pod)
        for key, pod in wanted.items():
            if key not in there:
                await self._create(pod)

    async def _create(self, pod: Object) -> None:
        try:
            await self._client.create(PODS, pod, pod["metadata"]["namespace"])
        except StatusError as error:
            if error.reason != "AlreadyExists":  # its event is on the way
                raise

    async def _delete(self, pod: Object) -> None:
        metadata = pod["metadata"]
        try:
            await self._client.delete(
                *(PODS, metadata["name"], metadata["namespace"]),
                grace_period=0,
                preconditions={"uid": metadata["uid"]},
            )
        except StatusError as error:
            if error.code not in (404, 409):  # it is gone, or another has its name
                raise


def _key(pod: Object) -> tuple[str, str]:
    return pod_spec.namespace_of(pod), pod_spec.name_of(pod)
