"""Creates and corrects the pods of stateful sets with their claims, and records events.

Behaviour of k8s.io/kubernetes/pkg/controller/statefulset/stateful_pod_control.go, 1.36.
"""

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import PERSISTENT_VOLUME_CLAIMS, PODS
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import SyncError, key_of
from kubeskew.controllers.framework.own_writes import OwnWrites
from kubeskew.controllers.statefulset import identity, retention


class StatefulPods:
    """Creates, corrects and deletes the pods of stateful sets."""

    def __init__(
        self,
        client: APIClient,
        recorder: EventRecorder,
        claims: Informer,
        own_writes: OwnWrites,
        *,
        index_label: bool,
        deletes_claims: bool,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._claims = claims
        self._own_writes = own_writes
        self._index_label = index_label
        self.deletes_claims = deletes_claims

    async def create(self, stateful_set: Object, pod: Object) -> None:
        """Creates the claims, then the pod. Raises the failure; an existing pod is a conflict."""
        try:
            await self.create_claims(stateful_set, pod)
        except (StatusError, SyncError) as error:
            self._tell("create", stateful_set, pod, error)
            raise
        try:
            made = await self._client.create(PODS, pod)
            self._own_writes.note(key_of(stateful_set), PODS, made)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                self._tell("create", stateful_set, pod, error)
            raise
        try:
            if self.deletes_claims:
                await self.own_claims(stateful_set, made)
        except StatusError as error:
            self._tell("create", stateful_set, pod, error)
            raise
        self._tell("create", stateful_set, pod, None)

    async def correct(self, stateful_set: Object, pod: Object) -> None:
        """Restores a pod's labels and claims."""
        try:
            if self.deletes_claims:
                await self.own_claims(stateful_set, pod)
            if self._is_consistent(stateful_set, pod):
                return
            changed = {**pod, "metadata": dict(pod["metadata"]), "spec": dict(pod["spec"])}
            identity.set_identity(changed, index_label=self._index_label)
            if not identity.storage_matches(stateful_set, changed):
                identity.set_storage(stateful_set, changed)
                await self.create_claims(stateful_set, changed)
            written = await self._client.update(PODS, changed)
            self._own_writes.note(key_of(stateful_set), PODS, written)
        except (StatusError, SyncError) as error:
            self._tell("update", stateful_set, pod, error)
            raise
        self._tell("update", stateful_set, pod, None)

    def is_settled(self, stateful_set: Object, pod: Object) -> bool:
        """Returns whether the pod needs no correction."""
        return self._is_consistent(stateful_set, pod) and (
            not self.deletes_claims or self.owned_as_wanted(stateful_set, pod)
        )

    def _is_consistent(self, stateful_set: Object, pod: Object) -> bool:
        return identity.identity_matches(
            stateful_set, pod, index_label=self._index_label
        ) and identity.storage_matches(stateful_set, pod)

    async def delete(self, stateful_set: Object, pod: Object) -> None:
        metadata = pod["metadata"]
        try:
            await self._client.delete(PODS, metadata["name"], metadata["namespace"])
        except StatusError as error:
            self._tell("delete", stateful_set, pod, error)
            if error.code != 404:
                raise
            return
        self._tell("delete", stateful_set, pod, None)

    # -- claims

    def _known_claims(self, stateful_set: Object, pod: Object) -> list[Object]:
        wanted = identity.claims_of(stateful_set, identity.ordinal(pod)).values()
        found = [
            self._claims.get(claim["metadata"]["namespace"], claim["metadata"]["name"]) for claim in wanted
        ]
        return [claim for claim in found if claim is not None]

    def waits_for_claims(self, stateful_set: Object, pod: Object) -> bool:
        """Returns whether claims of an earlier pod of the name are still to be deleted."""
        if not self.deletes_claims:
            return False
        name = pod["metadata"]["name"]
        return any(retention.is_stale(claim, name) for claim in self._known_claims(stateful_set, pod))

    def owned_as_wanted(self, stateful_set: Object, pod: Object) -> bool:
        known = self._known_claims(stateful_set, pod)
        return all(retention.owners_match(claim, stateful_set, pod) for claim in known)

    async def own_claims(self, stateful_set: Object, pod: Object) -> None:
        for claim in self._known_claims(stateful_set, pod):
            if not retention.owners_match(claim, stateful_set, pod):
                wanted = retention.owned_as_wanted(claim, stateful_set, pod)
                await self._client.update(PERSISTENT_VOLUME_CLAIMS, wanted)

    async def create_claims(self, stateful_set: Object, pod: Object) -> None:
        """Creates missing claims; one that is being deleted is an error."""
        failures = []
        for claim in identity.claims_of(stateful_set, identity.ordinal(pod)).values():
            name = claim["metadata"]["name"]
            known = self._claims.get(claim["metadata"]["namespace"], name)
            if known is None:
                failure = await self._create_claim(stateful_set, pod, claim)
                failures += [failure] if failure else []
            elif known["metadata"].get("deletionTimestamp"):
                failures.append(f"pvc {name} is being deleted")
        if failures:
            raise SyncError(failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]")

    async def _create_claim(self, stateful_set: Object, pod: Object, claim: Object) -> str:
        """Creates a claim; returns the error, empty if there is none."""
        name, owner = claim["metadata"]["name"], stateful_set["metadata"]["name"]
        try:
            await self._client.create(PERSISTENT_VOLUME_CLAIMS, claim)
        except StatusError as error:
            if error.reason == "AlreadyExists":
                return ""  # the informer is behind
            text = f"for Pod {pod['metadata']['name']} in StatefulSet {owner} failed error: {error}"
            self._recorder.event(stateful_set, "Warning", "FailedCreate", f"create Claim {name} {text}")
            return f"failed to create PVC {name}: {error}"
        text = f"create Claim {name} Pod {pod['metadata']['name']} in StatefulSet {owner} success"
        self._recorder.event(stateful_set, "Normal", "SuccessfulCreate", text)
        return ""

    def _tell(self, verb: str, stateful_set: Object, pod: Object, error: Exception | None) -> None:
        text = f"{verb} Pod {pod['metadata']['name']} in StatefulSet {stateful_set['metadata']['name']}"
        if error is None:
            self._recorder.event(stateful_set, "Normal", f"Successful{verb.title()}", f"{text} successful")
        else:
            self._recorder.event(
                stateful_set, "Warning", f"Failed{verb.title()}", f"{text} failed error: {error}"
            )
