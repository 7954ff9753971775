"""Keys of etcd as a kube-apiserver writes them, and as the log names them.

Below the registry prefix, built-in resources are at a prefix of their own, which is the same in every minor
that has them; custom resources, and those of the servers of definitions and API services, are at group and
resource. Then comes the namespace, if there is one, and the name. All other keys are one resource of the log,
OPAQUE, which no API resource can be called; a name there is the key, with what is not printable in per cent.

Sources: pkg/kubeapiserver/default_storage_factory_builder.go, k8s.io/apiserver/pkg/server/storage/
storage_factory.go, k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go, 1.31 to 1.36; the
keys that a kube-apiserver 1.36.3 wrote.
"""

import string
from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

import orjson

from kubeskew.apiserver.storage.etcd.backing import ALL_KEYS
from kubeskew.apiserver.storage.records import Entry, Key

REGISTRY = b"/registry/"  # --etcd-prefix
OPAQUE = "etcd:key"
_PRINTABLE = "".join(sorted(set(string.printable) - set(string.whitespace) - {"%"}))

_SPECIAL = {
    "replicationcontrollers": "controllers",
    "endpoints": "services/endpoints",
    "nodes": "minions",
    "services": "services/specs",
    "ingresses.networking.k8s.io": "ingress",
}

# Those at the name of the resource alone.
_PLAIN = """
    certificatesigningrequests.certificates.k8s.io clustercidrs.networking.k8s.io
    clusterrolebindings.rbac.authorization.k8s.io clusterroles.rbac.authorization.k8s.io
    clustertrustbundles.certificates.k8s.io compositepodgroups.scheduling.k8s.io configmaps
    controllerrevisions.apps cronjobs.batch csidrivers.storage.k8s.io csinodes.storage.k8s.io
    csistoragecapacities.storage.k8s.io daemonsets.apps deployments.apps deviceclasses.resource.k8s.io
    devicetaintrules.resource.k8s.io endpointslices.discovery.k8s.io events
    evictionrequests.lifecycle.k8s.io evictions.lifecycle.k8s.io flowschemas.flowcontrol.apiserver.k8s.io
    horizontalpodautoscalers.autoscaling ingressclasses.networking.k8s.io ipaddresses.networking.k8s.io
    jobs.batch leasecandidates.coordination.k8s.io leases.coordination.k8s.io limitranges
    mutatingadmissionpolicies.admissionregistration.k8s.io
    mutatingadmissionpolicybindings.admissionregistration.k8s.io
    mutatingwebhookconfigurations.admissionregistration.k8s.io namespaces
    networkpolicies.networking.k8s.io persistentvolumeclaims persistentvolumes
    podcertificaterequests.certificates.k8s.io poddisruptionbudgets.policy podgroups.scheduling.k8s.io
    pods podschedulingcontexts.resource.k8s.io podschedulings.resource.k8s.io podtemplates
    priorityclasses.scheduling.k8s.io prioritylevelconfigurations.flowcontrol.apiserver.k8s.io
    replicasets.apps resourceclaimparameters.resource.k8s.io resourceclaims.resource.k8s.io
    resourceclaimtemplates.resource.k8s.io resourceclasses.resource.k8s.io
    resourceclassparameters.resource.k8s.io resourcepoolstatusrequests.resource.k8s.io resourcequotas
    resourceslices.resource.k8s.io rolebindings.rbac.authorization.k8s.io roles.rbac.authorization.k8s.io
    runtimeclasses.node.k8s.io secrets serviceaccounts servicecidrs.networking.k8s.io statefulsets.apps
    storageclasses.storage.k8s.io storageversionmigrations.storagemigration.k8s.io
    storageversions.internal.apiserver.k8s.io validatingadmissionpolicies.admissionregistration.k8s.io
    validatingadmissionpolicybindings.admissionregistration.k8s.io
    validatingwebhookconfigurations.admissionregistration.k8s.io volumeattachments.storage.k8s.io
    volumeattributesclasses.storage.k8s.io workloads.scheduling.k8s.io
"""

PREFIXES = {**_SPECIAL, **{resource: resource.partition(".")[0] for resource in _PLAIN.split()}}
_RESOURCES = {prefix: resource for resource, prefix in PREFIXES.items()}


def prefix_of(resource: str) -> str:
    """Comes after the registry prefix, without a slash at the end."""
    if resource in PREFIXES:
        return PREFIXES[resource]
    plural, _, group = resource.partition(".")
    return f"{group}/{plural}" if group else plural


