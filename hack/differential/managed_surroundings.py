"""Makes what is around the workloads of a history for the controller manager: services, budgets, quotas,
owners, claims, volumes, schedules, autoscalers, accounts; and the requests that change them later.

A history has some topics of these. A topic can begin before the workloads (`_begin_…`), add to the templates
of their pods (`_fit_…`), and has ways to go on (`_ways_…`).
"""

import random
from collections.abc import Callable, Mapping
from typing import Any

from placements import resource_version
from worlds import MERGE, Object

WIDGETS = "/apis/example.com/v1/namespaces/${run}/widgets"  # of the definition that both servers have
NODES = 2
_CORE = "/api/v1/namespaces/${run}"
_CONFIG_MAPS = f"{_CORE}/configmaps"
_CRON_JOBS = "/apis/batch/v1/namespaces/${run}/cronjobs"
_AUTOSCALERS = "/apis/autoscaling/v2/namespaces/${run}/horizontalpodautoscalers"
_NOBODY = "00000000-0000-4000-8000-00000000000"
_POLICIES = ("Orphan", "Background", "Foreground")
_DEPENDENTS = {
    "ConfigMap": ("v1", _CONFIG_MAPS),
    "Secret": ("v1", f"{_CORE}/secrets"),
    "Widget": ("example.com/v1", WIDGETS),
}
_CLASS = "${run}.storageclass.storage.k8s.io"
_QUOTAS: tuple[Object, ...] = (
    {"pods": "2"},
    {"count/pods": "3", "services": "1"},
    {"requests.cpu": "150m"},
    {"count/jobs.batch": "1"},
    {"pods": "10", "requests.cpu": "1", "limits.memory": "1Gi", "requests.ephemeral-storage": "1Gi"},
    {"persistentvolumeclaims": "5", "requests.storage": "10Gi", f"{_CLASS}/requests.storage": "2Gi"},
    {"count/deployments.apps": "5", "count/replicasets.apps": "5", "count/widgets.example.com": "2"},
    {"count/resourceclaims.resource.k8s.io": "4", "gpu.deviceclass.resource.k8s.io/devices": "4"},
    {"services": "3", "services.nodeports": "1", "services.loadbalancers": "1", "secrets": "9"},
    {"requests.example.com/gpu": "2", "pods": "4"},
)  # fmt: skip
_POD_QUOTAS = {"pods", "count/pods", "requests.cpu", "limits.memory", "requests.ephemeral-storage"}
# Times at which no run crosses an hour that is due.
_SCHEDULES = ("0 3 * * *", "30 12 * * *", "15 4 1,15 * *", "CRON_TZ=Asia/Tokyo 0 3 * * *", "0 6 5 1 *")
_LONG_AGO = ("2026-11-20T00:00:00Z", "2026-06-01T00:00:00Z", "2025-01-01T00:00:00Z")

TOPICS: Mapping[str, float] = {
    "budget": 0.25, "service": 0.3, "quota": 0.15, "owners": 0.12, "schedule": 0.1, "autoscaler": 0.06,
    "devices": 0.15, "volumes": 0.15, "accounts": 0.08, "namespace": 0.08, "orphans": 0.08,
}  # fmt: skip

_RULES = {
    33: "v1alpha3",
    34: "v1alpha3",
    35: "v1alpha3",
    36: "v1beta2",
}  # by minor, versions of DeviceTaintRule

Way = Callable[[], None]


def rules_version(minor: int) -> str:
    """Returns the version of resource.k8s.io that has DeviceTaintRules; empty if none has."""
    return _RULES.get(minor, "")


