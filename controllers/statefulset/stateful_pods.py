"""The pods of stateful sets: their identity (ordinal, names, labels, volumes), their creation and correction
with their claims, and the owners of the claims: persistentVolumeClaimRetentionPolicy.

Sources: k8s.io/kubernetes/pkg/controller/statefulset/stateful_set_utils.go, 1.36;
k8s.io/kubernetes/pkg/controller/statefulset/stateful_pod_control.go, 1.36.
"""

import re
from collections.abc import Mapping

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS, Ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object, is_controlled_by
from kubeskew.controllers.framework import pods
from kubeskew.controllers.framework.base import SyncError, key_of
from kubeskew.controllers.framework.history import REVISION_LABEL
from kubeskew.controllers.framework.owner_references import new_controller_reference
from kubeskew.controllers.framework.pod_control import pod_from_template
from kubeskew.controllers.framework.pod_controller import OwnWrites

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_PARENT = re.compile(r"(.*)-([0-9]+)\Z", re.DOTALL)


def parent_and_ordinal(pod: Object) -> tuple[str, int]:
    """Other names than `<set>-<ordinal>` give ("", -1)."""
    found = _PARENT.match(pod["metadata"]["name"])
    if found is None or int(found[2]) >= 2**31:
        return "", -1
    return found[1], int(found[2])


def ordinal(pod: Object) -> int:
    return parent_and_ordinal(pod)[1]


def is_member(stateful_set: Object, pod: Object) -> bool:
    return bool(parent_and_ordinal(pod)[0] == stateful_set["metadata"]["name"])


def start(stateful_set: Object) -> int:
    return int((stateful_set["spec"].get("ordinals") or {}).get("start") or 0)


def replicas(stateful_set: Object) -> int:
    count = stateful_set["spec"].get("replicas")
    return 1 if count is None else int(count)


def in_range(stateful_set: Object, pod: Object) -> bool:
    first = start(stateful_set)
    return first <= ordinal(pod) < first + replicas(stateful_set)


def pod_name(stateful_set: Object, number: int) -> str:
    return f"{stateful_set['metadata']['name']}-{number}"


def claims_of(stateful_set: Object, number: int) -> dict[str, Object]:
    """Keys are the names of templates."""
    spec, metadata = stateful_set["spec"], stateful_set["metadata"]
    found = {}
    for template in spec.get("volumeClaimTemplates") or ():
        name = template["metadata"]["name"]
        labels = {
            **(template["metadata"].get("labels") or {}),
            **((spec.get("selector") or {}).get("matchLabels") or {}),
        }
        claim_metadata = {key: value for key, value in template["metadata"].items() if value is not None}
        found[name] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                **claim_metadata,
                "name": f"{name}-{metadata['name']}-{number}",
                "namespace": metadata["namespace"],
                "labels": labels,
            },
            "spec": template.get("spec") or {},
        }
    return found


def new_pod(stateful_set: Object, number: int, revision: str, *, index_label: bool = True) -> Object:
    pod = pod_from_template(stateful_set["spec"].get("template") or {}, stateful_set, STATEFUL_SETS)
    pod["spec"] = dict(pod["spec"])
    pod["metadata"]["name"] = pod_name(stateful_set, number)
    pod["spec"]["hostname"] = pod["metadata"]["name"]
    if service := stateful_set["spec"].get("serviceName"):
        pod["spec"]["subdomain"] = service
    set_identity(pod, index_label=index_label)
    set_storage(stateful_set, pod)
    pod["metadata"]["labels"][REVISION_LABEL] = revision
    return pod


def _identity_labels(pod: Object, *, index_label: bool) -> dict[str, str]:
    labels = {POD_NAME_LABEL: pod["metadata"]["name"]}
    if index_label:
        labels[POD_INDEX_LABEL] = str(ordinal(pod))
    return labels


def identity_matches(stateful_set: Object, pod: Object, *, index_label: bool = True) -> bool:
    labels = pod["metadata"].get("labels") or {}
    wanted = _identity_labels(pod, index_label=index_label)
    return (
        is_member(stateful_set, pod)
        and labels.get(POD_NAME_LABEL) == wanted[POD_NAME_LABEL]
        and (not index_label or labels.get(POD_INDEX_LABEL) == wanted[POD_INDEX_LABEL])
    )


def set_identity(pod: Object, *, index_label: bool = True) -> None:
    labels = pod["metadata"].get("labels") or {}
    pod["metadata"]["labels"] = {**labels, **_identity_labels(pod, index_label=index_label)}


