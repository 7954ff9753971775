"""Restricts a kubelet to writes about its own node and its own pods.

Sources: k8s.io/kubernetes/plugin/pkg/admission/noderestriction/admission.go (podReferencesAudience), 1.36, as
we remember it; its texts are in test/integration/auth/node_test.go;
k8s.io/kubernetes/plugin/pkg/admission/noderestriction/admission.go, 1.36.
"""

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

from kubeskew.apimachinery.errors import GroupResource, not_found
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission import CREATE, DELETE, UPDATE, Attributes, Plugin
from kubeskew.apiserver.admission.plugins.certificates import requested_certificate
from kubeskew.apiserver.authorization import Authorizer
from kubeskew.apiserver.authorization.graph import MIRROR, SLICES, config_map_names, secret_names
from kubeskew.apiserver.authorization.node import LEASES, node_of
from kubeskew.apiserver.features import AdmissionFeatures
from kubeskew.apiserver.http.request import RequestInfo
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Key
from kubeskew.apiserver.unreadable import object_of

_RESTRICTED = "node-restriction.kubernetes.io"
_KUBELET_LABELS = frozenset(
    {
        "kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
        "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "kubernetes.io/os",
        "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
    }
)  # fmt: skip
_KUBELET_NAMESPACES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_CLIENT, _SERVING = "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"

# Kinds of volumes, and of sources of projected ones, that need the API; upstream's order.
_REFERRING_VOLUMES = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_REFERRING_SOURCES = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


class TokenAudiences(NamedTuple):
    """Volumes of the pod need these audiences; the empty text is the server's own."""

    named: frozenset[str]
    trouble: str  # why those of some volumes are not known


class _NotFoundError(Exception):
    """An object on the way from a volume to its driver is not there."""


def token_audiences(store: Store, pod: Object) -> TokenAudiences:
    """Audiences are missing if the driver of a volume cannot be found; `trouble` then has the reason."""
    named: list[str] = []
    troubles: dict[str, None] = {}
    for volume in pod["spec"].get("volumes") or ():
        sources = (volume.get("projected") or {}).get("sources") or ()
        tokens = (source.get("serviceAccountToken") for source in sources)
        named += [token.get("audience") or "" for token in tokens if token is not None]
        try:
            named += _audiences_of_driver(store, _driver(store, pod, volume))
        except _NotFoundError as error:
            troubles[str(error)] = None
    messages = [*troubles]
    return TokenAudiences(frozenset(named), messages[0] if len(messages) == 1 else _listed(messages))


def _listed(messages: list[str]) -> str:
    return f"[{', '.join(messages)}]" if messages else ""


def _driver(store: Store, pod: Object, volume: Object) -> str:
    """Volumes without a CSI driver have the empty name; raises _NotFoundError."""
    namespace = pod["metadata"].get("namespace") or ""
    if volume.get("persistentVolumeClaim"):
        name = volume["persistentVolumeClaim"].get("claimName") or ""
    elif volume.get("ephemeral") is not None:
        name = f"{pod['metadata']['name']}-{volume['name']}"
    else:
        return str((volume.get("csi") or {}).get("driver") or "")
    claim = _get(store, "persistentvolumeclaim", namespace, name).get("spec") or {}
    bound = _get(store, "persistentvolume", "", claim.get("volumeName") or "").get("spec") or {}
    return str((bound.get("csi") or {}).get("driver") or "")


def _audiences_of_driver(store: Store, driver: str) -> Iterator[str]:
    if driver:
        spec = _get(store, "csidriver", "", driver, group=".storage.k8s.io").get("spec") or {}
        yield from (request.get("audience") or "" for request in spec.get("tokenRequests") or ())


def _get(store: Store, singular: str, namespace: str, name: str, *, group: str = "") -> Object:
    entry = store.get(Key(f"{singular}s{group}", namespace, name))
    if entry is None:
        raise _NotFoundError(f'{singular}{group} "{name}" not found')
    return object_of(entry)


