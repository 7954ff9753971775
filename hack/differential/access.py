"""Random questions of access: roles, bindings and pods that relate nodes to objects, and who may do what."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.catalogue.table import Catalogue
from kubeskew.apimachinery.resources import Resource

RBAC = "rbac.authorization.k8s.io"
_AUTHORIZATION = "/apis/authorization.k8s.io/v1"
_NAMESPACES = ("a", "b", "kube-system")
_NODES = ("n0", "n1", "n2")
_GROUPS = ("g0", "g1", "g2", "g3")
_VERBS = (
    "*", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "use", "bind",
    "escalate", "impersonate", "approve", "sign", "attest", "none", "",
    "impersonate:user-info", "impersonate:serviceaccount", "impersonate:arbitrary-node",
    "impersonate:associated-node", "impersonate-on:user-info:get", "impersonate-on:user-info:list",
    "impersonate-on:serviceaccount:get",
)  # fmt: skip
_PATHS = (
    "/healthz", "/healthz/ping", "/livez", "/readyz", "/version", "/version/", "/api", "/api/v1", "/apis",
    "/apis/apps", "/apis/apps/v1", "/openapi/v3", "/openid/v1/jwks", "/nothing", "/nothing/here", "/",
    "/apis/none.example.com/v1", "/metrics/slis",
)  # fmt: skip
_PATTERNS = (*_PATHS, "*", "/*", "/api/*", "/healthz*", "/nothing/*", "/apis/*")
_SELECTORS = (
    [{"key": "spec.nodeName", "operator": "In", "values": ["n0"]}],
    [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}],
    [{"key": "spec.nodeName", "operator": "In", "values": ["n0", "n1"]}],
    [{"key": "spec.nodeName", "operator": "NotIn", "values": ["n0"]}],
    [{"key": "metadata.name", "operator": "In", "values": ["p0"]}],
    [{"key": "spec.nodeName", "operator": "Exists"}],
    [],
)
_CONTROLLERS = (
    "deployment-controller", "replicaset-controller", "job-controller", "resourcequota-controller",
    "namespace-controller", "generic-garbage-collector", "resource-claim-controller", "node-controller",
    "endpointslice-controller", "persistent-volume-binder", "certificate-controller",
    "attachdetach-controller",
    "root-ca-cert-publisher", "horizontal-pod-autoscaler", "device-taint-eviction-controller",
    "podgroup-protection-controller", "selinux-warning-controller",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Identity:
    """A user that requests are made as; one with a token authenticates itself, others are impersonated."""

    name: str
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, str], ...] = ()
    token: str = ""

    @property
    def sort(self) -> str:
        """The class that the identity counts to."""
        if self.name.startswith("system:serviceaccount:kube-system:"):
            return "controller"
        return re.sub(r"\d+", "", ":".join(self.name.split(":")[:2]))

    def headers(self) -> Mapping[str, str | Sequence[str]]:
        """The headers of a request of this identity."""
        if self.token:
            return {"Authorization": f"Bearer {self.token}"}
        if self.name == "system:anonymous":
            return {"Authorization": ""}
        return self.impersonated()

    def impersonated(self) -> Mapping[str, str | Sequence[str]]:
        """The headers of a request by which someone else acts as this identity."""
        headers: dict[str, str | Sequence[str]] = {"Impersonate-User": self.name}
        if self.groups:
            headers["Impersonate-Group"] = self.groups
        for key, value in self.extra:
            headers[f"Impersonate-Extra-{key.replace('/', '%2F')}"] = value
        return headers

    def spec(self) -> dict[str, Any]:
        """The user's fields of a SubjectAccessReview."""
        extra: dict[str, list[str]] = {}
        for key, value in self.extra:
            extra.setdefault(key, []).append(value)
        found: dict[str, Any] = {"user": self.name, "groups": list(self.groups), "extra": extra}
        return {key: value for key, value in found.items() if value}