def object_key(key: bytes) -> Key | None:
    """Finds the object of the API that is at `key`; None if none can be."""
    if not key.startswith(REGISTRY):
        return None
    try:
        place = _place_of(key.decode())
    except UnicodeDecodeError:
        return None
    if place is None:
        return None
    resource, rest = place
    if not 1 <= len(rest) <= 2 or not all(rest) or b"\0" in key:
        return None
    found = Key(resource, rest[0] if len(rest) == 2 else "", rest[-1])
    return found if bytes_of(found) == key else None


def _place_of(key: str) -> tuple[str, list[str]] | None:
    """Returns the resource of a key below the registry prefix, and what follows; None if there is none."""
    first, *rest = key[len(REGISTRY) :].split("/")
    resource = _RESOURCES.get(first)
    if resource is None and rest:
        second, *rest = rest
        resource = _RESOURCES.get(f"{first}/{second}")
        if resource is None and "." in first and second and "." not in second:
            resource = f"{second}.{first}"
    return None if resource is None else (resource, rest)


def opaque_key(key: bytes) -> Key:
    return Key(OPAQUE, "", quote_from_bytes(key, safe=_PRINTABLE))


def bytes_of(key: Key) -> bytes:
    if key.resource == OPAQUE:
        return unquote_to_bytes(key.name)
    return b"%b%b/%b" % (REGISTRY, prefix_of(key.resource).encode(), key.path.encode())


def is_at_object(key: Key) -> bool:
    """True for an OPAQUE row that is where API servers expect an object."""
    return object_key(bytes_of(key)) is not None


class Range(NamedTuple):
    """Keys from `key` on and before `end`, as in etcd's requests."""

    key: bytes
    end: bytes

    def covers(self, key: bytes) -> bool:
        if not self.end:
            return key == self.key
        return key >= self.key and (self.end == ALL_KEYS or key < self.end)

    @property
    def resource(self) -> str | None:
        """The API resource that it is in; None if it may reach over others."""
        text = self.key.decode(errors="replace")
        place = _place_of(text) if self.key.startswith(REGISTRY) else None
        if place is None or not place[1]:
            return None
        last = REGISTRY + prefix_of(place[0]).encode() + b"0"  # after everything with a slash there
        return place[0] if not self.end or (self.end != ALL_KEYS and self.end <= last) else None


def object_uid(value: bytes) -> str | None:
    """Reads the uid of a stored object, empty if it has none; None if `value` is no object in JSON."""
    if not value.startswith(b"{"):
        return None
    try:
        obj = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return None
    if not isinstance(obj.get("kind"), str) or not isinstance(obj.get("apiVersion"), str):
        return None
    uid = metadata.get("uid", "")
    return uid if isinstance(uid, str) else None


def opaque_value(value: bytes) -> dict[str, Any]:
    """Shows the value of an OPAQUE row, for readers of objects: JSON as it is, else the text, or base64."""
    try:
        found = orjson.loads(value)
    except orjson.JSONDecodeError:
        found = None
    shown: dict[str, Any] = {"kind": "Key", "metadata": {}}
    if isinstance(found, dict):
        shown |= found
        if not isinstance(shown["metadata"], dict):
            shown["metadata"] = {}
        return shown
    try:
        return {**shown, "text": value.decode()}
    except UnicodeDecodeError:
        return {**shown, "base64": b64encode(value).decode()}


def stored(value: bytes) -> bytes:
    """Encodes an object's value for the log, whose objects have no line's end; `served` is the inverse.

    A space at the end marks values that had none.
    """
    return value[:-1] if value.endswith(b"}\n") else value + b" "


def served(value: bytes) -> bytes:
    """Decodes an object's value of the log: those of our API servers get the line's end that a
    kube-apiserver writes.
    """
    return value[:-1] if value.endswith(b" ") else value + b"\n"


def opaque_objects(entries: Iterable[Entry]) -> Sequence[bytes]:
    """Lists keys at which API servers expect objects, but have values that are none in JSON."""
    places = (entry.key for entry in entries if entry.key.resource == OPAQUE)
    return [bytes_of(place) for place in places if is_at_object(place)]


def refusal(entries: Iterable[Entry]) -> str | None:
    """Says in one line why an emulated API server cannot use a log with these objects; None if it can."""
    found = opaque_objects(entries)
    if not found:
        return None
    first = found[0].decode("utf-8", "backslashreplace")
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return (
        f"the log has objects that are no JSON ({first}{more}): a kube-apiserver must store them with "
        "--storage-media-type=application/json and without encryption, and write them again"
    )