def storage_matches(stateful_set: Object, pod: Object) -> bool:
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    return all(
        (volumes.get(name, {}).get("persistentVolumeClaim") or {}).get("claimName")
        == claim["metadata"]["name"]
        for name, claim in claims_of(stateful_set, ordinal(pod)).items()
    )


def set_storage(stateful_set: Object, pod: Object) -> None:
    """Volumes with the names of claims are replaced, others kept."""
    claims = claims_of(stateful_set, ordinal(pod))
    volumes: list[Object] = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
        for name, claim in claims.items()
    ]
    volumes += [volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in claims]
    if volumes:
        pod["spec"]["volumes"] = volumes


def revision_of(pod: Object) -> str:
    labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
    return labels.get(REVISION_LABEL) or ""


def is_created(pod: Object) -> bool:
    """Planned pods have no uid yet."""
    return bool(pod["metadata"].get("uid"))


def is_running_and_ready(pod: Object) -> bool:
    return pods.phase(pod) == "Running" and pods.is_ready(pod)


def bursts(stateful_set: Object) -> bool:
    """Parallel pod management creates and deletes pods in bursts."""
    return bool(stateful_set["spec"].get("podManagementPolicy") == "Parallel")


def policy(stateful_set: Object) -> tuple[bool, bool]:
    """(delete the claims with the set, delete them when it is scaled down)."""
    found = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    return found.get("whenDeleted") == "Delete", found.get("whenScaled") == "Delete"


def wanted_owners(stateful_set: Object, pod: Object) -> tuple[bool, bool]:
    """(should the set own the claims, should the pod own them)."""
    when_deleted, when_scaled = policy(stateful_set)
    scaled_down = when_scaled and not in_range(stateful_set, pod)
    return when_deleted and not scaled_down, scaled_down


def owners_match(claim: Object, stateful_set: Object, pod: Object) -> bool:
    if _has_other_controller(claim, stateful_set, pod):
        return True
    by_set, by_pod = wanted_owners(stateful_set, pod)
    if by_set != is_controlled_by(claim, stateful_set):
        return False
    return by_pod == is_controlled_by(claim, pod)


def owned_as_wanted(claim: Object, stateful_set: Object, pod: Object) -> Object:
    references = list(claim["metadata"].get("ownerReferences") or ())
    by_set, by_pod = wanted_owners(stateful_set, pod)
    for wanted, owner, ref in ((by_set, stateful_set, STATEFUL_SETS), (by_pod, pod, PODS)):
        references = [reference for reference in references if not _is_of(reference, owner, ref)]
        if wanted:
            references.append(new_controller_reference(owner, ref))
    metadata = {key: value for key, value in claim["metadata"].items() if key != "ownerReferences"}
    if references:
        metadata["ownerReferences"] = references
    return {**claim, "metadata": metadata}


def is_stale(claim: Object, pod_name: str, uid: str = "") -> bool:
    """Stale claims belong to an earlier pod of that name and are about to be deleted."""
    return any(
        reference["kind"] == PODS.kind and reference["name"] == pod_name and reference["uid"] != uid
        for reference in claim["metadata"].get("ownerReferences") or ()
    )


def _has_other_controller(claim: Object, stateful_set: Object, pod: Object) -> bool:
    """The policy does not apply to claims that another controller owns."""
    return any(
        reference.get("controller")
        and not _is_of(reference, stateful_set, STATEFUL_SETS)
        and not _is_of(reference, pod, PODS)
        for reference in claim["metadata"].get("ownerReferences") or ()
    )


def _is_of(reference: Object, owner: Object, ref: Ref) -> bool:
    return bool(reference["kind"] == ref.kind and reference["name"] == owner["metadata"]["name"])