class Surroundings:
    """The steps of a history so far, and its topics."""

    def __init__(self, seed: int, minor: int, gates: Mapping[str, bool]) -> None:
        self.chance = random.Random(f"workloads-{seed}")
        self.steps: list[Object] = []
        self.gates = gates
        self.minor = minor
        self.topics = [name for name, share in TOPICS.items() if self.chance.random() < share]
        if "devices" in self.topics and not gates.get("DynamicResourceAllocation"):
            self.topics.remove("devices")
        self._owned: list[tuple[str, str]] = []  # kind, name
        self._devices = f"/apis/resource.k8s.io/{resource_version(minor)}"

    def request(self, method: str, path: str, body: Any = None, content: str = "", **more: Any) -> None:
        step: Object = {"method": method, "path": path, **more}
        if body is not None:
            step["body"] = body
        if content:
            step["content"] = content
        self.steps.append(step)

    def make(
        self, path: str, api: str, kind: str, name: str, metadata: Object | None = None, **more: Any
    ) -> None:
        """Creates an object, without a wait for what comes of it."""
        body = {"apiVersion": api, "kind": kind, "metadata": {"name": name, **(metadata or {})}, **more}
        self.request("POST", path, body)

    def change(self, path: str, body: Object) -> None:
        self.request("PATCH", path, body, MERGE)

    def wait(self) -> None:
        self.steps[-1] |= {"waits": True}

    def flip(self, share: float = 0.5) -> bool:
        return self.chance.random() < share

    def begin(self) -> None:
        """Makes what is there before the workloads."""
        self._start()
        for name in self.topics:
            getattr(self, f"_begin_{name}", lambda: None)()
        self.wait()

    def follow(self) -> None:
        """Makes what comes after the workloads."""
        for name in self.topics:
            getattr(self, f"_follow_{name}", lambda: None)()

    def ways(self) -> list[Way]:
        """Returns what may happen to the surroundings."""
        return [way for name in self.topics for way in getattr(self, f"_ways_{name}", list)()]

    def fit(self, spec: Object) -> None:
        """Adds to a pod template what the topics need of it."""
        for name in self.topics:
            getattr(self, f"_fit_{name}", _nothing)(spec)

    def _start(self) -> None:
        self.make("/api/v1/namespaces", "v1", "Namespace", "${run}")
        self.wait()  # for the account of its pods
        for number in range(NODES):
            name = f"${{run}}-node-{number}"
            labels = {"kubernetes.io/hostname": name, "run": "${run}"}
            status = {
                "capacity": {"cpu": "8", "memory": "8Gi", "pods": "110"},
                "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            }
            self.make("/api/v1/nodes", "v1", "Node", name, {"labels": labels}, status=status)
            self.change(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})

    # -- budgets

    def _follow_budget(self) -> None:
        chance = self.chance
        self.wait()  # a budget counts the pods that there are when it comes
        spec: Object = {"selector": {"matchLabels": {"app": "a"}}}
        spec |= chance.choice(
            ({"minAvailable": 1}, {"minAvailable": "50%"}, {"maxUnavailable": 1}, {"maxUnavailable": "0%"})
        )
        if self.flip(0.3):
            spec["unhealthyPodEvictionPolicy"] = chance.choice(("AlwaysAllow", "IfHealthyBudget"))
        path = "/apis/policy/v1/namespaces/${run}/poddisruptionbudgets"
        self.make(path, "policy/v1", "PodDisruptionBudget", "budget", spec=spec)

    def _ways_budget(self) -> list[Way]:
        path = "/apis/policy/v1/namespaces/${run}/poddisruptionbudgets/budget"
        value = self.chance.choice(
            ({"minAvailable": None, "maxUnavailable": 1}, {"maxUnavailable": None, "minAvailable": "30%"})
        )
        return [lambda: self.change(path, {"spec": value})]

    # -- services

    def _fit_service(self, spec: Object) -> None:
        ports: list[Object] = [{"name": "http", "containerPort": self.chance.choice((8080, 8081))}]
        if self.flip(0.3):
            ports.append({"name": "dns", "containerPort": 53, "protocol": "UDP"})
        if self.flip(0.6):
            spec["containers"][0]["ports"] = ports

    def _ports(self) -> list[Object]:
        chance = self.chance
        ports: list[Object] = [{"name": "web", "port": 80, "targetPort": chance.choice((8080, "http"))}]
        if self.flip(0.4):
            ports.append(
                {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": chance.choice((53, "dns"))}
            )
        if self.flip(0.2):
            ports.append({"name": "metrics", "port": 9090, "appProtocol": "http"})
        return ports if len(ports) > 1 or self.flip() else [{"port": 80, "targetPort": 8080}]

    def _service(self, name: str) -> None:
        chance = self.chance
        spec: Object = {"ports": self._ports()}
        if self.flip(0.85):
            spec["selector"] = {"app": "a"}
        if self.flip():
            spec["clusterIP"] = "None"
        elif self.flip(0.2):
            spec["type"] = chance.choice(("NodePort", "LoadBalancer"))
        elif self.flip(0.1):
            spec = {"type": "ExternalName", "externalName": "example.com"}
        if self.flip(0.2):
            spec["publishNotReadyAddresses"] = True
        if self.flip(0.1):
            spec["internalTrafficPolicy"] = "Local"
        metadata: Object = {}
        if self.flip(0.3):
            metadata["labels"] = chance.choice(({"team": "x"}, {"service.kubernetes.io/headless": ""}))
        if self.flip(0.2):
            metadata["annotations"] = {"note": "x", "endpoints.kubernetes.io/over-capacity": "warning"}
        self.make(f"{_CORE}/services", "v1", "Service", name, metadata, spec=spec)

    def _follow_service(self) -> None:
        self._service("a")
        if self.flip(0.3):
            self._service("b")
        if self.flip(0.25):
            self._mirrored()

    def _subsets(self) -> list[Object]:
        chance = self.chance
        address: Object = {"ip": f"10.1.0.{chance.randrange(1, 4)}"}
        if self.flip(0.3):
            address |= {"hostname": "x", "nodeName": "${run}-node-0"}
        if self.flip(0.3):
            address["targetRef"] = {"kind": "Pod", "name": "p", "namespace": "${run}"}
        made: Object = {"addresses": [address], "ports": [{"name": "web", "port": chance.choice((80, 81))}]}
        if self.flip(0.3):
            made["notReadyAddresses"] = [{"ip": "10.1.0.9"}]
        other = {"addresses": [{"ip": "fd00::1"}, {"ip": "10.1.0.7"}], "ports": [{"name": "web", "port": 82}]}
        return [made, other] if self.flip(0.3) else [made]

    def _mirrored(self) -> None:
        """A service without a selector, and its endpoints, which are mirrored."""
        spec = {"ports": [{"name": "web", "port": 80}], **({"clusterIP": "None"} if self.flip() else {})}
        self.make(f"{_CORE}/services", "v1", "Service", "m", spec=spec)
        metadata: Object = {"labels": {"team": "x"}, "annotations": {"note": "y"}} if self.flip() else {}
        if self.flip(0.15):
            metadata["labels"] = {"endpointslice.kubernetes.io/skip-mirror": "true"}
        self.make(f"{_CORE}/endpoints", "v1", "Endpoints", "m", metadata, subsets=self._subsets())

    def _ways_service(self) -> list[Way]:
        chance = self.chance
        one = f"{_CORE}/services/{chance.choice('aab')}"
        return [
            lambda: self.change(one, {"spec": {"ports": self._ports()}}),
            lambda: self.change(one, {"spec": {"selector": {"app": chance.choice(("a", "b", "other"))}}}),
            lambda: self.change(one, {"spec": {"publishNotReadyAddresses": self.flip()}}),
            lambda: self.change(one, {"metadata": {"labels": {"team": chance.choice(("x", "y", None))}}}),
            lambda: self.change(one, {"metadata": {"annotations": {"note": chance.choice(("x", None))}}}),
            lambda: self.request("DELETE", one),
            lambda: self.change(f"{_CORE}/endpoints/m", {"subsets": self._subsets()}),
            lambda: self.request(
                "DELETE", f"{_CORE}/{chance.choice(('endpoints/a', 'endpoints/m', 'services/m'))}"
            ),
            lambda: self._service(chance.choice("ab")),
        ]

    # -- quotas

    def _begin_quota(self) -> None:
        chance = self.chance
        hard = chance.choice(_QUOTAS)
        spec: Object = {"hard": hard}
        if {*hard} <= _POD_QUOTAS and self.flip(0.6):
            scopes = (
                "NotTerminating",
                "Terminating",
                "NotBestEffort",
                "PriorityClass",
                "CrossNamespacePodAffinity",
            )
            scope = chance.choice(("BestEffort", *scopes) if {*hard} <= {"pods", "count/pods"} else scopes)
            if scope in {"PriorityClass", "CrossNamespacePodAffinity"} or self.flip(0.3):
                terms = {"scopeName": scope, "operator": "Exists"}
                if scope == "PriorityClass" and self.flip():
                    terms |= {"operator": chance.choice(("In", "NotIn")), "values": ["system-node-critical"]}
                spec["scopeSelector"] = {"matchExpressions": [terms]}
            else:
                spec["scopes"] = [scope]
        self.make(f"{_CORE}/resourcequotas", "v1", "ResourceQuota", "quota", spec=spec)
        self.wait()

    def _fit_quota(self, spec: Object) -> None:
        if self.flip(0.2):
            spec["priorityClassName"] = self.chance.choice(
                ("system-node-critical", "system-cluster-critical")
            )
        if self.flip(0.3):
            requests: Object = {"cpu": "100m", "memory": "10Mi"}
            if self.flip(0.3):
                requests["example.com/gpu"] = "1"
            spec["containers"][0]["resources"] = {"requests": requests, "limits": requests}
        if self.flip(0.15):
            spec["activeDeadlineSeconds"] = 5000
        if self.flip(0.15):
            term = {"topologyKey": "kubernetes.io/hostname", "namespaces": ["default"]}
            spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    def _ways_quota(self) -> list[Way]:
        path = f"{_CORE}/resourcequotas/quota"
        hard = self.chance.choice(_QUOTAS)
        return [lambda: self.change(path, {"spec": {"hard": hard}}), lambda: self.request("DELETE", path)]

    # -- owners

    def _begin_owners(self) -> None:
        """Makes objects that own each other, whose owners' uids the run fills in."""
        chance = self.chance
        for number in range(chance.randrange(3, 7)):
            kind = chance.choice(("ConfigMap", "ConfigMap", "Secret", "Widget"))
            api, path = _DEPENDENTS[kind]
            metadata: Object = {}
            owners = chance.sample(self._owned, min(len(self._owned), chance.choice((0, 1, 1, 2))))
            references = [self._reference(*owner) for owner in owners]
            if self.flip(0.1):
                node = "/api/v1/nodes/${run}-node-1"
                reference = {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "name": "${run}-node-1",
                    "uid": f"${{uid:{node}}}",
                }
                references.append(reference)
            if references:
                metadata["ownerReferences"] = references
            if self.flip(0.2):
                metadata["finalizers"] = ["example.com/held"]
            self.make(path, api, kind, f"owned-{number}", metadata)
            self._owned.append((kind, f"owned-{number}"))

    def _reference(self, kind: str, name: str) -> Object:
        api, path = _DEPENDENTS[kind]
        made: Object = {"apiVersion": api, "kind": kind, "name": name, "uid": f"${{uid:{path}/{name}}}"}
        if self.flip(0.4):
            made["blockOwnerDeletion"] = True
        if self.flip(0.1):
            made["uid"] = f"{_NOBODY}{self.chance.randrange(9)}"
        elif self.flip(0.08):
            made["name"] = "other"
        elif self.flip(0.05):
            made["apiVersion"], made["kind"] = "v1", "Secret"
        return made

    def _ways_owners(self) -> list[Way]:
        chance = self.chance
        kind, name = chance.choice(self._owned)
        path = f"{_DEPENDENTS[kind][1]}/{name}"
        policy = chance.choice(_POLICIES)
        return [
            *[lambda: self.request("DELETE", f"{path}?propagationPolicy={policy}")] * 3,
            lambda: self.change(path, {"metadata": {"finalizers": None}}),
            lambda: self.change(path, {"metadata": {"ownerReferences": None}}),
            lambda: self.change(
                path, {"metadata": {"ownerReferences": [self._reference(*chance.choice(self._owned))]}}
            ),
        ]

    # -- CronJobs

    def _begin_schedule(self) -> None:
        chance = self.chance
        template = {
            "metadata": {"labels": {"app": "cron"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "app:v1"}]},
        }
        job: Object = {"template": template, "backoffLimit": chance.choice((0, 1))}
        spec: Object = {
            "schedule": chance.choice(_SCHEDULES),
            "jobTemplate": {"metadata": {"labels": {"l": "m"}, "annotations": {"n": "o"}}, "spec": job},
        }
        if self.flip(0.5):
            spec["concurrencyPolicy"] = chance.choice(("Forbid", "Replace"))
        if self.flip(0.3):
            spec["startingDeadlineSeconds"] = chance.choice((5, 10, 200, 10_000_000))
        if self.flip(0.3):
            spec["timeZone"] = chance.choice(("Europe/Berlin", "Etc/UTC"))
        if self.flip(0.4):
            spec["successfulJobsHistoryLimit"] = chance.choice((0, 1))
            spec["failedJobsHistoryLimit"] = chance.choice((0, 1))
        if self.flip(0.15):
            spec["suspend"] = True
        self.make(_CRON_JOBS, "batch/v1", "CronJob", "cron", spec=spec)
        if "CRON_TZ" in spec["schedule"]:
            self.change(f"{_CRON_JOBS}/cron", {"spec": {"suspend": False}})
        self._missed()

    def _missed(self) -> None:
        """Says that it was scheduled for the last time long ago."""
        self.change(
            f"{_CRON_JOBS}/cron/status", {"status": {"lastScheduleTime": self.chance.choice(_LONG_AGO)}}
        )

    def _ways_schedule(self) -> list[Way]:
        chance = self.chance
        path = f"{_CRON_JOBS}/cron"
        act = {
            "act": chance.choice(("run", "succeed", "succeed", "fail")),
            "app": "cron",
            "count": 9,
            "kind": "Job",
            "code": 1,
            "from": "first",
        }
        policy = chance.choice(_POLICIES)
        return [
            *[lambda: self.steps.append(act)] * 4,
            *[self._missed] * 2,
            lambda: self.change(path, {"spec": {"schedule": chance.choice(_SCHEDULES)}}),
            lambda: self.change(path, {"spec": {"suspend": self.flip()}}),
            lambda: self.change(
                path, {"spec": {"concurrencyPolicy": chance.choice(("Allow", "Forbid", "Replace"))}}
            ),
            lambda: self.change(
                path, {"spec": {"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0}}
            ),
            lambda: self.request("DELETE", f"{path}?propagationPolicy={policy}"),
        ]

    # -- autoscalers

    def _follow_autoscaler(self) -> None:
        chance = self.chance
        kind = chance.choice(("Deployment", "Deployment", "StatefulSet", "ReplicaSet", "Widget"))
        target = {
            "apiVersion": "example.com/v1" if kind == "Widget" else "apps/v1",
            "kind": kind,
            "name": "a",
        }
        spec: Object = {
            "scaleTargetRef": target,
            "minReplicas": chance.choice((1, 2)),
            "maxReplicas": chance.choice((2, 3)),
        }
        cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
        memory = {"name": "memory", "target": {"type": "AverageValue", "averageValue": "10Mi"}}
        metrics = [{"type": "Resource", "resource": one} for one in (cpu, memory)]
        if self.flip(0.7):
            spec["metrics"] = metrics[: chance.choice((1, 2))]
        if self.flip(0.2):
            spec["behavior"] = {"scaleDown": {"selectPolicy": "Disabled"}}
        self.make(_AUTOSCALERS, "autoscaling/v2", "HorizontalPodAutoscaler", "scaler", spec=spec)
        self.steps[-1]["still"] = 17  # it is looked at every 15 seconds

    def _ways_autoscaler(self) -> list[Way]:
        path = f"{_AUTOSCALERS}/scaler"
        most = self.chance.choice((1, 2, 4))
        return [lambda: self.change(path, {"spec": {"minReplicas": 1, "maxReplicas": most}})]

    # -- devices

    def _begin_devices(self) -> None:
        slice_spec = {
            "driver": "${run}.example.com",
            "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
            "allNodes": True,
            "devices": [{"name": f"d-{number}"} for number in range(3)],
        }
        self.make(
            f"{self._devices}/resourceslices",
            f"resource.k8s.io/{resource_version(self.minor)}",
            "ResourceSlice",
            "${run}-slice",
            spec=slice_spec,
        )
        request: Object = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        if self.gates.get("DRADeviceTaints") and self.flip(0.4):
            toleration: Object = {"key": "bad", "operator": "Exists", "effect": "NoExecute"}
            if self.flip():
                toleration["tolerationSeconds"] = 1
            self._tolerations = [toleration]
        else:
            self._tolerations = []
        claim = {"devices": {"requests": [request]}}
        template: Object = {"spec": claim}
        if self.flip(0.4):
            template["metadata"] = {"labels": {"l": "m"}, "annotations": {"n": "o"}}
        self._claim("ResourceClaimTemplate", "gpu", template)
        if self.flip():
            self._claim("ResourceClaim", "shared", claim)

    def _claim(self, kind: str, name: str, spec: Object) -> None:
        path = f"{self._devices}/namespaces/${{run}}/{kind.lower()}s"
        self.make(path, f"resource.k8s.io/{resource_version(self.minor)}", kind, name, spec=spec)

    def _fit_devices(self, spec: Object) -> None:
        claims: list[Object] = []
        if self.flip(0.8):
            claims.append({"name": "gpu", "resourceClaimTemplateName": "gpu"})
        if self.flip(0.3):
            claims.append({"name": "shared", "resourceClaimName": "shared"})
        spec["resourceClaims"] = claims

    def _ways_devices(self) -> list[Way]:
        chance = self.chance
        base = f"{self._devices}/namespaces/${{run}}"
        reserve = {
            "act": "reserve", "app": chance.choice("aab"), "count": chance.choice((1, 2, 9)), "from": "first",
            "claims": f"{base}/resourceclaims", "tolerations": self._tolerations,
        }  # fmt: skip
        unclaim = {**reserve, "act": "unclaim", "count": 1}
        taint = {"key": "bad", "effect": chance.choice(("NoExecute", "NoExecute", "NoSchedule"))}
        devices = [
            {"name": "d-0", **({"taints": [taint]} if self.flip(0.7) else {})},
            {"name": "d-1"},
            {"name": "d-2"},
        ]
        tainted = [
            lambda: self.change(
                f"{self._devices}/resourceslices/${{run}}-slice", {"spec": {"devices": devices}}
            )
        ]
        return [
            *[lambda: self.steps.append(reserve)] * 4,
            lambda: self.steps.append(unclaim),
            *(tainted * 2 if self.gates.get("DRADeviceTaints") else []),
            *([self._rule] * 2 if self.gates.get("DRADeviceTaintRules") else []),
            lambda: self.request("DELETE", f"{base}/resourceclaimtemplates/gpu"),
            lambda: self.request("DELETE", f"{base}/resourceclaims/shared"),
            lambda: self._claim(
                "ResourceClaim",
                "shared",
                {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
            ),
        ]

    def _rule(self) -> None:
        """Taints devices by a rule, or changes it, or takes it away."""
        version = rules_version(self.minor)
        path, chance = f"/apis/resource.k8s.io/{version}/devicetaintrules", self.chance
        if self.flip(0.3):
            self.request("DELETE", f"{path}/${{run}}-rule")
            return
        taint = {"key": "bad", "effect": chance.choice(("NoExecute", "NoExecute", "NoSchedule"))}
        selector = {"driver": "${run}.example.com", **({"device": "d-0"} if self.flip() else {})}
        self.make(
            path,
            f"resource.k8s.io/{version}",
            "DeviceTaintRule",
            "${run}-rule",
            spec={"deviceSelector": selector, "taint": taint},
        )

    # -- volumes

    def _begin_volumes(self) -> None:
        chance = self.chance
        if self.flip(0.6):
            self.make(
                "/apis/storage.k8s.io/v1/storageclasses", "storage.k8s.io/v1", "StorageClass", "${run}",
                provisioner="kubernetes.io/no-provisioner",
                volumeBindingMode=chance.choice(("Immediate", "WaitForFirstConsumer")),
            )  # fmt: skip
        for number in range(chance.randrange(3)):
            self._volume(number)
        self._volume_claim("data")
        self.steps[-1]["still"] = 17  # claims are looked at every 15 seconds
        self._mounted = chance.choice(("data", "data", "ephemeral", "none"))

    def _volume(self, number: int) -> None:
        chance = self.chance
        spec: Object = {
            "capacity": {"storage": chance.choice(("1Gi", "2Gi"))},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "${run}",
            "hostPath": {"path": f"/volumes/{number}"},
        }
        if self.flip(0.2):
            spec["claimRef"] = {"namespace": "${run}", "name": chance.choice(("data", "more"))}
        self.make(
            "/api/v1/persistentvolumes",
            "v1",
            "PersistentVolume",
            f"${{run}}-volume-{number}",
            {"labels": {"l": "m"}},
            spec=spec,
        )

    def _volume_claim(self, name: str) -> None:
        chance = self.chance
        spec: Object = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "${run}",
            "resources": {"requests": {"storage": chance.choice(("1Gi", "1Gi", "3Gi"))}},
        }
        if self.flip(0.2):
            spec["volumeName"] = "${run}-volume-0"
        elif self.flip(0.2):
            spec["selector"] = {"matchLabels": {"l": chance.choice("mn")}}
        self.make(f"{_CORE}/persistentvolumeclaims", "v1", "PersistentVolumeClaim", name, spec=spec)

    def _fit_volumes(self, spec: Object) -> None:
        if self._mounted == "data":
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        elif self._mounted == "ephemeral":
            claim = {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "${run}",
                "resources": {"requests": {"storage": "1Gi"}},
            }
            template = {"spec": claim, **({"metadata": {"labels": {"l": "m"}}} if self.flip() else {})}
            spec["volumes"] = [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]

    def _ways_volumes(self) -> list[Way]:
        chance = self.chance
        claims, volumes = f"{_CORE}/persistentvolumeclaims", "/api/v1/persistentvolumes"
        number = chance.randrange(2)
        node = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "${run}-node-0"}}}
        return [
            *[lambda: self.request("DELETE", f"{claims}/{chance.choice(('data', 'data', 'more'))}")] * 2,
            lambda: self.request("DELETE", f"{volumes}/${{run}}-volume-{number}"),
            lambda: self._volume(number),
            lambda: self._volume_claim(chance.choice(("data", "more"))),
            lambda: self.change(f"{claims}/data", node),
            lambda: self.change(f"{volumes}/${{run}}-volume-{number}", {"spec": {"claimRef": None}}),
        ]

    # -- accounts and what every namespace has

    def _begin_accounts(self) -> None:
        self.make(f"{_CORE}/serviceaccounts", "v1", "ServiceAccount", "robot")
        for name, account in (("token", "robot"), ("stray", "nobody")):
            metadata = {"annotations": {"kubernetes.io/service-account.name": account}}
            kind = "kubernetes.io/service-account-token"
            self.make(f"{_CORE}/secrets", "v1", "Secret", name, metadata, type=kind)

    def _ways_accounts(self) -> list[Way]:
        root = f"{_CORE}/configmaps/kube-root-ca.crt"
        description = {
            "metadata": {"annotations": {"kubernetes.io/description": self.chance.choice((None, "mine"))}}
        }
        return [
            lambda: self.request("DELETE", f"{_CORE}/serviceaccounts/default"),
            lambda: self.request("DELETE", f"{_CORE}/serviceaccounts/robot"),
            self._begin_accounts,
            lambda: self.request("DELETE", root),
            lambda: self.change(root, {"data": {"ca.crt": "other", "more": "x"}}),
            lambda: self.change(root, description),
            lambda: self.change(f"{_CORE}/secrets/token", {"data": {"token": None, "namespace": None}}),
        ]

    # -- the namespace itself

    def _begin_namespace(self) -> None:
        self.make(_CONFIG_MAPS, "v1", "ConfigMap", "held", {"finalizers": ["example.com/held"]})
        if self.flip(0.4):
            self.make(
                WIDGETS,
                "example.com/v1",
                "Widget",
                "held",
                {"finalizers": ["example.com/held", "example.com/more"]},
            )
        if self.flip(0.3):
            finalizers = self.chance.choice((["kubernetes", "example.com/own"], ["example.com/own"]))
            body = {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": "${run}"},
                "spec": {"finalizers": finalizers},
            }
            self.request("PUT", "/api/v1/namespaces/${run}/finalize", body)

    def _ways_namespace(self) -> list[Way]:
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "${run}"},
            "spec": {"finalizers": ["kubernetes"]},
        }
        return [
            *[self.delete_namespace] * 2,
            lambda: self.change(f"{_CONFIG_MAPS}/held", {"metadata": {"finalizers": None}}),
            lambda: self.change(f"{WIDGETS}/held", {"metadata": {"finalizers": None}}),
            lambda: self.request("PUT", "/api/v1/namespaces/${run}/finalize", body),
        ]

    def delete_namespace(self) -> None:
        # It is emptied after five seconds, and looked at again eight seconds later.
        self.request("DELETE", "/api/v1/namespaces/${run}", still=9)

    # -- pods that were there before

    def _begin_orphans(self) -> None:
        chance = self.chance
        for number in range(chance.choice((1, 2))):
            metadata: Object = {"labels": {"app": "a"}}
            spec: Object = {
                "containers": [{"name": "c", "image": "app:v1"}],
                "nodeName": f"${{run}}-node-{number}",
            }
            if self.flip(0.3):
                self.make(WIDGETS, "example.com/v1", "Widget", f"owner-{number}", spec={"replicas": 2})
                owner = self._reference("Widget", f"owner-{number}")
                metadata["ownerReferences"] = [{**owner, "controller": True}]
            elif self.flip(0.3):
                metadata["labels"]["pod-template-hash"] = "abc"
            name = chance.choice((f"a-{number}", f"orphan-{number}"))
            self.make(f"{_CORE}/pods", "v1", "Pod", name, metadata, spec=spec)


def _nothing(spec: Object) -> None:
    pass
