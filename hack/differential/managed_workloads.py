"""Makes random histories for the controller manager: workloads, what a kubelet would say of their pods, and
deletions in all orders."""

import random
from collections.abc import Mapping
from typing import Any

from placements import resource_version
from worlds import MERGE, Object

# Gates that controllers read, of which --flip turns some around.
GATES = (
    "DeploymentReplicaSetTerminatingReplicas", "JobManagedBy", "JobPodReplacementPolicy", "JobSuccessPolicy",
    "JobBackoffLimitPerIndex", "ElasticIndexedJob", "MaxUnavailableStatefulSet", "OrderedNamespaceDeletion",
    "PodDeletionCost", "LogarithmicScaleDown", "StatefulSetAutoDeletePVC", "PodIndexLabel",
    "StatefulSetSemanticRevisionComparison", "MutablePodResourcesForSuspendedJobs",
    "PreferSameTrafficDistribution", "VolumeAttributesClass", "PersistentVolumeClaimUnusedSinceTime",
)  # fmt: skip

_CORE, _APPS, _BATCH = "/api/v1", "/apis/apps/v1", "/apis/batch/v1"
_PATHS = {
    "Deployment": (_APPS, "deployments"),
    "ReplicaSet": (_APPS, "replicasets"),
    "StatefulSet": (_APPS, "statefulsets"),
    "DaemonSet": (_APPS, "daemonsets"),
    "Job": (_BATCH, "jobs"),
    "ReplicationController": (_CORE, "replicationcontrollers"),
}
_KINDS = (
    "Deployment",
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "Job",
    "Job",
)
_ACTS = (
    "run",
    "run",
    "run",
    "run",
    "ready",
    "unready",
    "succeed",
    "fail",
    "reap",
    "reap",
    "delete",
    "relabel",
)
_NODES = 2


def path_of(kind: str, name: str = "") -> str:
    """Returns the path of a workload's collection, or of one."""
    base, plural = _PATHS[kind]
    return f"{base}/namespaces/${{run}}/{plural}" + (f"/{name}" if name else "")