class StatefulPods:
    def __init__(
        self,
        client: APIClient,
        recorder: EventRecorder,
        claims: Informer,
        own_writes: OwnWrites,
        *,
        index_label: bool,
        deletes_claims: bool,
        capital_events: bool,
    ) -> None:
        """`capital_events`: their messages begin with a capital letter."""
        self._client = client
        self._capital = capital_events
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
            self._report("create", stateful_set, pod, error)
            raise
        try:
            made = await self._client.create(PODS, pod)
            self._own_writes.note(key_of(stateful_set), PODS, made)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                self._report("create", stateful_set, pod, error)
            raise
        try:
            if self.deletes_claims:
                await self.own_claims(stateful_set, made)
        except StatusError as error:
            self._report("create", stateful_set, pod, error)
            raise
        self._report("create", stateful_set, pod, None)

    async def correct(self, stateful_set: Object, pod: Object) -> None:
        try:
            if self.deletes_claims:
                await self.own_claims(stateful_set, pod)
            if self._is_consistent(stateful_set, pod):
                return
            changed = {**pod, "metadata": dict(pod["metadata"]), "spec": dict(pod["spec"])}
            set_identity(changed, index_label=self._index_label)
            if not storage_matches(stateful_set, changed):
                set_storage(stateful_set, changed)
                await self.create_claims(stateful_set, changed)
            written = await self._client.update(PODS, changed)
            self._own_writes.note(key_of(stateful_set), PODS, written)
        except (StatusError, SyncError) as error:
            self._report("update", stateful_set, pod, error)
            raise
        self._report("update", stateful_set, pod, None)

    def is_settled(self, stateful_set: Object, pod: Object) -> bool:
        return self._is_consistent(stateful_set, pod) and (
            not self.deletes_claims or self.owned_as_wanted(stateful_set, pod)
        )

    def _is_consistent(self, stateful_set: Object, pod: Object) -> bool:
        return identity_matches(stateful_set, pod, index_label=self._index_label) and storage_matches(
            stateful_set, pod
        )

    async def delete(self, stateful_set: Object, pod: Object) -> None:
        metadata = pod["metadata"]
        try:
            await self._client.delete(PODS, metadata["name"], metadata["namespace"])
        except StatusError as error:
            self._report("delete", stateful_set, pod, error)
            if error.code != 404:
                raise
            return
        self._report("delete", stateful_set, pod, None)

    # -- claims

    def _known_claims(self, stateful_set: Object, pod: Object) -> list[Object]:
        wanted = claims_of(stateful_set, ordinal(pod)).values()
        found = [
            self._claims.get(claim["metadata"]["namespace"], claim["metadata"]["name"]) for claim in wanted
        ]
        return [claim for claim in found if claim is not None]

    def waits_for_claims(self, stateful_set: Object, pod: Object) -> bool:
        if not self.deletes_claims:
            return False
        name = pod["metadata"]["name"]
        return any(is_stale(claim, name) for claim in self._known_claims(stateful_set, pod))

    def owned_as_wanted(self, stateful_set: Object, pod: Object) -> bool:
        known = self._known_claims(stateful_set, pod)
        return all(owners_match(claim, stateful_set, pod) for claim in known)

    async def own_claims(self, stateful_set: Object, pod: Object) -> None:
        for claim in self._known_claims(stateful_set, pod):
            if not owners_match(claim, stateful_set, pod):
                wanted = owned_as_wanted(claim, stateful_set, pod)
                written = await self._client.update(PERSISTENT_VOLUME_CLAIMS, wanted)
                self._own_writes.note(key_of(stateful_set), PERSISTENT_VOLUME_CLAIMS, written)

    async def create_claims(self, stateful_set: Object, pod: Object) -> None:
        """Claims that are being deleted are an error."""
        failures = []
        for claim in claims_of(stateful_set, ordinal(pod)).values():
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
        """Existing claims are no failure; without one the text is empty."""
        name, owner = claim["metadata"]["name"], stateful_set["metadata"]["name"]
        try:
            made = await self._client.create(PERSISTENT_VOLUME_CLAIMS, claim)
            self._own_writes.note(key_of(stateful_set), PERSISTENT_VOLUME_CLAIMS, made)
        except StatusError as error:
            if error.reason == "AlreadyExists":
                return ""  # the informer is behind
            text = f"for Pod {pod['metadata']['name']} in StatefulSet {owner} failed error: {error}"
            self._event(stateful_set, "Warning", "FailedCreate", f"create Claim {name} {text}")
            return f"failed to create PVC {name}: {error}"
        text = f"create Claim {name} Pod {pod['metadata']['name']} in StatefulSet {owner} success"
        self._event(stateful_set, "Normal", "SuccessfulCreate", text)
        return ""

    def _report(self, verb: str, stateful_set: Object, pod: Object, error: Exception | None) -> None:
        text = f"{verb} Pod {pod['metadata']['name']} in StatefulSet {stateful_set['metadata']['name']}"
        if error is None:
            self._event(stateful_set, "Normal", f"Successful{verb.title()}", f"{text} successful")
        else:
            self._event(stateful_set, "Warning", f"Failed{verb.title()}", f"{text} failed error: {error}")

    def _event(self, stateful_set: Object, kind: str, reason: str, text: str) -> None:
        message = text[0].upper() + text[1:] if self._capital else text
        self._recorder.event(stateful_set, kind, reason, message)