def identities() -> Sequence[Identity]:
    """Everyone that is asked about."""
    signed = "system:authenticated"
    accounts = [
        Identity(
            f"system:serviceaccount:{namespace}:{name}",
            ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", signed),
            (("authentication.kubernetes.io/node-name", "n0"),) if name == "sa0" else (),
        )
        for namespace in ("a", "b")
        for name in ("default", "sa0", "sa1")
    ]
    controllers = [
        Identity(
            f"system:serviceaccount:kube-system:{name}",
            ("system:serviceaccounts", "system:serviceaccounts:kube-system", signed),
        )
        for name in _CONTROLLERS
    ]
    return (
        *(
            Identity(f"u{n}", (*_GROUPS[n % 3 : n % 3 + n % 2 + 1], signed), token=f"user-{n}")
            for n in range(6)
        ),
        *(Identity(f"v{n}", (_GROUPS[n], signed)) for n in range(3)),
        Identity("system:anonymous", ("system:unauthenticated",)),
        *(Identity(f"system:node:{name}", ("system:nodes", signed), token=f"node-{name}") for name in _NODES),
        Identity("system:node:n0", (signed,)),
        Identity("system:node:", ("system:nodes", signed)),
        Identity("other", ("system:nodes", signed)),
        *accounts,
        *controllers,
        Identity("system:kube-scheduler", (signed,)),
        Identity("system:kube-controller-manager", (signed,)),
        Identity("system:kube-proxy", (signed,)),
        Identity("system:bootstrap:abcdef", ("system:bootstrappers", signed)),
        Identity("operator", ("system:masters", signed)),
        Identity("watcher", ("system:monitoring", signed)),
    )


def tokens() -> str:
    """The lines of a token file: an administrator's first."""
    lines = ['admin,admin,admin,"system:masters"']
    for each in identities():
        if each.token:
            groups = ",".join(group for group in each.groups if group != "system:authenticated")
            lines.append(f'{each.token},{each.name},uid-{each.token},"{groups}"')
    return "\n".join(lines) + "\n"


