"""Manifests as an API server of one release would store them: typed, converted, with defaults.

Objects that controllers would create are added: pods of workloads, claims of templates.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kubeskew.apimachinery.catalogue.table import catalogue_for
from kubeskew.apimachinery.client.refs import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Ref,
    dra_refs,
    parameters_refs,
    pod_groups_ref,
    scheduling_context_ref,
    taint_rules_ref,
)
from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apimachinery.conversion import convert
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Key, Object, object_key
from kubeskew.apimachinery.resources import Resource
from kubeskew.apimachinery.versions import PREVIEWS, Version
from kubeskew.apiserver.decoding.decoder import Parsed, decode_value
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.registry.defaulting import DefaultingContext, apply_defaults
from kubeskew.apiserver.registry.generic.disabled_fields import drop_disabled
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.manifest_files import documents, typed
from kubeskew.controllers.daemonset.controller import belongs, pod_template
from kubeskew.controllers.framework.pod_control import pod_from_template
from kubeskew.controllers.resourceclaim import claims
from kubeskew.controllers.resourceclaim.creation import Owner, claim_from
from kubeskew.controllers.resourceclaim.features import ResourceClaimFeatures

_DEFINITION = "CustomResourceDefinition"
_UNUSABLE = (LookupError, TypeError, AttributeError, ValueError)
_REPLICAS = {
    REPLICATION_CONTROLLERS: ("replicas", REPLICATION_CONTROLLERS),
    REPLICA_SETS: ("replicas", REPLICA_SETS),
    DEPLOYMENTS: ("replicas", REPLICA_SETS),  # whose pods belong to a ReplicaSet
    STATEFUL_SETS: ("replicas", STATEFUL_SETS),
    JOBS: ("parallelism", JOBS),
}


class Manifests:
    """Objects stand under the path of their collection; the last one of a name counts."""

    def __init__(self, version: Version, gates: FeatureGates) -> None:
        self.version = version
        self.gates = gates
        self._catalogue = catalogue_for(version, gates, {"api/all": True})
        self._context = DefaultingContext(Features.of(gates), SystemClock().now())
        self._spoken = {(ref.group, ref.kind): ref.version for ref in _spoken(version)}
        self._objects: dict[str, dict[Key, Object]] = {}
        self._custom: dict[tuple[str, str], Ref] = {}  # by apiVersion and kind

    def read(self, paths: Sequence[Path]) -> None:
        """UserError names file, document and fault."""
        found = [each for path in paths for each in documents(path)]
        for where, obj in sorted(found, key=lambda each: each[1].get("kind") != _DEFINITION):
            self.take(where, obj)

    def take(self, where: str, obj: Object) -> Object:
        """UserError names `where`; otherwise the object is returned as it would be stored."""
        try:
            return self.add(obj)
        except UserError as error:
            raise UserError(f"{where}: {error}") from error
        except _UNUSABLE as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise UserError(f"{where}: not a usable {obj.get('kind')}: {what}") from error

    def add(self, obj: Object) -> Object:
        """Raises UserError; the object is returned as it would be stored."""
        custom = self._custom.get((str(obj.get("apiVersion")), str(obj.get("kind"))))
        if custom is not None:
            return self._keep(copy.deepcopy(obj), custom)
        resource = self._resource(obj)
        stored = convert(self._typed(obj), resource.gvk, self._catalogue)
        apply_defaults(stored, resource.schema, self._context)
        drop_disabled(stored, None, resource.schema, self.gates)
        if resource.kind == _DEFINITION:
            self._define(stored)
        ref = Ref(resource.group, resource.version, resource.plural, resource.namespaced, resource.kind)
        return self._keep(stored, ref)

    def _keep(self, stored: Object, ref: Ref) -> Object:
        metadata = stored.setdefault("metadata", {})
        if not metadata.get("name"):
            raise UserError(f"{ref.kind} without metadata.name")
        if ref.namespaced:
            metadata.setdefault("namespace", "default")
        else:
            metadata.pop("namespace", None)
        place = "/".join(filter(None, (ref.kind, metadata.get("namespace"), metadata["name"])))
        metadata.setdefault("uid", place)
        metadata.setdefault("resourceVersion", "1")
        metadata.setdefault("generation", 1)
        self._objects.setdefault(ref.path(), {})[object_key(stored)] = stored
        return stored

    def _define(self, definition: Object) -> None:
        """Custom kinds are established at once."""
        spec = definition["spec"]
        for version in spec["versions"]:
            names = spec["names"]
            namespaced = spec["scope"] == "Namespaced"
            ref = Ref(spec["group"], version["name"], names["plural"], namespaced, names["kind"])
            self._custom[ref.api_version, ref.kind] = ref
        established = {"type": "Established", "status": "True"}
        definition["status"] = {"acceptedNames": spec["names"], "conditions": [established]}

    def of(self, ref: Ref) -> list[Object]:
        """By namespace and name."""
        known = self._objects.get(ref.path(), {})
        return [known[key] for key in sorted(known)]

    def by_path(self) -> Mapping[str, Sequence[Object]]:
        return {path: [known[key] for key in sorted(known)] for path, known in self._objects.items()}

    def _resource(self, obj: Object) -> Resource:
        """The version is the one in which the scheduler of the release reads the resource."""
        group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
        kind = str(obj.get("kind") or "")
        if not kind or not version:
            raise UserError("expected an object with apiVersion and kind")
        read = self._spoken.get((group, kind), version)
        resource = self._catalogue.by_kind(group, read, kind)
        if resource is None:
            raise UserError(f"there is no {kind} in {obj['apiVersion']} in {self.version}")
        return resource

    def _typed(self, obj: Object) -> Object:
        """Decodes a copy; the types are those of a later release if the release lacks the version."""
        group, _, version = str(obj["apiVersion"]).rpartition("/")
        known = self._catalogue.by_kind(group, version, obj["kind"])
        value = copy.deepcopy(obj)
        if known is None:
            return typed(value)
        try:
            return decode_value(Parsed(value), known.gvk, known.schema, "Ignore").object
        except StatusError as error:
            text = error.message.partition(f"cannot be handled as a {known.kind}: ")[2]
            raise UserError(text or error.message) from error


def _spoken(version: Version) -> list[Ref]:
    """Components of a release use these resources in a version of its own."""
    dra = dra_refs(version)
    found = [dra.claims, dra.claim_templates, dra.device_classes, dra.slices]
    if version not in PREVIEWS:
        found += [scheduling_context_ref(version), *parameters_refs(version)]
        found += [taint_rules_ref(version), pod_groups_ref(version)]
    return found


def complete_workloads(manifests: Manifests) -> None:
    """Adds the pods of workloads, and the claims of all pods. Raises UserError."""
    for ref, (field, owner_ref) in _REPLICAS.items():
        for obj in manifests.of(ref):
            if not _has_pods(manifests, obj):
                _add_pods(manifests, obj, int(obj["spec"].get(field) or 0), owner_ref)
    features = ResourceClaimFeatures.of(manifests.gates)
    for pod in manifests.of(PODS):
        _add_claims(manifests, pod, features)


def _has_pods(manifests: Manifests, obj: Object) -> bool:
    """True if the files have pods of the workload, or if it has an owner of its own."""
    uid = obj["metadata"]["uid"]
    if obj["metadata"].get("ownerReferences"):
        return True
    return any(
        reference.get("uid") == uid
        for pod in manifests.of(PODS)
        for reference in pod["metadata"].get("ownerReferences") or ()
    )


def _add_pods(manifests: Manifests, obj: Object, count: int, owner_ref: Ref) -> None:
    metadata = obj["metadata"]
    width = len(str(max(0, count - 1)))
    for number in range(count):
        pod = pod_from_template(obj["spec"].get("template") or {}, obj, owner_ref)
        about = {key: value for key, value in pod["metadata"].items() if key != "generateName"}
        name = f"{metadata['name']}-{number:0{width}}"
        about |= {"name": name, "namespace": metadata["namespace"]}
        manifests.add({"apiVersion": "v1", "kind": "Pod", **pod, "metadata": about})


def _add_claims(manifests: Manifests, pod: Object, features: ResourceClaimFeatures) -> None:
    refs = dra_refs(manifests.version)
    known = {status["name"] for status in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
    made = []
    for entry in pod["spec"].get("resourceClaims") or ():
        if entry["name"] in known or not claims.has_template(entry, features):
            continue
        owner = Owner(PODS, pod)
        claim = claim_from(
            _template(manifests, pod, entry, features), owner, entry["name"], refs.claims, features
        )
        metadata = claim["metadata"]
        metadata["name"] = metadata.get("name") or f"{metadata.pop('generateName')}made"
        manifests.add(claim)
        made.append({"name": entry["name"], "resourceClaimName": metadata["name"]})
    if made and features.generated_names:
        status = pod.setdefault("status", {})
        status["resourceClaimStatuses"] = [*(status.get("resourceClaimStatuses") or ()), *made]


def _template(manifests: Manifests, pod: Object, entry: Object, features: ResourceClaimFeatures) -> Object:
    if features.inline_templates:
        inline: Object = entry["template"]
        return inline
    namespace, name = pod["metadata"]["namespace"], claims.template_name(entry, features)
    for template in manifests.of(dra_refs(manifests.version).claim_templates):
        if (template["metadata"]["namespace"], template["metadata"]["name"]) == (namespace, name):
            found: Object = template["spec"]
            return found
    raise UserError(
        f"pod {namespace}/{pod['metadata']['name']}: "
        f"there is no ResourceClaimTemplate {name} in its namespace"
    )


def daemon_pods(node: Object, daemon_sets: list[Object]) -> Iterator[Object]:
    for daemon_set in daemon_sets:
        if belongs(daemon_set, node)[0]:
            pod = pod_from_template(pod_template(daemon_set, ""), daemon_set, DAEMON_SETS)
            metadata = daemon_set["metadata"]
            about = {**pod["metadata"], "name": metadata["name"], "namespace": metadata["namespace"]}
            yield {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": about}
