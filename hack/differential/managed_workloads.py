"""Makes random histories for the controller manager: workloads, what a kubelet would say of their pods, and
deletions in all orders."""

from collections.abc import Mapping
from typing import Any

from managed_surroundings import NODES, Surroundings
from worlds import Object

# Gates that controllers read, of which --flip turns some around.
GATES = (
    "DeploymentReplicaSetTerminatingReplicas", "JobManagedBy", "JobPodReplacementPolicy", "JobSuccessPolicy",
    "JobBackoffLimitPerIndex", "ElasticIndexedJob", "MaxUnavailableStatefulSet", "OrderedNamespaceDeletion",
    "PodDeletionCost", "LogarithmicScaleDown", "StatefulSetAutoDeletePVC", "PodIndexLabel",
    "StatefulSetSemanticRevisionComparison", "MutablePodResourcesForSuspendedJobs",
    "PreferSameTrafficDistribution", "VolumeAttributesClass", "PersistentVolumeClaimUnusedSinceTime",
    "DynamicResourceAllocation", "DRADeviceTaints", "DRADeviceTaintRules", "HPAConfigurableTolerance",
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
    "ReplicationController",
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


def path_of(kind: str, name: str = "") -> str:
    """Returns the path of a workload's collection, or of one."""
    base, plural = _PATHS[kind]
    return f"{base}/namespaces/${{run}}/{plural}" + (f"/{name}" if name else "")


class Workloads(Surroundings):
    """Makes the steps of a history: requests, and what is done to some of the pods (`act`)."""

    def __init__(self, seed: int, minor: int, gates: Mapping[str, bool]) -> None:
        super().__init__(seed, minor, gates)
        self._made: list[tuple[str, str, Object]] = []

    def history(self) -> list[Object]:
        chance = self.chance
        self.begin()
        for number in range(chance.choice((1, 1, 2))):
            self._workload(number)
        self.follow()
        self.wait()
        for _ in range(chance.randrange(3, 8)):
            self._step()
            self.wait()  # so that both have the same pods to act on
        return self.steps

    # -- what is made

    def _template(self, app: str, **spec: Any) -> Object:
        chance = self.chance
        container: Object = {"name": "c", "image": "app:v1"}
        if chance.random() < 0.3:
            container["resources"] = {"requests": {"cpu": "100m"}}
        made: Object = {"containers": [container], **spec}
        if chance.random() < 0.15:
            toleration = {"key": "bad", "operator": "Exists", "effect": "NoExecute"}
            made["tolerations"] = [toleration | chance.choice(({}, {"tolerationSeconds": 1}))]
        if chance.random() < 0.1:
            made["terminationGracePeriodSeconds"] = chance.choice((0, 1))
        self.fit(made)
        return {"metadata": {"labels": {"app": app}}, "spec": made}

    def _workload(self, number: int) -> None:
        chance = self.chance
        kind, name = chance.choice(_KINDS), "abc"[number]
        spec: Object = getattr(self, f"_{kind.lower()}")(name)
        self._create(kind, name, spec)
        self._made.append((kind, name, spec))

    def _create(self, kind: str, name: str, spec: Object) -> None:
        path = path_of(kind)
        api = path.removeprefix("/apis/").removeprefix("/api/").partition("/namespaces")[0]
        self.make(path, api, kind, name, spec=spec)

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
        elif chance.random() < 0.15:
            made["progressDeadlineSeconds"] = 1
        return made

    def _replicationcontroller(self, name: str) -> Object:
        made = self._selected(name)
        made["selector"] = {"app": name}
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
        if chance.random() < 0.15:
            made["minReadySeconds"] = 1
        if chance.random() < 0.2:
            made["revisionHistoryLimit"] = chance.choice((0, 1))
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
        if chance.random() < 0.15:
            made["minReadySeconds"] = 1
        if chance.random() < 0.2:
            made["revisionHistoryLimit"] = chance.choice((0, 1))
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
                rules = [
                    {"succeededIndexes": "0"}, {"succeededCount": 1},
                    {"succeededIndexes": "0-2", "succeededCount": 2}, {"succeededIndexes": "0,2"},
                ]  # fmt: skip
                made["successPolicy"] = {"rules": chance.sample(rules, chance.choice((1, 1, 2)))}
        if chance.random() < 0.4 and "backoffLimitPerIndex" not in made:
            made["backoffLimit"] = chance.choice((0, 1, 2))
        if chance.random() < 0.3 and policy == "Never":
            made["podFailurePolicy"] = self._failure_policy("backoffLimitPerIndex" in made)
        shares: dict[str, tuple[float, tuple[Any, ...]]] = {
            "suspend": (0.15, (True,)),
            "podReplacementPolicy": (0.15, ("Failed",)),
            "activeDeadlineSeconds": (0.1, (1, 1000)),
            "ttlSecondsAfterFinished": (0.15, (0, 1, 1000)),
            "managedBy": (0.05 if self.gates.get("JobManagedBy") else 0, ("example.com/controller",)),
            "manualSelector": (0 if "completionMode" in made else 0.08, (True,)),
        }
        for field, (share, values) in shares.items():
            if chance.random() < share:
                made[field] = chance.choice(values)
        if "manualSelector" in made:
            made["selector"] = {"matchLabels": {"app": name}}
        return made

    def _failure_policy(self, by_index: bool) -> Object:
        actions = ("FailJob", "Ignore", "Count", *(("FailIndex", "FailIndex") if by_index else ()))
        codes = {"operator": "In", "values": [3, 42]}
        rules: list[Object] = [
            {"action": self.chance.choice(actions), "onExitCodes": codes},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        ]
        return {"rules": self.chance.sample(rules, self.chance.choice((1, 2)))}

    # -- what happens then

    def _step(self) -> None:
        chance = self.chance
        ways = self.ways()
        if ways and chance.random() < 0.45:
            chance.choice(ways)()
            return
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
        kinds = (
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
            "again",
            "revise",
            "tune",
        )
        way = chance.choices(kinds, (4, 4, 5, 2, 2, 2, 1, 1, 1, 0.5, 1, 0.7, 2))[0]
        getattr(self, f"_do_{way}")()

    def _do_scale(self) -> None:
        chance = self.chance
        kind, name, _ = chance.choice(self._made)
        if kind == "DaemonSet":
            return self._do_image()
        field = "parallelism" if kind == "Job" else "replicas"
        self.change(path_of(kind, name), {"spec": {field: chance.choice((0, 1, 2, 4))}})
        return None

    def _do_image(self) -> None:
        chance = self.chance
        kind, name, _ = chance.choice(self._made)
        if kind == "Job":
            self.change(path_of(kind, name), {"spec": {"suspend": chance.random() < 0.5}})
            return
        container = {"name": "c", "image": chance.choice(("app:v1", "app:v2", "app:v3"))}
        body = {"spec": {"template": {"spec": {"containers": [container]}}}}
        self.change(path_of(kind, name), body)

    def _do_pause(self) -> None:
        chance = self.chance
        kind, name, _ = chance.choice(self._made)
        if kind == "Deployment":
            self.change(path_of(kind, name), {"spec": {"paused": chance.random() < 0.5}})
        elif kind == "StatefulSet":
            rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": chance.choice((0, 1))}}
            self.change(path_of(kind, name), {"spec": {"updateStrategy": rolling}})
        else:
            self._do_image()

    def _do_annotate(self) -> None:
        kind, name, _ = self.chance.choice(self._made)
        body = {"metadata": {"annotations": {"note": self.chance.choice("xyz")}}}
        self.change(path_of(kind, name), body)

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
        self.change(f"/api/v1/nodes/${{run}}-node-{self.chance.randrange(NODES)}", body)

    def _do_cordon(self) -> None:
        name = f"/api/v1/nodes/${{run}}-node-{self.chance.randrange(NODES)}"
        if self.chance.random() < 0.5:
            self.change(name, {"metadata": {"labels": {"run": self.chance.choice(("${run}", "no"))}}})
        else:
            self.change(name, {"spec": {"unschedulable": self.chance.random() < 0.6 or None}})

    def _do_namespace(self) -> None:
        self.delete_namespace()

    def _do_again(self) -> None:
        """Makes a workload again, which may adopt what an earlier one has left."""
        self._create(*self.chance.choice(self._made))

    def _do_revise(self) -> None:
        """Takes a revision, or a replica set, from its owner, or away."""
        kind, name, _ = self.chance.choice(self._made)
        how = self.chance.choice(("orphan", "remove"))
        self.steps.append(
            {"act": "revise", "app": name, "count": 1, "kind": kind, "from": "first", "how": how}
        )

    def _do_tune(self) -> None:
        """Changes a field that this kind alone has."""
        chance = self.chance
        kind, name, _ = chance.choice(self._made)
        fields: tuple[Object, ...] = ({"minReadySeconds": chance.choice((0, 1))},)
        if kind == "Deployment":
            fields += (
                {"revisionHistoryLimit": 0},
                {"progressDeadlineSeconds": 2},
                {"strategy": {"type": "Recreate", "rollingUpdate": None}},
            )
        elif kind == "StatefulSet":
            retained = {
                "whenDeleted": chance.choice(("Retain", "Delete")),
                "whenScaled": chance.choice(("Retain", "Delete")),
            }
            fields += (
                {"persistentVolumeClaimRetentionPolicy": retained},
                {"ordinals": {"start": chance.choice((0, 2))}},
                {"revisionHistoryLimit": 0},
            )
        elif kind == "DaemonSet":
            fields += (
                {"template": {"spec": {"nodeSelector": chance.choice((None, {"run": "no"}))}}},
                {"revisionHistoryLimit": 0},
            )
        elif kind == "Job":
            number = chance.choice((1, 2, 4))
            fields = (
                {"completions": number, "parallelism": number}, {"activeDeadlineSeconds": 1},
                {"ttlSecondsAfterFinished": chance.choice((0, 1))},
                {"template": {"spec": {"nodeSelector": {"a": "b"}}}},
                {"suspend": True}, {"suspend": False}, {"backoffLimit": 0},
            )  # fmt: skip
        self.change(path_of(kind, name), {"spec": chance.choice(fields)})


def workloads(seed: int, minor: int, gates: Mapping[str, bool]) -> Object:
    """Returns the history of a seed."""
    return {"name": f"workloads-{seed}", "steps": Workloads(seed, minor, gates).history()}