class NodeRestriction(Plugin):
    """Looks at what nodes write; everybody else passes."""

    operations = frozenset({CREATE, UPDATE, DELETE})
    subresources = None

    def __init__(self, store: Store, features: AdmissionFeatures, authorizer: Authorizer) -> None:
        self._store = store
        self._authorizer = authorizer
        self._mirrors_may_claim = features.mirrors_may_claim
        self._may_own_node = features.nodes_may_set_owners
        self._checks_all_mirror_references = features.checks_all_mirror_references
        self._checks_audiences = features.checks_node_audiences
        self._authorizes_audiences = features.authorizes_audiences
        self._unknown_volumes_refuse_tokens = features.unknown_volumes_refuse_tokens
        self._checks_requests = features.checks_kubelet_requests
        self._kinds = {
            "pods": self._pod,
            "nodes": self._node,
            "persistentvolumeclaims": _claim,
            "serviceaccounts": self._account,
            "leases.coordination.k8s.io": _lease,
            "csinodes.storage.k8s.io": _csi_node,
            **dict.fromkeys(SLICES, _slice),
            "certificatesigningrequests.certificates.k8s.io": self._request,
        }

    async def admit(self, attributes: Attributes) -> None:
        node = node_of(attributes.user)
        if node is None:
            return
        if not node:
            raise attributes.refuse(f'could not determine node from user "{attributes.user.name}"')
        kind = self._kinds.get(attributes.resource.storage_resource)
        if kind is not None:
            kind(node, attributes)

    # -- pods

    def _pod(self, node: str, attributes: Attributes) -> None:
        subresource, operation = attributes.subresource, attributes.operation
        if subresource == "eviction":
            if self._stored_pod(attributes, attributes.name)["spec"].get("nodeName") != node:
                raise attributes.refuse(f"node {node} can only evict pods with spec.nodeName set to itself")
        elif subresource == "status":
            _pod_status(node, attributes)
        elif subresource:
            allowed = "only 'status' and 'eviction' are allowed"
            raise attributes.refuse(f'unexpected pod subresource "{subresource}", {allowed}')
        elif operation == CREATE:
            self._mirror_pod(node, attributes)
        elif operation != DELETE:
            why = f'node "{node}" can only create and delete mirror pods'
            raise attributes.refuse(f'unexpected operation "{operation}", {why}')
        elif self._stored_pod(attributes, attributes.name)["spec"].get("nodeName") != node:
            raise attributes.refuse(f'node "{node}" can only delete pods with spec.nodeName set to itself')

    def _mirror_pod(self, node: str, attributes: Attributes) -> None:
        pod = attributes.object or {}
        metadata, spec = pod["metadata"], pod["spec"]
        if MIRROR not in (metadata.get("annotations") or {}):
            why = f'pod does not have "{MIRROR}" annotation, node "{node}" can only create mirror pods'
            raise attributes.refuse(why)
        if spec.get("nodeName") != node:
            raise attributes.refuse(f'node "{node}" can only create pods with spec.nodeName set to itself')
        if why := self._wrong_owner(node, metadata.get("ownerReferences") or []):
            raise attributes.refuse(why)
        claims = not self._mirrors_may_claim
        if self._checks_all_mirror_references:
            what = _object_reference(spec, claims=claims)
        else:
            what = _referred(spec) or ("resourceclaims" if claims and spec.get("resourceClaims") else "")
        if what:
            raise attributes.refuse(f'node "{node}" can not create pods that reference {what}')

    def _wrong_owner(self, node: str, owners: list[Object]) -> str:
        only = f'node "{node}" can only create pods with'
        if len(owners) > 1:
            return f"{only} a single owner reference set to itself"
        owner = owners[0] if owners else {}
        if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
            return f"{only} an owner reference set to itself"
        if not owner.get("controller"):
            return f"{only} a controller owner reference set to itself"
        if owner.get("blockOwnerDeletion"):
            return f'node "{node}" must not set blockOwnerDeletion on an owner reference'
        entry = self._store.get(Key("nodes", "", node))
        if entry is None:
            raise not_found(GroupResource("", "node"), node)
        if entry.uid != owner.get("uid"):
            return f"node {node} UID mismatch: expected {owner.get('uid', '')} got {entry.uid}"
        return ""

    def _stored_pod(self, attributes: Attributes, name: str) -> Object:
        entry = self._store.get(Key("pods", attributes.namespace, name))
        if entry is None:
            raise not_found(GroupResource("", "pod"), name)
        return object_of(entry)

    # -- others that need to look further

    def _node(self, node: str, attributes: Attributes) -> None:
        if attributes.name != node:
            raise attributes.refuse(f'node "{node}" is not allowed to modify node "{attributes.name}"')
        if attributes.operation == DELETE:
            return
        new, old = attributes.object or {}, attributes.old
        source = new["spec"].get("configSource")
        if old is None:
            if source is not None:
                raise attributes.refuse(
                    f'node "{node}" is not allowed to create pods with a non-nil configSource'
                )
            if wrong := _forbidden_labels(new, {}):
                raise attributes.refuse(f'node "{node}" is not allowed to set the following labels: {wrong}')
            return
        if source is not None and source != old["spec"].get("configSource"):
            why = "is not allowed to update configSource to a new non-nil configSource"
            raise attributes.refuse(f'node "{node}" {why}')
        if (new["spec"].get("taints") or []) != (old["spec"].get("taints") or []):
            raise attributes.refuse(f'node "{node}" is not allowed to modify taints')
        owners, before = new["metadata"].get("ownerReferences"), old["metadata"].get("ownerReferences")
        if (owners or []) != (before or []) and not self._may_own_node:
            raise attributes.refuse(f'node "{node}" is not allowed to modify ownerReferences')
        if wrong := _forbidden_labels(new, old):
            raise attributes.refuse(f"is not allowed to modify labels: {wrong}")

    def _account(self, node: str, attributes: Attributes) -> None:
        if attributes.operation != CREATE or attributes.subresource != "token":
            return
        reference = ((attributes.object or {}).get("spec") or {}).get("boundObjectRef") or {}
        if (reference.get("apiVersion"), reference.get("kind")) != ("v1", "Pod") or not reference.get("name"):
            raise attributes.refuse("node requested token not bound to a pod")
        if not reference.get("uid"):
            raise attributes.refuse("node requested token with a pod binding without a uid")
        pod = self._stored_pod(attributes, reference["name"])
        if reference["uid"] != pod["metadata"]["uid"]:
            uid = f"the UID in the bound object reference ({reference['uid']})"
            why = "does not match the UID in record. The object might have been deleted and then recreated"
            raise attributes.refuse(f"{uid} {why}")
        if pod["spec"].get("nodeName") != node:
            raise attributes.refuse("node requested token bound to a pod scheduled on a different node")
        if self._checks_audiences:
            self._audience(attributes, pod)

    def _audience(self, attributes: Attributes, pod: Object) -> None:
        """Raises 403 unless a volume of the pod names the token's audience, or the node may request it."""
        audiences = ((attributes.object or {}).get("spec") or {}).get("audiences") or []
        if len(audiences) > 1:
            raise attributes.refuse("node may only request 0 or 1 audiences")
        audience, user = audiences[0] if audiences else "", attributes.user
        wanted = token_audiences(self._store, pod)
        if audience in wanted.named:
            return
        trouble = f'error validating audience "{audience}": {wanted.trouble}' if wanted.trouble else ""
        if trouble and self._unknown_volumes_refuse_tokens:
            raise attributes.refuse(trouble)
        if not self._authorizes_audiences:
            raise attributes.refuse(trouble or f'audience "{audience}" not found in pod spec volume')
        verb, namespace = "request-serviceaccounts-token-audience", attributes.namespace
        info = RequestInfo(True, "", verb, "", "v1", audience, namespace=namespace, name=attributes.name)
        if not self._authorizer.authorize(user, info).allowed:
            why = f"{user.name} is not authorized to request tokens for this audience"
            raise attributes.refuse(trouble or f'audience "{audience}" not found in pod spec volume, {why}')

    def _request(self, node: str, attributes: Attributes) -> None:
        spec = (attributes.object or {}).get("spec") or {}
        if attributes.operation != CREATE or not self._checks_requests:
            return
        if spec.get("signerName") not in {_CLIENT, _SERVING}:
            return
        request = requested_certificate(attributes, "unable to parse csr")
        if request.common_name != f"system:node:{node}":
            raise attributes.refuse(f"can only create a node CSR with CN=system:node:{node}")


