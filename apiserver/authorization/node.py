"""Authorizes kubelets: for what the pods of their node need, and for the rest of the role system:node.

Source: k8s.io/kubernetes/plugin/pkg/auth/authorizer/node/node_authorizer.go and
pkg/auth/nodeidentifier/default.go, 1.36.
"""

from collections.abc import Callable, Sequence

from kubeskew.apimachinery.selectors.labels import SelectorError
from kubeskew.apiserver.authorization import NO_OPINION, Decision, Rules
from kubeskew.apiserver.authorization.graph import CERTIFICATES, PODS, VOLUMES, Graph
from kubeskew.apiserver.authorization.rbac import Rule
from kubeskew.apiserver.features import AccountFeatures
from kubeskew.apiserver.http.parameters import FieldSelector
from kubeskew.apiserver.http.request import RequestInfo
from kubeskew.apiserver.user import User

_PREFIX = "system:node:"
NODES_GROUP = "system:nodes"
LEASES = "kube-node-lease"
_ALLOWED = Decision(True)
_OWN = frozenset({"get", "create", "update", "patch", "delete"})
_READ = frozenset({"get", "list", "watch"})
_WRITE = frozenset({"update", "patch"})
_SLICES = {"resourceslices": "ResourceSlice", "noderesourceslices": "NodeResourceSlice"}


def node_of(user: User) -> str | None:
    """None if the user is no node; empty if its name does not say which."""
    if not user.name.startswith(_PREFIX) or NODES_GROUP not in user.groups:
        return None
    return user.name.removeprefix(_PREFIX)


