"""Owner references: the controller of an object, and how controllers adopt and release dependents.

Semantics of k8s.io/kubernetes/pkg/controller/controller_ref_manager.go.
"""

from collections.abc import Awaitable, Callable, Sequence

from kubeskew.apimachinery.claim_users import controller_of
from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import STRATEGIC_PATCH, APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object


def is_controlled_by(obj: Object, owner: Object) -> bool:
    reference = controller_of(obj)
    return reference is not None and reference["uid"] == owner["metadata"]["uid"]


def new_controller_reference(owner: Object, ref: Ref) -> Object:
    """Returns the reference of metav1.NewControllerRef: controller and blockOwnerDeletion set."""
    return {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def resolve_controller(obj: Object, ref: Ref, get: Callable[[str, str], Object | None]) -> Object | None:
    """Returns the owner of kind `ref` that controls `obj`, if it is the one meant (same uid)."""
    reference = controller_of(obj)
    if reference is None or reference["kind"] != ref.kind:
        return None
    owner = get(obj["metadata"].get("namespace") or "", reference["name"])
    if owner is None or owner["metadata"]["uid"] != reference["uid"]:
        return None
    return owner


class ControllerRefManager:
    """Claims the dependents of one owner: keeps its own, adopts matching orphans, releases the others."""

    def __init__(
        self,
        client: APIClient,
        owner: Object,
        owner_ref: Ref,
        dependent_ref: Ref,
        matches: Callable[[Object], bool],
        current_owner: Callable[[], Awaitable[Object]],
        *,
        finalizers: Sequence[str] = (),
        written: Callable[[Object], None] = lambda _: None,
    ) -> None:
        """`current_owner` reads the owner from the server, at most once, before the first adoption.

        `finalizers` are added to adopted objects and removed from released ones. `written` is told what the
        server answers to each change.
        """
        self._written = written
        self._client = client
        self._owner = owner
        self._owner_ref = owner_ref
        self._ref = dependent_ref
        self._matches = matches
        self._current_owner = current_owner
        self._finalizers = list(finalizers)
        self._may_adopt: bool | None = None

    async def claim(self, candidates: Sequence[Object]) -> list[Object]:
        """Returns the candidates that belong to the owner now."""
        return [obj for obj in candidates if await self._claim_one(obj)]

    async def _claim_one(self, obj: Object) -> bool:
        owner_deleted = bool(self._owner["metadata"].get("deletionTimestamp"))
        reference = controller_of(obj)
        if reference is not None:
            if reference["uid"] != self._owner["metadata"]["uid"]:
                return False
            if self._matches(obj):
                return True
            if not owner_deleted:
                await self._release(obj)
            return False
        if owner_deleted or not self._matches(obj) or obj["metadata"].get("deletionTimestamp"):
            return False
        return await self._adopt(obj)

    async def _adopt(self, obj: Object) -> bool:
        if self._may_adopt is None:
            # The informer may be behind a deletion of the owner: an adopted dependent would never go.
            fresh = await self._current_owner()
            self._may_adopt = fresh["metadata"]["uid"] == self._owner["metadata"]["uid"] and not fresh[
                "metadata"
            ].get("deletionTimestamp")
        if not self._may_adopt:
            return False
        metadata: Object = {
            "uid": obj["metadata"]["uid"],
            "ownerReferences": [new_controller_reference(self._owner, self._owner_ref)],
        }
        if self._finalizers:
            metadata["finalizers"] = self._finalizers
        return await self._patch(obj, {"metadata": metadata})

    async def _release(self, obj: Object) -> None:
        delete = {"$patch": "delete", "uid": self._owner["metadata"]["uid"]}
        metadata: Object = {"uid": obj["metadata"]["uid"], "ownerReferences": [delete]}
        if self._finalizers:
            metadata["$deleteFromPrimitiveList/finalizers"] = self._finalizers
        await self._patch(obj, {"metadata": metadata})

    async def _patch(self, obj: Object, patch: Object) -> bool:
        """Patches an object; returns False if it is gone or replaced by another."""
        metadata = obj["metadata"]
        try:
            changed = await self._client.patch(
                self._ref, metadata["name"], metadata["namespace"], patch, STRATEGIC_PATCH
            )
        except StatusError as error:
            if error.code in (404, 422):  # 422: the uid in the patch is not the present one
                return False
            raise
        self._written(changed)
        return True


def controller_uids(obj: Object) -> list[str]:
    """Returns the uid of an object's controller: an index function."""
    reference = controller_of(obj)
    return [reference["uid"]] if reference is not None else []


def orphan_namespaces(obj: Object) -> list[str]:
    """Returns the namespace of an object without a controller: an index function."""
    return [] if controller_of(obj) is not None else [obj["metadata"]["namespace"]]