def _referred(spec: Object) -> str:
    """Checks as 1.33 and earlier do; empty if the pod refers to no object."""
    if spec.get("serviceAccountName"):
        return "a service account"
    if any(True for _ in secret_names(spec)):
        return "secrets"
    if any(True for _ in config_map_names(spec)):
        return "configmaps"
    volumes = spec.get("volumes") or ()
    sources = [
        source for volume in volumes for source in (volume.get("projected") or {}).get("sources") or ()
    ]
    if any(source.get("clusterTrustBundle") is not None for source in sources):
        return "clustertrustbundles"
    if any(volume.get("persistentVolumeClaim") is not None for volume in volumes):
        return "persistentvolumeclaims"
    return ""


def _object_reference(spec: Object, *, claims: bool) -> str:
    """Checks as pkg/api/pod/util.go does since 1.34; empty if the pod refers to no object.

    Claims stand before volumes, where they were last up to 1.33.
    """
    if spec.get("serviceAccountName"):
        return "serviceaccounts"
    if any(True for _ in secret_names(spec)):
        return "secrets"
    if any(True for _ in config_map_names(spec)):
        return "configmaps"
    if claims and spec.get("resourceClaims"):
        return "resourceclaims"
    for volume in spec.get("volumes") or ():
        for name, what in _REFERRING_VOLUMES.items():
            if volume.get(name) is not None:
                return what
        for source in (volume.get("projected") or {}).get("sources") or ():
            for name, what in _REFERRING_SOURCES.items():
                if source.get(name) is not None:
                    return what
    return ""