class NodeAuthorizer:
    """Users that are no nodes get no opinion. `rules` are those of the role system:node."""

    def __init__(self, graph: Graph, features: AccountFeatures, rules: Sequence[Rule]) -> None:
        self._graph = graph
        self._rules = tuple(rules)
        self._by_selector = features.node_selectors
        self._features = features
        self._kinds: dict[tuple[str, str], Callable[[str, RequestInfo], Decision]] = {
            ("", "secrets"): self._read,
            ("", "configmaps"): self._read,
            ("", "persistentvolumeclaims"): self._claim,
            ("", VOLUMES): self._get,
            ("storage.k8s.io", "volumeattachments"): self._get,
            ("", "serviceaccounts"): self._account,
            ("coordination.k8s.io", "leases"): self._lease,
            ("storage.k8s.io", "csinodes"): _csi_node,
            **{("resource.k8s.io", plural): self._slice for plural in _SLICES},
            ("certificates.k8s.io", "podcertificaterequests"): self._certificate,
        }
        if features.claims_by_relation:
            self._kinds["resource.k8s.io", "resourceclaims"] = self._get
        if self._by_selector:
            self._kinds["", "nodes"] = _node
            self._kinds["", PODS] = self._pod

    def authorize(self, user: User, info: RequestInfo) -> Decision:
        node = node_of(user)
        if node is None:
            return NO_OPINION
        if not node:
            return Decision(False, f'unknown node for user "{user.name}"')
        if info.is_resource and (kind := self._kinds.get((info.group, info.resource))):
            return kind(node, info)
        return _ALLOWED if any(rule.allows(info) for rule in self._rules) else NO_OPINION

    def rules(self, user: User, _namespace: str) -> Rules:
        if node_of(user) is None:
            return Rules()
        return Rules(incomplete=True, error="node authorizer does not support user rule resolution")

    # -- by relation

    def _related(self, node: str, info: RequestInfo, resource: str = "") -> Decision:
        if not info.name:
            return Decision(False, "No Object name found")
        what = resource or (f"{info.resource}.{info.group}" if info.group else info.resource)
        if self._graph.related(node, (what, info.namespace, info.name)):
            return _ALLOWED
        return Decision(False, f"no relationship found between node '{node}' and this object")

    def _get(self, node: str, info: RequestInfo) -> Decision:
        if info.verb != "get":
            return Decision(False, "can only get individual resources of this type")
        if info.subresource:
            return Decision(False, "cannot get subresource")
        return self._related(node, info)

    def _read(self, node: str, info: RequestInfo) -> Decision:
        if info.verb not in _READ:
            return Decision(False, "can only read resources of this type")
        if info.subresource:
            return Decision(False, "cannot read subresource")
        if not info.namespace:
            return Decision(False, "can only read namespaced object of this type")
        return self._related(node, info)

    def _claim(self, node: str, info: RequestInfo) -> Decision:
        if info.subresource != "status":
            return self._get(node, info)
        if info.verb not in _WRITE:
            return Decision(False, "can only get/update/patch this type")
        return self._related(node, info)

    def _account(self, node: str, info: RequestInfo) -> Decision:
        if self._features.nodes_ask_for_accounts and info.verb == "get" and not info.subresource:
            if not self._features.nodes_read_accounts:
                return Decision(False, "not allowed to get service accounts")
            return self._read(node, info)
        if info.verb != "create" or not info.name:
            return Decision(False, "can only create tokens for individual service accounts")
        if info.subresource != "token":
            return Decision(False, "can only create token subresource of serviceaccount")
        return self._related(node, info)

    # -- by name

    def _lease(self, node: str, info: RequestInfo) -> Decision:
        if info.verb not in _OWN:
            return Decision(False, "can only get, create, update, patch, or delete a node lease")
        if info.namespace != LEASES:
            return Decision(False, f'can only access leases in the "{LEASES}" system namespace')
        if info.verb != "create" and info.name != node:
            return Decision(False, "can only access node lease with the same name as the requesting node")
        return _ALLOWED

    def _slice(self, node: str, info: RequestInfo) -> Decision:
        kind = _SLICES[info.resource]
        if info.subresource:
            return Decision(False, f"cannot authorize {kind} subresources")
        if info.verb == "create":
            return _ALLOWED  # NodeRestriction sees the object
        if info.verb in {"get", "update", "patch", "delete"}:
            return self._related(node, info)
        if info.verb not in {"watch", "list", "deletecollection"}:
            verbs = "get, watch, list, create, update, patch, delete, deletecollection"
            return Decision(False, f"only the following verbs are allowed for a {kind}: {verbs}")
        if not self._by_selector or _selects(info, "spec.nodeName", node):
            return _ALLOWED
        return Decision(
            False, f"can only list/watch/deletecollection {info.resource} with nodeName field selector"
        )

    def _pod(self, node: str, info: RequestInfo) -> Decision:
        verb, subresource = info.verb, info.subresource
        if not subresource and verb == "get":
            return self._get(node, info)
        if not subresource and verb in {"list", "watch"}:
            if _selects(info, "spec.nodeName", node):
                return _ALLOWED
            if info.name:
                return self._related(node, info)
            return Decision(False, "can only list/watch pods with spec.nodeName field selector")
        # NodeRestriction looks at whose pod it is.
        own = {"": {"create", "delete"}, "status": _WRITE, "eviction": {"create"}}
        return _ALLOWED if verb in own.get(subresource, ()) else NO_OPINION

    def _certificate(self, node: str, info: RequestInfo) -> Decision:
        if info.subresource:
            return Decision(False, "nodes may not access the status subresource of PodCertificateRequests")
        if info.verb == "create":
            return _ALLOWED
        if info.verb == "get":
            return self._related(node, info, CERTIFICATES)
        if info.verb in {"list", "watch"}:
            if _selects(info, "spec.nodeName", node):
                return _ALLOWED
            return Decision(False, "can only list/watch podcertificaterequests with nodeName field selector")
        return Decision(False, f"unrecognized verb: {info.verb}")


def _csi_node(node: str, info: RequestInfo) -> Decision:
    if info.verb not in _OWN:
        return Decision(False, "can only get, create, update, patch, or delete a CSINode")
    if info.subresource:
        return Decision(False, "cannot authorize CSINode subresources")
    if info.verb != "create" and info.name != node:
        return Decision(False, "can only access CSINode with the same name as the requesting node")
    return _ALLOWED


def _node(node: str, info: RequestInfo) -> Decision:
    if not info.subresource and info.verb in {"create", "update", "patch"}:
        return _ALLOWED
    if info.subresource == "status" and info.verb in _WRITE:
        return _ALLOWED
    if info.subresource or info.verb not in _READ:
        return NO_OPINION
    if info.name == node:
        return _ALLOWED
    if not info.name:
        return Decision(False, f"node '{node}' cannot read all nodes, only its own Node object")
    return Decision(False, f"node '{node}' cannot read '{info.name}', only its own Node object")


def _selects(info: RequestInfo, field: str, value: str) -> bool:
    """False for a selector that cannot be parsed."""
    try:
        return FieldSelector.parse(info.field_selector).exact_match(field) == value
    except SelectorError:
        return False