class Workloads:
    """Makes the steps of a history: requests, and what is done to some of the pods (`act`)."""

    def __init__(self, seed: int, minor: int, gates: Mapping[str, bool]) -> None:
        self.chance = random.Random(f"workloads-{seed}")
        self.steps: list[Object] = []
        self.gates = gates
        self._minor = minor
        self._made: list[tuple[str, str, Object]] = []

    def request(self, method: str, path: str, body: Any = None, content: str = "", **more: Any) -> None:
        step: Object = {"method": method, "path": path, **more}
        if body is not None:
            step["body"] = body
        if content:
            step["content"] = content
        self.steps.append(step)

    def wait(self) -> None:
        if self.steps and self.steps[-1].get("path"):
            self.steps[-1]["waits"] = True
        else:
            self.steps[-1] |= {"waits": True}

    def make(self) -> list[Object]:
        chance = self.chance
        self._start()
        if chance.random() < 0.15:
            self._quota()
        if chance.random() < 0.1:
            self._owners()
        for number in range(chance.choice((1, 1, 2))):
            self._workload(number)
        self.wait()  # a budget counts the pods that there are when it comes
        if chance.random() < 0.3:
            self._budget()
        if chance.random() < 0.3:
            self._service()
        self.wait()
        for _ in range(chance.randrange(3, 8)):
            self._step()
            self.wait()  # so that both have the same pods to act on
        return self.steps

    def _start(self) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "${run}"}}
        self.request("POST", "/api/v1/namespaces", namespace)
        for number in range(_NODES):
            name = f"${{run}}-node-{number}"
            labels = {"kubernetes.io/hostname": name, "run": "${run}"}
            status = {
                "capacity": {"cpu": "8", "memory": "8Gi", "pods": "110"},
                "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            }
            body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
            self.request("POST", "/api/v1/nodes", {**body, "status": status})
            self.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, MERGE)

    # -- what is made

    def _template(self, app: str, **spec: Any) -> Object:
        chance = self.chance
        container: Object = {"name": "c", "image": "app:v1"}
        if chance.random() < 0.3:
            container["resources"] = {"requests": {"cpu": "100m"}}
        made: Object = {"containers": [container], **spec}
        if chance.random() < 0.1:
            made["tolerations"] = [{"key": "bad", "operator": "Exists", "effect": "NoExecute"}]
        return {"metadata": {"labels": {"app": app}}, "spec": made}

    def _workload(self, number: int) -> None:
        chance = self.chance
        kind, name = chance.choice(_KINDS), "abc"[number]
        spec: Object = getattr(self, f"_{kind.lower()}")(name)
        api = "batch/v1" if kind == "Job" else "apps/v1"
        body = {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.request("POST", path_of(kind), body)
        self._made.append((kind, name, spec))

    def _selected(self, name: str) -> Object:
        return {
            "replicas": self.chance.choice((0, 1, 2, 3)),
            "selector": {"matchLabels": {"app": name}},
            "template": self._template(name),
        }

    def _deployment(self, name: str) -> Object:
        chance, made = self.chance, self._selected(name)
        if chance.random() < 0.3:
            made["strategy"] = {"type": "Recreate"}
        elif chance.random() < 0.5:
            values = (0, 1, 2, "25%", "50%")
            surge, unavailable = chance.choice(values), chance.choice(values)
            rolling = {"maxSurge": surge, "maxUnavailable": unavailable if surge else unavailable or 1}
            made["strategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
        if chance.random() < 0.2:
            made["revisionHistoryLimit"] = chance.choice((0, 1))
        if chance.random() < 0.15:
            made["paused"] = True
        if chance.random() < 0.2:
            made["minReadySeconds"] = chance.choice((1, 10))
        return made

    def _replicaset(self, name: str) -> Object:
        made = self._selected(name)
        if self.chance.random() < 0.2:
            made["minReadySeconds"] = 10
        return made

    def _statefulset(self, name: str) -> Object:
        chance, made = self.chance, self._selected(name)
        made["serviceName"] = name
        if chance.random() < 0.4:
            made["podManagementPolicy"] = "Parallel"
        if chance.random() < 0.4:
            rolling: Object = {"partition": chance.choice((0, 1, 2))}
            if self.gates.get("MaxUnavailableStatefulSet"):
                rolling["maxUnavailable"] = chance.choice((1, 2, "50%"))
            made["updateStrategy"] = chance.choice(
                ({"type": "OnDelete"}, {"type": "RollingUpdate", "rollingUpdate": rolling})
            )
        if chance.random() < 0.3:
            made["ordinals"] = {"start": chance.choice((1, 3))}
        if chance.random() < 0.3:
            claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            made["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
            if chance.random() < 0.6:
                values = ("Retain", "Delete")
                made["persistentVolumeClaimRetentionPolicy"] = {
                    "whenDeleted": chance.choice(values),
                    "whenScaled": chance.choice(values),
                }
        return made

    def _daemonset(self, name: str) -> Object:
        chance, made = self.chance, self._selected(name)
        del made["replicas"]
        made["template"]["spec"]["nodeSelector"] = {"run": "${run}"}
        if chance.random() < 0.4:
            rolling = chance.choice(
                ({"maxUnavailable": 1}, {"maxUnavailable": 0, "maxSurge": 1}, {"maxUnavailable": "50%"})
            )
            made["updateStrategy"] = chance.choice(
                ({"type": "OnDelete"}, {"type": "RollingUpdate", "rollingUpdate": rolling})
            )
        return made

    def _job(self, name: str) -> Object:
        chance = self.chance
        policy = chance.choice(("Never", "Never", "OnFailure"))
        made: Object = {"template": self._template(name, restartPolicy=policy)}
        completions = chance.choice((None, 1, 2, 3))
        if completions is not None:
            made["completions"] = completions
        made["parallelism"] = chance.choice((0, 1, 2, 3))
        if completions is not None and chance.random() < 0.5:
            made["completionMode"] = "Indexed"
            if chance.random() < 0.3 and policy == "Never":
                made["backoffLimitPerIndex"] = chance.choice((0, 1))
                if chance.random() < 0.5:
                    made["maxFailedIndexes"] = 1
            if chance.random() < 0.3:
                rule = chance.choice(({"succeededIndexes": "0"}, {"succeededCount": 1}))
                made["successPolicy"] = {"rules": [rule]}
        if chance.random() < 0.4 and "backoffLimitPerIndex" not in made:
            made["backoffLimit"] = chance.choice((0, 1, 2))
        if chance.random() < 0.3 and policy == "Never":
            rules: list[Object] = [
                {
                    "action": chance.choice(("FailJob", "Ignore", "Count")),
                    "onExitCodes": {"operator": "In", "values": [3, 42]},
                },
                {
                    "action": "Ignore",
                    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                },
            ]
            made["podFailurePolicy"] = {"rules": chance.sample(rules, chance.choice((1, 2)))}
        if chance.random() < 0.15:
            made["suspend"] = True
        if chance.random() < 0.15:
            made["podReplacementPolicy"] = "Failed"
        if chance.random() < 0.1:
            made["activeDeadlineSeconds"] = 1000
        return made

    def _budget(self) -> None:
        chance = self.chance
        spec: Object = {"selector": {"matchLabels": {"app": "a"}}}
        spec |= chance.choice(
            ({"minAvailable": 1}, {"minAvailable": "50%"}, {"maxUnavailable": 1}, {"maxUnavailable": "0%"})
        )
        if chance.random() < 0.3:
            spec["unhealthyPodEvictionPolicy"] = chance.choice(("AlwaysAllow", "IfHealthyBudget"))
        body = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "budget"},
            "spec": spec,
        }
        self.request("POST", "/apis/policy/v1/namespaces/${run}/poddisruptionbudgets", body)

    def _service(self) -> None:
        chance = self.chance
        spec: Object = {"selector": {"app": "a"}, "ports": [{"port": 80, "targetPort": 8080}]}
        if chance.random() < 0.5:
            spec["clusterIP"] = "None"
        if chance.random() < 0.2:
            spec["publishNotReadyAddresses"] = True
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": spec}
        self.request("POST", "/api/v1/namespaces/${run}/services", body)

    def _quota(self) -> None:
        hard = self.chance.choice(
            (
                {"pods": "2"},
                {"count/pods": "3", "services": "1"},
                {"requests.cpu": "150m"},
                {"count/jobs.batch": "1"},
            )
        )
        spec: Object = {"hard": hard}
        if "pods" in hard and self.chance.random() < 0.3:
            spec["scopes"] = ["NotTerminating"]
        body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota"}, "spec": spec}
        self.request("POST", "/api/v1/namespaces/${run}/resourcequotas", body, waits=True)

    def _owners(self) -> None:
        """A chain of objects, whose owners' uids the run fills in."""
        chance = self.chance
        path = "/api/v1/namespaces/${run}/configmaps"
        for number, owner in enumerate((None, "chain-0", chance.choice(("chain-0", "chain-1")))):
            metadata: Object = {"name": f"chain-{number}"}
            if owner is not None:
                reference = {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "name": owner,
                    "uid": f"${{uid:{path}/{owner}}}",
                }
                if chance.random() < 0.5:
                    reference["blockOwnerDeletion"] = True
                metadata["ownerReferences"] = [reference]
            if chance.random() < 0.2:
                metadata["finalizers"] = ["example.com/held"]
            self.request("POST", path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        policy = chance.choice(("Orphan", "Background", "Foreground"))
        self.request(
            "DELETE", f"{path}/chain-{chance.choice((0, 0, 1))}?propagationPolicy={policy}", waits=True
        )

    # -- what happens then

    def _step(self) -> None:
        chance = self.chance
        if chance.random() < 0.6:
            kind, name, _ = chance.choice(self._made)
            act: Object = {
                "act": chance.choice(_ACTS),
                "app": name,
                "count": chance.choice((1, 2, 9)),
                "kind": kind,
            }
            if act["act"] == "fail":
                act["code"] = chance.choice((1, 3, 42))
                act["disrupted"] = chance.random() < 0.2
            act["from"] = chance.choice(("first", "last"))
            self.steps.append(act)
            return
        ways = (
            "scale",
            "scale",
            "image",
            "pause",
            "delete",
            "evict",
            "taint",
            "cordon",
            "annotate",
            "namespace",
        )
        way = chance.choices(ways, (4, 4, 5, 2, 2, 2, 1, 1, 1, 1))[0]
        getattr(self, f"_do_{way}")()

    def _do_scale(self) -> None:
        chance = self.chance
        kind, name, _ = chance.choice(self._made)
        if kind == "DaemonSet":
            return self._do_image()
        field = "parallelism" if kind == "Job" else "replicas"
        self.request("PATCH", path_of(kind, name), {"spec": {field: chance.choice((0, 1, 2, 4))}}, MERGE)
        return None

    def _do_image(self) -> None:
        chance = self.chance
        kind, name, _ = chance.choice(self._made)
        if kind == "Job":
            self.request("PATCH", path_of(kind, name), {"spec": {"suspend": chance.random() < 0.5}}, MERGE)
            return
        container = {"name": "c", "image": chance.choice(("app:v1", "app:v2", "app:v3"))}
        body = {"spec": {"template": {"spec": {"containers": [container]}}}}
        self.request("PATCH", path_of(kind, name), body, MERGE)

    def _do_pause(self) -> None:
        chance = self.chance
        kind, name, _ = chance.choice(self._made)
        if kind == "Deployment":
            self.request("PATCH", path_of(kind, name), {"spec": {"paused": chance.random() < 0.5}}, MERGE)
        elif kind == "StatefulSet":
            rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": chance.choice((0, 1))}}
            self.request("PATCH", path_of(kind, name), {"spec": {"updateStrategy": rolling}}, MERGE)
        else:
            self._do_image()

    def _do_annotate(self) -> None:
        kind, name, _ = self.chance.choice(self._made)
        body = {"metadata": {"annotations": {"note": self.chance.choice("xyz")}}}
        self.request("PATCH", path_of(kind, name), body, MERGE)

    def _do_delete(self) -> None:
        kind, name, _ = self.chance.choice(self._made)
        policy = self.chance.choice(("Orphan", "Background", "Foreground"))
        self.request("DELETE", f"{path_of(kind, name)}?propagationPolicy={policy}")

    def _do_evict(self) -> None:
        kind, name, _ = self.chance.choice(self._made)
        self.steps.append({"act": "evict", "app": name, "count": 1, "kind": kind, "from": "first"})

    def _do_taint(self) -> None:
        taint = {"key": "bad", "effect": self.chance.choice(("NoExecute", "NoSchedule"))}
        body = {"spec": {"taints": [taint] if self.chance.random() < 0.7 else None}}
        self.request("PATCH", f"/api/v1/nodes/${{run}}-node-{self.chance.randrange(_NODES)}", body, MERGE)

    def _do_cordon(self) -> None:
        name = f"/api/v1/nodes/${{run}}-node-{self.chance.randrange(_NODES)}"
        if self.chance.random() < 0.5:
            self.request(
                "PATCH", name, {"metadata": {"labels": {"run": self.chance.choice(("${run}", "no"))}}}, MERGE
            )
        else:
            self.request(
                "PATCH", name, {"spec": {"unschedulable": self.chance.random() < 0.6 or None}}, MERGE
            )

    def _do_namespace(self) -> None:
        if self.chance.random() < 0.4:
            self.request("DELETE", "/api/v1/namespaces/${run}")


def workloads(seed: int, minor: int, gates: Mapping[str, bool]) -> Object:
    """Returns the history of a seed."""
    return {"name": f"workloads-{seed}", "steps": Workloads(seed, minor, gates).make()}


def claims_path(minor: int) -> str:
    return f"/apis/resource.k8s.io/{resource_version(minor)}/namespaces/${{run}}/resourceclaims"
