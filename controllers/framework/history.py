"""Controller revisions: the former templates of stateful sets and daemon sets, for rollbacks.

Semantics of k8s.io/kubernetes/pkg/controller/history and of the two controllers' use of it, 1.36.
"""

from collections.abc import Callable, Collection, Sequence

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import CONTROLLER_REVISIONS, Ref
from kubeskew.apimachinery.client.rest import MERGE_PATCH, STRATEGIC_PATCH, APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.golang.raw_extensions import RawObject, marshalled
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.hashing import fnv1, safe_encode
from kubeskew.controllers.framework.owner_references import (
    ControllerRefManager,
    Dependents,
    OwnerMatch,
    new_controller_reference,
)

HASH_LABEL = "controller.kubernetes.io/hash"
REVISION_LABEL = "controller-revision-hash"  # of pods; of daemon sets' revisions too
_PREFIX_LIMIT = 223


def patch_of(owner: Object, *, writes_empty_times: bool) -> RawObject:
    """Makes a revision's data: a strategic merge patch that puts the present template back, as Go writes it.

    Up to 1.33 Go's encoder wrote the time that a template never has, as null (pull request 130989).
    """
    template = dict(owner["spec"].get("template") or {})
    if writes_empty_times:
        template["metadata"] = {"creationTimestamp": None, **(template.get("metadata") or {})}
    return marshalled({"spec": {"template": {**template, "$patch": "replace"}}})


def applied(owner: Object, revision: Object) -> Object:
    """Returns the owner with the template of the revision."""
    template = dict(((revision.get("data") or {}).get("spec") or {}).get("template") or {})
    template.pop("$patch", None)
    return {**owner, "spec": {**owner["spec"], "template": template}}


def same_data(one: Object | None, other: Object | None, *, by_bytes: bool = False) -> bool:
    """Returns whether data are equal; unless it is judged by their bytes, apart from the empty creation time
    that templates had up to 1.33."""
    return one == other if by_bytes else _timeless(one) == _timeless(other)


def _timeless(data: Object | None) -> Object:
    template = dict(((data or {}).get("spec") or {}).get("template") or {})
    metadata = template.get("metadata") or {}
    return {**template, "metadata": {name: value for name, value in metadata.items() if value is not None}}


def data_hash(data: RawObject, collisions: int) -> str:
    """Returns the hash in the names of stateful sets' revisions: FNV-1 of the data's bytes and the number of
    collisions."""
    return safe_encode(str(fnv1(data.text + str(collisions).encode())))


def name_of(owner: Object, text: str) -> str:
    return f"{owner['metadata']['name'][:_PREFIX_LIMIT]}-{text}"


def new_revision(owner: Object, ref: Ref, number: int, data: Object, text: str, hash_label: str) -> Object:
    """Returns the revision of the owner's present template (`data`), not yet created."""
    metadata = owner["metadata"]
    labels = ((owner["spec"].get("template") or {}).get("metadata") or {}).get("labels") or {}
    revision: Object = {
        "apiVersion": CONTROLLER_REVISIONS.api_version,
        "kind": CONTROLLER_REVISIONS.kind,
        "metadata": {
            "name": name_of(owner, text),
            "namespace": metadata["namespace"],
            "labels": {**labels, hash_label: text},
            "ownerReferences": [new_controller_reference(owner, ref)],
        },
        "data": data,
        "revision": number,
    }
    if metadata.get("annotations"):
        revision["metadata"]["annotations"] = dict(metadata["annotations"])
    return revision


def ordered(revisions: Collection[Object]) -> list[Object]:
    """Returns the revisions, oldest first: by number, age, name."""
    return sorted(
        revisions,
        key=lambda one: (
            one.get("revision") or 0,
            one["metadata"].get("creationTimestamp") or "",
            one["metadata"]["name"],
        ),
    )


def next_number(revisions: Sequence[Object]) -> int:
    return max((revision.get("revision") or 0 for revision in revisions), default=0) + 1


def unused(revisions: Sequence[Object], live: Collection[str]) -> list[Object]:
    """Returns the revisions that nothing uses (`live`: names or hashes), oldest first."""
    return [revision for revision in ordered(revisions) if not live_names(revision) & set(live)]


def live_names(revision: Object) -> set[str]:
    labels = revision["metadata"].get("labels") or {}
    found = {revision["metadata"]["name"], labels.get(REVISION_LABEL) or ""}
    return found - {""}


class Revisions:
    """The revisions of owners of one kind, read through an informer and written through the client."""

    def __init__(
        self,
        client: APIClient,
        informer: Informer,
        ref: Ref,
        match: OwnerMatch = OwnerMatch.UID_IN_NAMESPACE,
        *,
        releases: bool = True,
    ) -> None:
        """`releases`: gives up revisions whose labels do not match any more, and does not just leave them."""
        self._client = client
        self._dependents = Dependents(informer, ref.kind, match)
        self._ref = ref
        self._releases = releases

    async def of(self, owner: Object, matches: Callable[[Object], bool]) -> list[Object]:
        """Returns the owner's revisions, oldest first; matching orphans are adopted."""
        metadata = owner["metadata"]
        ref_manager = ControllerRefManager(
            self._client,
            owner,
            self._ref,
            CONTROLLER_REVISIONS,
            matches,
            lambda: self._client.get(self._ref, metadata["name"], metadata["namespace"]),
        )
        found = self._dependents.candidates(owner)
        if not self._releases:
            found = [revision for revision in found if matches(revision)]
        return ordered(await ref_manager.claim(found))

    async def create(self, revision: Object) -> Object | None:
        """Creates a revision; returns None if another one has the name.

        An equal one that the informer missed is used.
        """
        try:
            return await self._client.create(CONTROLLER_REVISIONS, revision)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
        metadata = revision["metadata"]
        found = await self._client.get(CONTROLLER_REVISIONS, metadata["name"], metadata["namespace"])
        return found if found.get("data") == revision["data"] else None

    async def renumber(self, revision: Object, number: int) -> Object:
        if revision.get("revision") == number:
            return revision
        metadata = revision["metadata"]
        return await self._client.patch(
            CONTROLLER_REVISIONS, metadata["name"], metadata["namespace"], {"revision": number}, MERGE_PATCH
        )

    async def label(self, revision: Object, name: str, value: str) -> Object:
        metadata, patch = revision["metadata"], {"metadata": {"labels": {name: value}}}
        return await self._client.patch(
            CONTROLLER_REVISIONS, metadata["name"], metadata["namespace"], patch, STRATEGIC_PATCH
        )

    async def delete(self, revisions: Sequence[Object]) -> None:
        for revision in revisions:
            try:
                await self._client.delete(
                    CONTROLLER_REVISIONS, revision["metadata"]["name"], revision["metadata"]["namespace"]
                )
            except StatusError as error:
                if error.code != 404:
                    raise
