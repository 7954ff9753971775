"""The objects that the smoke of a release creates: one of every kind that behaves."""

import re
from typing import Any

from asking import Local

_TROUBLE = re.compile(r" [EF] |Traceback|ERROR|CRITICAL|cannot be decoded")

WORKLOADS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template: &template
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "img:1", ports: [{containerPort: 80}]}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: default}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: "img:1"}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: default}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: "img:1", command: [sh, -c, "echo hello; sleep 1000"]}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once, namespace: default}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, command: ["true"]}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: often, namespace: default}
spec:
  schedule: "* * * * *"
  jobTemplate:
    spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, command: ["true"]}]}}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: db, namespace: default}
spec: {minAvailable: 2, selector: {matchLabels: {app: db}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: limited}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: few, namespace: limited}
spec: {hard: {count/configmaps: "3", requests.cpu: "1"}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: defaults, namespace: limited}
spec: {limits: [{type: Container, defaultRequest: {cpu: 100m}, max: {cpu: 500m}}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: jane, namespace: default}
subjects: [{kind: User, name: jane, apiGroup: rbac.authorization.k8s.io}]
roleRef: {kind: ClusterRole, name: view, apiGroup: rbac.authorization.k8s.io}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
"""

CONFIG_MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
ONLY_DEFAULT = {"matchLabels": {"kubernetes.io/metadata.name": "default"}}


def definition(webhook: dict[str, Any]) -> dict[str, Any]:
    """Sizes in two versions that a webhook converts, with status, scale, a default and a rule."""

    def version(name: str, field: str, *, storage: bool) -> dict[str, Any]:
        spec = {
            "type": "object",
            "properties": {field: {"type": "integer", "default": 1}},
            "x-kubernetes-validations": [{"rule": f"self.{field} < 10", "message": "too many"}],
        }
        counted = {"type": "object", "properties": {"count": {"type": "integer"}}}
        schema = {"type": "object", "properties": {"spec": spec, "status": counted}}
        scale = {"specReplicasPath": f".spec.{field}", "statusReplicasPath": ".status.count"}
        return {
            "name": name,
            "served": True,
            "storage": storage,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": scale},
        }

    client = {**webhook, "url": webhook["url"].replace("/admit", "/convert")}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "sizes.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "sizes", "singular": "size", "kind": "Size"},
            "versions": [version("v1", "size", storage=True), version("v2", "replicas", storage=False)],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
            },
        },
    }


def mutating_webhook(client: dict[str, Any]) -> dict[str, Any]:
    """Labels config maps of namespace `default`, refuses those called `bad`."""
    hook = {
        "name": "maps.example.com",
        "clientConfig": client,
        "rules": [{**CONFIG_MAPS, "operations": ["CREATE"]}],
        "namespaceSelector": ONLY_DEFAULT,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "maps"},
        "webhooks": [hook],
    }


def policy(api_version: str, kind: str) -> dict[str, Any]:
    """A validating policy against config maps with `forbidden`, or a mutating one that sets a label."""
    rules = [{**CONFIG_MAPS, "operations": ["CREATE"]}]
    match = {"namespaceSelector": ONLY_DEFAULT, "resourceRules": rules}
    spec: dict[str, Any] = {"matchConstraints": match, "failurePolicy": "Fail"}
    if kind.startswith("Validating"):
        spec["validations"] = [{"expression": "!has(object.data.forbidden)", "message": "policy says no"}]
    else:
        mutation = 'Object{metadata: Object.metadata{annotations: {"policy": "was here"}}}'
        spec["reinvocationPolicy"] = "Never"
        applied = {"expression": mutation}
        spec["mutations"] = [{"patchType": "ApplyConfiguration", "applyConfiguration": applied}]
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "maps"}, "spec": spec}


def binding(api_version: str, kind: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"policyName": "maps"}
    if kind.startswith("Validating"):
        spec["validationActions"] = ["Deny"]
    return {"apiVersion": api_version, "kind": f"{kind}Binding", "metadata": {"name": "maps"}, "spec": spec}


def trouble(local: Local) -> list[str]:
    """Returns the errors that components have logged, but for what was forbidden while the cluster started.

    Components start next to the API server, as kubeadm's do. What they may do is there when it has started;
    before, upstream's components log the same. `up` returns when all have done what they begin with.
    """
    started = min(local.ups)
    logs = sorted((local.state / "logs").iterdir())
    lines = [line for log in logs for line in log.read_text().splitlines() if _TROUBLE.search(line)]
    return [line for line in lines if line > started or "is forbidden: " not in line]
