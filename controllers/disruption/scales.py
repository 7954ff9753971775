"""Finds the number of pods that the owners of some pods want.

Behaviour of the finders of k8s.io/kubernetes/pkg/controller/disruption, 1.36: the built-in kinds, and others
with a scale subresource.
"""

from collections.abc import Sequence

from kubeskew.apimachinery.claim_users import controller_of
from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import (
    DEPLOYMENTS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Ref,
)
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework import owner_references
from kubeskew.controllers.framework.base import ControllerContext, SyncError
from kubeskew.controllers.framework.discovery import served_resources

_WITHOUT_SCALE = {("batch", "Job"): "jobs.batch", ("apps", "DaemonSet"): "daemonsets.apps"}


class Scales:
    """Looks up owners in informers, and the scales of other kinds live."""

    def __init__(self, context: ControllerContext) -> None:
        self._client: APIClient = context.client
        self._informers: dict[tuple[str, str], Informer] = {
            (ref.group, ref.kind): context.informer(ref)
            for ref in (REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS)
        }
        self._deployments = context.informer(DEPLOYMENTS)
        self._refs: dict[tuple[str, str], Ref] = {}

    async def expected(self, found: Sequence[Object]) -> int:
        """Returns the sum over all owners of the pods; pods without one do not count. Raises SyncError."""
        counts: dict[str, int] = {}
        for pod in found:
            reference = controller_of(pod)
            if reference is None or reference["uid"] in counts:
                continue
            uid, count = await self._scale(reference, pod)
            counts[reference["uid"]] = 0
            counts[uid] = count
        return sum(counts.values())

    async def _scale(self, reference: Object, pod: Object) -> tuple[str, int]:
        """Returns the owner that decides, and its number of replicas."""
        namespace = pod["metadata"]["namespace"]
        group = reference["apiVersion"].rpartition("/")[0]
        informer = self._informers.get((group, reference["kind"]))
        if informer is None:
            return await self._other(reference, group, pod)
        owner = informer.get(namespace, reference["name"])
        if owner is None or owner["metadata"]["uid"] != reference["uid"]:
            raise _no_controllers(pod)
        deployment = owner_references.resolve_controller(owner, DEPLOYMENTS, self._deployments.get)
        deciding = owner if deployment is None else deployment
        replicas = deciding["spec"].get("replicas")
        return deciding["metadata"]["uid"], 1 if replicas is None else int(replicas)

    async def _other(self, reference: Object, group: str, pod: Object) -> tuple[str, int]:
        if (group, reference["kind"]) in _WITHOUT_SCALE:
            resource = _WITHOUT_SCALE[group, reference["kind"]]
            raise SyncError(f"{resource} does not implement the scale subresource")
        ref = await self._ref(group, reference)
        try:
            scale = await self._client.get(
                ref, reference["name"], pod["metadata"]["namespace"], subresource="scale"
            )
        except StatusError as error:
            if error.code != 404:
                raise
            if await self._has_scale(ref):
                raise _no_controllers(pod) from error
            resource = f"{ref.plural}.{ref.group}" if ref.group else ref.plural
            raise SyncError(f"{resource} does not implement the scale subresource") from error
        if scale["metadata"].get("uid") != reference["uid"]:
            raise _no_controllers(pod)
        return reference["uid"], int((scale.get("spec") or {}).get("replicas") or 0)

    async def _has_scale(self, ref: Ref) -> bool:
        """Returns whether objects of the kind have a scale, so that it was the object that is missing."""
        listed = await self._client.request("GET", f"{'/apis' if ref.group else '/api'}/{ref.api_version}")
        return any(resource["name"] == f"{ref.plural}/scale" for resource in listed.get("resources") or ())

    async def _ref(self, group: str, reference: Object) -> Ref:
        known = self._refs.get((group, reference["kind"]))
        if known is None:
            served = await served_resources(self._client)
            self._refs = {
                (resource.ref.group, resource.ref.kind): resource.ref
                for resource in served
                if resource.preferred
            }
            known = self._refs.get((group, reference["kind"]))
        if known is None:
            version = reference["apiVersion"].rpartition("/")[2]
            text = f'no matches for kind "{reference["kind"]}" in version "{group}/{version}"'
            raise SyncError(text)
        return known


def _no_controllers(pod: Object) -> SyncError:
    return SyncError(f'found no controllers for pod "{pod["metadata"]["name"]}"')
