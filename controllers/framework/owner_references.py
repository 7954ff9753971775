"""Owner references: the objects of an owner, and adoption and release of dependents.

Semantics of k8s.io/kubernetes/pkg/controller/controller_ref_manager.go, and of the indexes of dependents in
controller_utils.go, 1.31 … 1.36.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import STRATEGIC_PATCH, APIClient
from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object, controller_of
from kubeskew.controllers.framework.base import SyncError

_ORPHANS = "without a controller"


class OwnerMatch(Enum):
    """Controllers compare these attributes to find the objects that an owner controls."""

    UID_IN_NAMESPACE = "UID in the owner's namespace"
    UID = "UID in any namespace"  # upstream's fault 134654
    WHOLE_REFERENCE = "namespace, kind, name and UID"

    def keys(self, obj: Object) -> list[str]:
        reference = controller_of(obj)
        if reference is None:
            return []
        namespace = obj["metadata"].get("namespace") or ""
        return [self.key(namespace, reference["kind"], reference["name"], reference["uid"])]

    def key(self, namespace: str, kind: str, name: str, uid: str) -> str:
        if self is OwnerMatch.UID:
            return uid
        if self is OwnerMatch.UID_IN_NAMESPACE:
            return f"{namespace}/{uid}"
        return f"{namespace}/{kind}/{name}/{uid}"


class Dependents:
    def __init__(self, informer: Informer, owner_kind: str, match: OwnerMatch) -> None:
        self._informer = informer
        self._kind = owner_kind
        self._match = match
        informer.add_index(match.value, match.keys)
        informer.add_index(_ORPHANS, _orphan_namespaces)

    def of(self, owner: Object) -> Sequence[Object]:
        """Selectors of the owner do not matter."""
        metadata = owner["metadata"]
        key = self._match.key(metadata["namespace"], self._kind, metadata["name"], metadata["uid"])
        return self._informer.by_index(self._match.value, key)

    def orphans(self, namespace: str) -> Sequence[Object]:
        return self._informer.by_index(_ORPHANS, namespace)

    def candidates(self, owner: Object) -> list[Object]:
        return [*self.of(owner), *self.orphans(owner["metadata"]["namespace"])]


def _orphan_namespaces(obj: Object) -> list[str]:
    return [] if controller_of(obj) is not None else [obj["metadata"]["namespace"]]


def new_controller_reference(owner: Object, ref: Ref) -> Object:
    """Controller and blockOwnerDeletion are set, as by metav1.NewControllerRef."""
    return {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def resolve_controller(obj: Object, ref: Ref, get: Callable[[str, str], Object | None]) -> Object | None:
    """None if the controller has another kind or uid."""
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

        `finalizers` are added to adopted objects and removed from released ones. `written` receives the
        server's response to each change.
        """
        self._written = written
        self._client = client
        self._owner = owner
        self._owner_ref = owner_ref
        self._ref = dependent_ref
        self._matches = matches
        self._current_owner = current_owner
        self._finalizers = list(finalizers)
        self._refusal: str | None = None  # why nothing may be adopted; None before that is known

    async def claim(self, candidates: Sequence[Object]) -> list[Object]:
        """Raises the first failure once all candidates were tried."""
        claimed, failures = [], []
        for obj in candidates:
            try:
                if await self._claim_one(obj):
                    claimed.append(obj)
            except (StatusError, SyncError) as failure:
                failures.append(failure)
        if failures:
            raise failures[0]
        return claimed

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
        if obj["metadata"].get("namespace") != self._owner["metadata"].get("namespace"):
            return False
        return await self._adopt(obj)

    async def _adopt(self, obj: Object) -> bool:
        if self._refusal is None:
            self._refusal = await self._why_not_adopt()
        if self._refusal:
            found = obj["metadata"]
            whose = f"{self._ref.kind} {found['namespace']}/{found['name']} ({found['uid']})"
            raise SyncError(f"can't adopt {whose}: {self._refusal}")
        metadata: Object = {
            "uid": obj["metadata"]["uid"],
            "ownerReferences": [new_controller_reference(self._owner, self._owner_ref)],
        }
        if self._finalizers:
            metadata["finalizers"] = self._finalizers
        return await self._patch(obj, {"metadata": metadata})

    async def _why_not_adopt(self) -> str:
        """Empty if the owner may adopt.

        The informer may be behind a deletion of the owner: an adopted dependent would never go.
        """
        mine = self._owner["metadata"]
        name = f"{mine['namespace']}/{mine['name']}"
        try:
            fresh = (await self._current_owner())["metadata"]
        except StatusError as error:
            return str(error)
        if fresh["uid"] != mine["uid"]:
            kind = self._owner_ref.kind
            return f"original {kind} {name} is gone: got uid {fresh['uid']}, wanted {mine['uid']}"
        deleted = fresh.get("deletionTimestamp")
        if deleted:
            when = f"{parse_timestamp(deleted):%Y-%m-%d %H:%M:%S} +0000 UTC"
            return f"{name} has just been deleted at {when}"
        return ""

    async def _release(self, obj: Object) -> None:
        delete = {"$patch": "delete", "uid": self._owner["metadata"]["uid"]}
        metadata: Object = {"uid": obj["metadata"]["uid"], "ownerReferences": [delete]}
        if self._finalizers:
            metadata["$deleteFromPrimitiveList/finalizers"] = self._finalizers
        await self._patch(obj, {"metadata": metadata})

    async def _patch(self, obj: Object, patch: Object) -> bool:
        """False if the object is gone or replaced by another."""
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