class Access:
    """The objects and the questions of a seed, at one release."""

    def __init__(self, catalogue: Catalogue, seed: int) -> None:
        self._seed = seed
        self._chance = random.Random(seed)
        self.identities = identities()
        self._resources = tuple(
            resource
            for group, versions in catalogue.groups()
            for version in versions
            for resource in catalogue.resources(group, version)
        )
        # Nodes are asked about what their authorizer knows more often than about the rest.
        special = {
            "secrets", "configmaps", "persistentvolumeclaims", "persistentvolumes", "volumeattachments",
            "serviceaccounts", "leases", "csinodes", "resourceslices", "podcertificaterequests",
            "resourceclaims", "nodes", "pods", "events",
        }  # fmt: skip
        self._of_nodes = tuple(each for each in self._resources if each.plural in special)
        self.objects = tuple(self._objects())

    # -- objects

    def _objects(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields the path that an object is posted to, and the object; the last one is a binding."""
        core = "/api/v1"
        for name in ("a", "b"):
            yield f"{core}/namespaces", {"metadata": {"name": name}}
        for namespace in ("a", "b"):
            for name in ("default", "sa0", "sa1"):
                yield f"{core}/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}}
        for name in _NODES:
            yield f"{core}/nodes", {"metadata": {"name": name}}
        for number in range(3):
            yield f"{core}/persistentvolumes", self._volume(number)
            yield (
                "/apis/storage.k8s.io/v1/volumeattachments",
                {
                    "metadata": {"name": f"x{number}"},
                    "spec": {
                        "attacher": "a.example.com",
                        "nodeName": self._chance.choice(_NODES),
                        "source": {"persistentVolumeName": "x0"},
                    },
                },
            )
        for number in range(8):
            namespace = self._chance.choice(("a", "b"))
            yield f"{core}/namespaces/{namespace}/pods", self._pod(number)
        yield from self._rbac()

    def _volume(self, number: int) -> dict[str, Any]:
        secret = {"name": f"x{self._chance.randrange(3)}", "namespace": self._chance.choice(("a", "b"))}
        claim = {"namespace": self._chance.choice(("a", "b")), "name": f"x{self._chance.randrange(3)}"}
        csi = {"driver": "d.example.com", "volumeHandle": "h", "nodePublishSecretRef": secret}
        return {
            "metadata": {"name": f"x{number}"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "csi": csi,
                "claimRef": claim,
            },
        }

    def _pod(self, number: int) -> dict[str, Any]:
        chance = self._chance

        def name() -> str:
            return f"x{chance.randrange(3)}"

        volumes = [
            {"secret": {"secretName": name()}},
            {"configMap": {"name": name()}},
            {"persistentVolumeClaim": {"claimName": name()}},
            {"projected": {"sources": [{"secret": {"name": name()}}, {"configMap": {"name": name()}}]}},
            {"csi": {"driver": "d.example.com", "nodePublishSecretRef": {"name": name()}}},
        ]
        chosen = chance.sample(volumes, chance.randrange(3))
        container: dict[str, Any] = {"name": "main", "image": "a"}
        if chance.random() < 0.4:
            source = chance.choice(("secretRef", "configMapRef"))
            container["envFrom"] = [{source: {"name": name()}}]
        spec: dict[str, Any] = {
            "nodeName": chance.choice((*_NODES, "")),
            "serviceAccountName": chance.choice(("default", "sa0", "sa1")),
            "automountServiceAccountToken": False,
            "containers": [container],
            "volumes": [{"name": f"v{at}", **each} for at, each in enumerate(chosen)],
        }
        if chance.random() < 0.3:
            spec["imagePullSecrets"] = [{"name": name()}]
        if chance.random() < 0.4:
            spec["resourceClaims"] = [{"name": "claim", "resourceClaimName": name()}]
        return {"metadata": {"name": f"x{number}", "labels": {"app": "web"}}, "spec": spec}

    def _rbac(self) -> Iterator[tuple[str, dict[str, Any]]]:
        base, chance = f"/apis/{RBAC}/v1", self._chance
        for number in range(14):
            yield (
                f"{base}/clusterroles",
                {"metadata": {"name": f"r{number}"}, "rules": self.rules(paths=True)},
            )
        for namespace in ("a", "b"):
            for number in range(8):
                yield (
                    f"{base}/namespaces/{namespace}/roles",
                    {"metadata": {"name": f"r{number}"}, "rules": self.rules(paths=False)},
                )
        for number in range(16):
            yield (
                f"{base}/clusterrolebindings",
                {"metadata": {"name": f"b{number}"}, **self._binding(cluster=True)},
            )
        for namespace in ("a", "b"):
            for number in range(12):
                yield (
                    f"{base}/namespaces/{namespace}/rolebindings",
                    {"metadata": {"name": f"b{number}"}, **self._binding(cluster=chance.random() < 0.4)},
                )
        writer = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "writer"}
        rule = {"verbs": ["create", "update", "patch"], "apiGroups": [RBAC], "resources": ["*"]}
        yield f"{base}/clusterroles", {"metadata": {"name": "writer"}, "rules": [rule]}
        groups = [
            {"apiGroup": RBAC, "kind": "Group", "name": name} for name in ("g1", "system:serviceaccounts:a")
        ]
        yield (
            f"{base}/clusterrolebindings",
            {"metadata": {"name": "writer"}, "roleRef": writer, "subjects": groups},
        )
        last = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "last"}
        rule = {"verbs": ["get"], "apiGroups": ["last"], "resources": ["last"]}
        subject = {"apiGroup": RBAC, "kind": "User", "name": "last"}
        yield f"{base}/clusterroles", {"metadata": {"name": "last"}, "rules": [rule]}
        yield (
            f"{base}/clusterrolebindings",
            {"metadata": {"name": "last"}, "roleRef": last, "subjects": [subject]},
        )

    def rules(self, *, paths: bool) -> list[dict[str, Any]]:
        """Returns the rules of a role."""
        chance = self._chance
        found = []
        for _ in range(chance.choice((0, 1, 1, 2, 3))):
            if paths and chance.random() < 0.25:
                found.append({"verbs": self._some_verbs(), "nonResourceURLs": chance.sample(_PATTERNS, 2)})
                continue
            chosen = [self._chance.choice(self._resources) for _ in range(chance.choice((1, 1, 2, 4)))]
            names = [self._plural(chance, each) for each in chosen]
            rule: dict[str, Any] = {
                "verbs": self._some_verbs(),
                "apiGroups": ["*"] if chance.random() < 0.15 else sorted({each.group for each in chosen}),
                "resources": chance.choice((["*"], ["*/status"], ["*/scale"]))
                if chance.random() < 0.12
                else names,
            }
            if chance.random() < 0.25:
                rule["resourceNames"] = [
                    f"x{chance.randrange(3)}",
                    chance.choice(("u0", "g1", "r1", "n0", "")),
                ]
            if chance.random() < 0.12:
                rule["apiGroups"] = chance.choice(([""], ["authentication.k8s.io"]))
                rule["resources"] = chance.sample(
                    (
                        "users",
                        "groups",
                        "serviceaccounts",
                        "uids",
                        "userextras/scopes",
                        "nodes",
                        "userextras/*",
                    ),
                    2,
                )
                rule["verbs"] = chance.sample([verb for verb in _VERBS if "impersonate" in verb], 2)
            if chance.random() < 0.1:
                rule["apiGroups"] = [RBAC]
                rule["resources"] = ["roles", "clusterroles", "rolebindings", "clusterrolebindings"]
                rule["verbs"] = chance.sample(
                    ("create", "update", "patch", "bind", "escalate", "*", "get"), 4
                )
            found.append(rule)
        return found

    def _some_verbs(self) -> list[str]:
        if self._chance.random() < 0.2:
            return ["*"]
        return self._chance.sample([verb for verb in _VERBS if verb], self._chance.choice((1, 2, 4, 8)))

    def _plural(self, chance: random.Random, resource: Resource) -> str:
        subresources = sorted(resource.subresources)
        if subresources and chance.random() < 0.35:
            return f"{resource.plural}/{chance.choice(subresources)}"
        return resource.plural

    def _binding(self, *, cluster: bool) -> dict[str, Any]:
        chance = self._chance
        if cluster:
            own = f"r{chance.randrange(16)}"  # two of these there are not
            name = (
                chance.choice(("view", "edit", "admin", "system:node", "system:auth-delegator", own))
                if chance.random() < 0.3
                else own
            )
        else:
            name = f"r{chance.randrange(9)}"
        return {
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole" if cluster else "Role", "name": name},
            "subjects": [self._subject() for _ in range(chance.choice((1, 1, 2, 3)))],
        }

    def _subject(self) -> dict[str, Any]:
        chance = self._chance
        if chance.random() < 0.3:
            return {
                "kind": "ServiceAccount",
                "name": chance.choice(("default", "sa0", "sa1")),
                "namespace": chance.choice(("a", "b")),
            }
        if chance.random() < 0.5:
            name = chance.choice(
                (*_GROUPS, "system:authenticated", "system:serviceaccounts:a", "system:unauthenticated")
                if chance.random() < 0.4
                else _GROUPS
            )
            return {"apiGroup": RBAC, "kind": "Group", "name": name}
        return {
            "apiGroup": RBAC,
            "kind": "User",
            "name": chance.choice(
                [each.name for each in self.identities if not each.name.startswith("system:")]
            ),
        }

    # -- questions

    def question(self, number: int) -> dict[str, Any]:
        """Returns a request: what it asks about, its method, path, headers and body."""
        self._chance = random.Random(self._seed << 32 | number + 1)
        makers = (
            self._review, self._own_review, self._rules_review, self._request, self._impersonation,
            self._escalation, self._of_node,
        )  # fmt: skip
        return self._chance.choices(makers, (50, 5, 3, 17, 9, 8, 8))[0]()

    def _attributes(self, who: Identity) -> dict[str, Any]:
        chance = self._chance
        if chance.random() < 0.12:
            verb = chance.choice(("get", "get", "post", "put", "delete", "head", "*", ""))
            return {"nonResourceAttributes": {"verb": verb, "path": chance.choice(_PATTERNS)}}
        node = who.name.startswith("system:node:")
        resource = chance.choice(self._of_nodes if node and chance.random() < 0.8 else self._resources)
        found: dict[str, Any] = {
            "group": resource.group,
            "resource": resource.plural,
            "version": resource.version,
            "verb": chance.choice(
                sorted(resource.verbs) if resource.verbs and chance.random() < 0.75 else _VERBS
            ),
        }
        if resource.namespaced and chance.random() < 0.85:
            found["namespace"] = chance.choice(_NAMESPACES)
        if chance.random() < 0.6:
            found["name"] = chance.choice((*(f"x{n}" for n in range(4)), "n0", "n1", "sa0", "default", "r1"))
        if resource.subresources and chance.random() < 0.3:
            found["subresource"] = chance.choice((*sorted(resource.subresources), "status", "none"))
        if chance.random() < 0.05:
            found[chance.choice(("group", "resource", "version"))] = chance.choice(("*", "", "none"))
        if found["verb"] in {"list", "watch", "deletecollection"} and chance.random() < 0.5:
            found["fieldSelector"] = self._selector()
        if chance.random() < 0.04:
            found["labelSelector"] = chance.choice(
                (
                    {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]},
                    {"rawSelector": "a in (b"},
                )
            )
        return {"resourceAttributes": found}

    def _selector(self) -> dict[str, Any]:
        raw = (
            "spec.nodeName=n0",
            "spec.nodeName=n1",
            "spec.nodeName!=n0",
            "spec.nodeName=n0,a=b",
            "a=b=c",
            "=",
        )
        if self._chance.random() < 0.5:
            return {"rawSelector": self._chance.choice(raw)}
        chosen = self._chance.choice(_SELECTORS)
        return {"requirements": chosen} if chosen or self._chance.random() < 0.5 else {}

    def _review(self) -> dict[str, Any]:
        chance = self._chance
        who = chance.choice(self.identities)
        attributes = self._attributes(who)
        spec = {**who.spec(), **attributes}
        namespace = (attributes.get("resourceAttributes") or {}).get("namespace")
        if chance.random() < 0.1:
            path = f"/namespaces/{chance.choice((namespace or 'a', 'b'))}/localsubjectaccessreviews"
            kind = "LocalSubjectAccessReview"
        else:
            path, kind = "/subjectaccessreviews", "SubjectAccessReview"
        return self._asked(kind, who, path, spec)

    def _own_review(self) -> dict[str, Any]:
        who = self._chance.choice(self.identities)
        spec = self._attributes(who)
        return self._asked("SelfSubjectAccessReview", who, "/selfsubjectaccessreviews", spec, own=True)

    def _rules_review(self) -> dict[str, Any]:
        who = self._chance.choice(self.identities)
        spec = {"namespace": self._chance.choice((*_NAMESPACES, "none"))}
        return self._asked("SelfSubjectRulesReview", who, "/selfsubjectrulesreviews", spec, own=True)

    def _asked(
        self, kind: str, who: Identity, path: str, spec: dict[str, Any], *, own: bool = False
    ) -> dict[str, Any]:
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        return {
            "about": f"{kind} {who.sort}",
            "method": "POST",
            "path": f"{_AUTHORIZATION}{path}",
            "headers": who.headers() if own else {},
            "body": body,
        }

    def _request(self, who: Identity | None = None, resources: Sequence[Resource] = ()) -> dict[str, Any]:
        chance = self._chance
        who = who or chance.choice(self.identities)
        if chance.random() < 0.1 and not resources:
            path = chance.choice(_PATHS)
            return {
                "about": f"GET path {who.sort}",
                "method": "GET",
                "path": path,
                "headers": who.headers(),
            }
        resource = chance.choice(resources or self._resources)
        namespace = chance.choice(_NAMESPACES) if resource.namespaced and chance.random() < 0.9 else ""
        name = chance.choice((*(f"x{n}" for n in range(4)), "n0", "n1", "sa0", "default", "r1"))
        root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        path = (
            f"{root}/namespaces/{namespace}/{resource.plural}" if namespace else f"{root}/{resource.plural}"
        )
        verb = chance.choice(sorted(resource.verbs) or ["create"])
        method, query = "GET", ""
        if verb in {"get", "update", "patch", "delete"} and (namespace or not resource.namespaced):
            path += f"/{name}"
            subresources = [each for each in ("status", "scale", "approval") if each in resource.subresources]
            if subresources and verb != "delete" and chance.random() < 0.4:
                path += f"/{chance.choice(subresources)}"
        elif chance.random() < 0.3:
            query = "?fieldSelector=spec.nodeName%3D" + chance.choice(_NODES)
        body: dict[str, Any] | None = None
        if verb in {"create", "update", "patch"}:
            method = {"create": "POST", "update": "PUT", "patch": "PATCH"}[verb]
            body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
        elif verb in {"delete", "deletecollection"}:
            method = "DELETE"
        if method != "GET":
            query += "&dryRun=All" if query else "?dryRun=All"
        return _sent(f"{method} {resource.plural} {who.sort}", who, method, path + query, body)

    def _of_node(self) -> dict[str, Any]:
        """A request of a node, about what its authorizer and NodeRestriction look at."""
        chance = self._chance
        who = chance.choice([each for each in self.identities if each.token.startswith("node-")])
        if chance.random() < 0.4:
            return self._request(who, self._of_nodes)
        node, pod = chance.choice(_NODES), f"x{chance.randrange(8)}"
        namespace = chance.choice(("a", "b"))
        core = f"/api/v1/namespaces/{namespace}"
        account = chance.choice(("default", "sa0", "sa1"))
        mirror = {"kubernetes.io/config.mirror": "m"} if chance.random() < 0.7 else {}
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": "u", "controller": True}
        made = {
            "metadata": {
                "name": "mirror",
                "annotations": mirror,
                "ownerReferences": [owner] if chance.random() < 0.5 else [],
            },
            "spec": {
                "nodeName": chance.choice(_NODES),
                "containers": [{"name": "main", "image": "a"}],
                **({"serviceAccountName": "sa0"} if chance.random() < 0.2 else {}),
            },
        }
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": "u"}
        token = {"spec": {"audiences": ["a"], **({"boundObjectRef": bound} if chance.random() < 0.7 else {})}}
        labels = chance.choice(
            (
                {"a": "b"},
                {"node-restriction.kubernetes.io/a": "b"},
                {"kubernetes.io/os": "x"},
                {"k8s.io/x": "y"},
            )
        )
        lease = {"metadata": {"name": node}, "spec": {"holderIdentity": node}}
        slice_ = {
            "metadata": {"name": "s"},
            "spec": {
                "driver": "d.example.com",
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                "nodeName": node,
            },
        }
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{chance.choice(('kube-node-lease', 'a'))}/leases"
        csi = {"metadata": {"name": node}, "spec": {"drivers": []}}
        choices: Sequence[tuple[str, str, dict[str, Any] | None]] = (
            ("POST", f"{core}/pods", made),
            ("POST", f"{core}/pods/{pod}/eviction", {"metadata": {"name": pod, "namespace": namespace}}),
            ("PATCH", f"{core}/pods/{pod}/status", {"status": {"phase": "Running"}}),
            ("PATCH", f"{core}/pods/{pod}/status", {"metadata": {"labels": labels}}),
            ("PATCH", f"{core}/pods/{pod}", {"metadata": {"labels": labels}}),
            ("DELETE", f"{core}/pods/{pod}", None),
            ("POST", f"{core}/serviceaccounts/{account}/token", token),
            ("POST", "/api/v1/nodes", {"metadata": {"name": node, "labels": labels}}),
            ("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}}),
            ("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
            ("PATCH", f"/api/v1/nodes/{node}/status", {"metadata": {"labels": labels}}),
            ("PATCH", f"/api/v1/nodes/{node}/status", {"status": {"capacity": {"cpu": "1"}}}),
            ("POST", leases, lease),
            ("POST", "/apis/storage.k8s.io/v1/csinodes", csi),
            ("POST", "/apis/resource.k8s.io/v1/resourceslices", slice_),
            ("POST", "/apis/resource.k8s.io/v1beta1/resourceslices", slice_),
        )  # fmt: skip
        method, path, body = chance.choice(choices)
        what = path.rsplit("/", 1)[-1] if method == "POST" else path.split("/")[-2]
        return _sent(f"{method} {what} node", who, method, f"{path}?dryRun=All", body)

    def _impersonation(self) -> dict[str, Any]:
        """A request of a user with a token, which acts as another one."""
        chance = self._chance
        who = chance.choice([each for each in self.identities if each.token.startswith("user-")])
        other = chance.choice(self.identities)
        asked = self._request(who)
        headers = {**asked["headers"], **other.impersonated()}
        if chance.random() < 0.15:
            headers["Impersonate-Uid"] = "x0"
        if chance.random() < 0.15 and not other.extra:  # else a real server walks through a map
            headers["Impersonate-Extra-Scopes"] = chance.choice(("x0", "x1"))
        if chance.random() < 0.3:
            headers.pop("Impersonate-Group", None)
        if chance.random() < 0.03:
            headers.pop("Impersonate-User")
        return {**asked, "headers": headers, "about": f"impersonation {other.sort}"}

    def _escalation(self) -> dict[str, Any]:
        """A write of a role or a binding by someone who may not have all that it gives."""
        chance = self._chance
        who = chance.choice(self.identities)
        cluster = chance.random() < 0.5
        base = f"/apis/{RBAC}/v1"
        if not cluster:
            base += f"/namespaces/{chance.choice(('a', 'b'))}"
        name = f"r{chance.randrange(9)}" if chance.random() < 0.8 else "new"
        if chance.random() < 0.5:
            plural, kind = ("clusterroles", "ClusterRole") if cluster else ("roles", "Role")
            body: dict[str, Any] = {"rules": self.rules(paths=cluster)}
            if cluster and chance.random() < 0.15:
                body["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
        else:
            plural, kind = (
                ("clusterrolebindings", "ClusterRoleBinding") if cluster else ("rolebindings", "RoleBinding")
            )
            name = name.replace("r", "b")
            body = self._binding(cluster=cluster or chance.random() < 0.4)
        body = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name}, **body}
        method = chance.choice(("POST", "PUT", "PATCH"))
        path = f"{base}/{plural}" if method == "POST" else f"{base}/{plural}/{name}"
        if method == "POST":
            body["metadata"]["name"] = f"new-{name}"
        return _sent(f"{method} {plural} {who.sort}", who, method, f"{path}?dryRun=All", body)


def _sent(about: str, who: Identity, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
    """Returns a request of an identity; patches are merged."""
    headers = dict(who.headers())
    if method == "PATCH":
        headers["Content-Type"] = "application/merge-patch+json"
    sent = {"about": about, "method": method, "path": path, "headers": headers}
    return sent if body is None else {**sent, "body": body}