def _pod_status(node: str, attributes: Attributes) -> None:
    if attributes.operation != UPDATE:
        raise attributes.refuse(f'unexpected operation "{attributes.operation}"')
    old, new = attributes.old or {}, attributes.object or {}
    if (old.get("spec") or {}).get("nodeName") != node:
        own = "for pods with spec.nodeName set to itself"
        raise attributes.refuse(f'node "{node}" can only update pod status {own}')
    if (old["metadata"].get("labels") or {}) != (new["metadata"].get("labels") or {}):
        raise attributes.refuse(f'node "{node}" cannot update labels through pod status')
    if _claims(old) != _claims(new):
        raise attributes.refuse(f'node "{node}" cannot update resource claim statues')


def _claims(pod: Object) -> list[tuple[str, str | None]]:
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return [(status["name"], status.get("resourceClaimName")) for status in statuses]


def _claim(node: str, attributes: Attributes) -> None:
    if attributes.subresource != "status":
        raise attributes.refuse("may only update PVC status")
    if attributes.operation != UPDATE:
        raise attributes.refuse(f'unexpected operation "{attributes.operation}"')
    if _claim_rest(attributes.old) != _claim_rest(attributes.object):
        why = "is not allowed to update fields other than status.quantity and status.conditions"
        raise attributes.refuse(f'node "{node}" {why}')


def _claim_rest(claim: Object | None) -> Object:
    rest: dict[str, Any] = copy.deepcopy(claim or {})
    for name in ("resourceVersion", "managedFields"):
        rest["metadata"].pop(name, None)
    status = rest.get("status") or {}
    for name in ("capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"):
        status.pop(name, None)
    return rest


def _forbidden_labels(new: Object, old: Object) -> str:
    after = new["metadata"].get("labels") or {}
    before = (old.get("metadata") or {}).get("labels") or {}
    changed = {key for key in after.keys() | before.keys() if after.get(key) != before.get(key)}
    return ", ".join(filter(_is_forbidden, sorted(changed)))


def _is_forbidden(label: str) -> bool:
    namespace, slash, _ = label.partition("/")
    namespace = namespace if slash else ""
    if _within(namespace, _RESTRICTED):
        return True
    if not (_within(namespace, "kubernetes.io") or _within(namespace, "k8s.io")):
        return False
    return label not in _KUBELET_LABELS and not any(
        _within(namespace, domain) for domain in _KUBELET_NAMESPACES
    )


def _within(namespace: str, domain: str) -> bool:
    return namespace == domain or namespace.endswith(f".{domain}")


def _lease(node: str, attributes: Attributes) -> None:
    if attributes.namespace != LEASES:
        raise attributes.refuse(f'can only access leases in the "{LEASES}" system namespace')
    if attributes.name != node:
        raise attributes.refuse("can only access node lease with the same name as the requesting node")


def _csi_node(node: str, attributes: Attributes) -> None:
    if attributes.name != node:
        raise attributes.refuse("can only access CSINode with the same name as the requesting node")


def _slice(node: str, attributes: Attributes) -> None:
    if attributes.operation == UPDATE:
        return
    verb, obj = (
        ("create", attributes.object) if attributes.operation == CREATE else ("delete", attributes.old)
    )
    spec = (obj or {}).get("spec") or obj or {}
    if spec.get("nodeName") != node:
        why = f"{attributes.resource.kind} with the same NodeName as the requesting node"
        raise attributes.refuse(f"can only {verb} {why}")
