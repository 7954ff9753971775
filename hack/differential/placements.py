"""Makes random histories for the scheduler: a small cluster, pods that come one at a time, and changes."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from allocations import Problems
from worlds import MERGE, Object

# Gates that the scheduler reads, of which --flip turns some around.
GATES = (
    "ClearingNominatedNodeNameAfterBinding", "DRAConsumableCapacity", "DRADeviceBindingConditions",
    "DRADeviceTaints", "DRAExtendedResource", "DRAListTypeAttributes", "DRAPartitionableDevices",
    "DRAPrioritizedList", "DRAResourceClaimDeviceStatus", "DRASchedulerFilterTimeout", "DRAAdminAccess",
    "InPlacePodVerticalScaling", "InPlacePodLevelResourcesVerticalScaling",
    "MatchLabelKeysInPodTopologySpread", "MatchLabelKeysInPodTopologySpreadSelectorMerge",
    "MatchLabelKeysInPodAffinity", "NodeInclusionPolicyInPodTopologySpread",
    "NominatedNodeNameForExpectation", "NodeDeclaredFeatures", "OpportunisticBatching", "PodLevelResources",
    "PodObservedGenerationTracking",
    "PodSchedulingReadiness", "SchedulerAsyncPreemption", "SchedulerPopFromBackoffQ",
    "SchedulerQueueingHints", "StorageCapacityScoring", "TaintTolerationComparisonOperators",
    "VolumeAttributesClass", "VolumeLimitScaling",
)  # fmt: skip

PODS = "/api/v1/namespaces/${run}/pods"
CLAIMS = "/apis/resource.k8s.io/{version}/namespaces/${{run}}/resourceclaims"
_NODES = "/api/v1/nodes"
_ZONE, _HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_IMAGES = {"registry.example.com/web:v1": 900_000_000, "registry.example.com/db:v1": 300_000_000}
_PRIORITIES = {"low": -10, "high": 100, "top": 1000, "patient": 100}
_TAINTS: Sequence[Object] = (
    {"key": "dedicated", "value": "a", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "b", "effect": "PreferNoSchedule"},
    {"key": "maintenance", "effect": "NoExecute"},
    {"key": "slow", "effect": "PreferNoSchedule"},
    {"key": "level", "value": "5", "effect": "NoSchedule"},
)
_TOLERATIONS: Sequence[Object] = (
    {"operator": "Exists"},
    {"key": "dedicated", "operator": "Exists"},
    {"key": "dedicated", "operator": "Equal", "value": "a", "effect": "NoSchedule"},
    {"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
    {"key": "slow", "operator": "Exists", "effect": "PreferNoSchedule"},
    {"key": "level", "operator": "Gt", "value": "3", "effect": "NoSchedule"},
)
_DRIVER = "csi.example.com"


def resource_version(minor: int) -> str:
    """Returns the newest version of resource.k8s.io whose requests have `exactly`."""
    return "v1" if minor >= 34 else "v1beta2"


class _Devices(Problems):
    """Problems of allocation of which the devices belong to the nodes of a history."""

    def __init__(self, seed: str, gates: Mapping[str, bool], nodes: int) -> None:
        super().__init__(0)
        self._chance = random.Random(seed)
        self._nodes = nodes
        self.gates = gates

    def pools(self, number: int) -> list[Object]:
        """Returns the slices of some pools."""
        return [each for at in range(number) for each in self._pool(at)]

    def classes(self) -> list[Object]:
        return self._classes()

    def claim(self, number: int) -> Object:
        return self._claim(number)

    def _selection(self, local: bool, *, per_device: bool = False) -> Object:
        if local:
            return {"nodeName": f"node-{self._chance.randrange(self._nodes)}"}
        made = super()._selection(local, per_device=per_device)
        for term in made.get("nodeSelector", {}).get("nodeSelectorTerms", ()):
            term["matchExpressions"][0]["key"] = _ZONE
        return made


class Placements:
    """Makes the steps of a history."""

    def __init__(self, seed: int, minor: int, gates: Mapping[str, bool]) -> None:
        """`gates` has those of GATES that the release knows."""
        self.chance = random.Random(f"placements-{seed}")
        self.steps: list[Object] = []
        self.gates = gates
        self.minor = minor
        self._nodes = self.chance.randrange(2, 6)
        self._count = self.chance.randrange(4, 9)
        self._seed = seed
        mixes = ("plain", "devices", "volumes", "preemption", "topology")
        self._mix = self.chance.choices(mixes, (3, 4, 2, 3, 3))[0]
        self._claims: list[str] = []
        self._volumes: list[str] = []
        self._pods: list[str] = []

    def request(self, method: str, path: str, body: Any = None, content: str = "", **more: Any) -> None:
        step: Object = {"method": method, "path": path, **more}
        if body is not None:
            step["body"] = body
        if content:
            step["content"] = content
        self.steps.append(step)

    def make(self) -> list[Object]:
        chance = self.chance
        self._namespaces()
        for number in range(self._nodes):
            self._node(number)
        if self._mix == "devices" or chance.random() < 0.1:
            self._devices()
        if self._mix == "volumes" or chance.random() < 0.1:
            self._storage()
        if self._mix == "preemption":
            self._budget()
        for number in range(self._count):
            self._pod(number)
            if chance.random() < 0.25:
                self._change()
        return self.steps

    # -- before the pods

    def _namespaces(self) -> None:
        labels = {"team": self.chance.choice(("a", "b"))}
        namespace = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "${run}", "labels": labels},
        }
        self.request("POST", "/api/v1/namespaces", namespace, setup=True)
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default"},
            "automountServiceAccountToken": False,
        }
        self.request("POST", "/api/v1/namespaces/${run}/serviceaccounts", account, setup=True)
        if self.minor == 33 or self.chance.random() < 0.3:
            label = {"resource.kubernetes.io/admin-access": "true"}
            self.request(
                "PATCH", "/api/v1/namespaces/${run}", {"metadata": {"labels": label}}, MERGE, setup=True
            )
        for name, value in _PRIORITIES.items():
            made: Object = {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
            if name == "patient":
                made["preemptionPolicy"] = "Never"
            self.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", made, setup=True)

    def _node(self, number: int) -> None:
        chance, name = self.chance, f"node-{number}"
        labels = {_HOST: name, "kubernetes.io/os": "linux", "size": str(chance.randrange(1, 6))}
        if chance.random() < 0.85:
            labels[_ZONE] = chance.choice("aab")
        if chance.random() < 0.5:
            labels["disk"] = chance.choice(("ssd", "hdd"))
        capacity = {
            "cpu": chance.choice(("1", "2", "2", "4", "3500m")),
            "memory": chance.choice(("1Gi", "2Gi", "4Gi", "8000000k")),
            "pods": chance.choice(("2", "5", "110", "110")),
            "ephemeral-storage": chance.choice(("10Gi", "20Gi")),
        }
        if chance.random() < 0.3:
            capacity["example.com/widget"] = chance.choice(("0", "1", "3"))
        if chance.random() < 0.2:
            capacity["hugepages-2Mi"] = "64Mi"
        allocatable = dict(capacity)
        if chance.random() < 0.3:
            allocatable["cpu"] = chance.choice(("900m", "1"))
        status: Object = {"capacity": capacity, "allocatable": allocatable}
        if chance.random() < 0.5:
            chosen = chance.sample(sorted(_IMAGES), chance.randrange(1, 3))
            status["images"] = [{"names": [each], "sizeBytes": _IMAGES[each]} for each in chosen]
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": status,
        }
        self.request("POST", _NODES, node, setup=True)
        # Admission gives new nodes a taint, which a kubelet's first status has taken away.
        taints = [dict(each) for each in chance.sample(_TAINTS, chance.choice((0, 0, 0, 1, 1, 2)))]
        spec: Object = {"taints": taints or None}
        if chance.random() < 0.07:
            spec["unschedulable"] = True
        self.request("PATCH", f"{_NODES}/{name}", {"spec": spec}, MERGE, setup=True)

    def _devices(self) -> None:
        chance, version = self.chance, resource_version(self.minor)
        known = {name: self.gates.get(name, False) for name in self.gates}
        for name in ("DRAConsumableCapacity", "DRADeviceTaints", "DRAListTypeAttributes", "DRAAdminAccess"):
            known.setdefault(name, self.minor >= 36)
        for name in ("DRADeviceBindingConditions", "DRAPartitionableDevices", "DRAPrioritizedList"):
            known.setdefault(name, self.minor >= 36)
        known["DRADeviceBindingConditions"] = False  # nobody here sets the conditions
        devices = _Devices(f"devices-{self._seed}", known, self._nodes)
        group = f"/apis/resource.k8s.io/{version}"
        for each in devices.pools(chance.randrange(1, 5)):
            each["apiVersion"] = f"resource.k8s.io/{version}"
            self.request("POST", f"{group}/resourceslices", each, setup=True)
        for each in devices.classes():
            each["apiVersion"] = f"resource.k8s.io/{version}"
            if each["metadata"]["name"] == "gpu" and chance.random() < 0.5 and self.minor >= 34:
                each["spec"]["extendedResourceName"] = "example.com/gpu"
            self.request("POST", f"{group}/deviceclasses", each, setup=True)
        for number in range(chance.randrange(2, 7)):
            claim = devices.claim(number)
            claim["apiVersion"] = f"resource.k8s.io/{version}"
            claim["metadata"] = {"name": claim["metadata"]["name"], "namespace": "${run}"}
            self._claims.append(claim["metadata"]["name"])
            self.request("POST", CLAIMS.format(version=version), claim, setup=True)

    def _storage(self) -> None:
        chance = self.chance
        for name, mode in (("wait", "WaitForFirstConsumer"), ("now", "Immediate")):
            made = {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": name},
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": mode,
            }
            self.request("POST", "/apis/storage.k8s.io/v1/storageclasses", made, setup=True)
        for number in range(self._nodes):
            if chance.random() < 0.6:
                driver: Object = {"name": _DRIVER, "nodeID": f"node-{number}", "topologyKeys": []}
                if chance.random() < 0.8:
                    driver["allocatable"] = {"count": chance.choice((1, 1, 2))}
                made = {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "CSINode",
                    "metadata": {"name": f"node-{number}"},
                    "spec": {"drivers": [driver]},
                }
                self.request("POST", "/apis/storage.k8s.io/v1/csinodes", made, setup=True)
        for number in range(chance.randrange(2, 6)):
            self._volume(number)

    def _volume(self, number: int) -> None:
        chance, claim, volume = self.chance, f"data-{number}", f"volume-{number}"
        self._volumes.append(claim)
        bound = chance.random() < 0.75
        modes = [chance.choice(("ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"))]
        storage = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": modes}
        spec: Object = {"storageClassName": chance.choice(("wait", "wait", "now", "none")), **storage}
        metadata: Object = {"name": claim}
        if bound:
            spec["volumeName"] = volume
            metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        path = "/api/v1/namespaces/${run}/persistentvolumeclaims"
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
        self.request("POST", path, body, setup=True)
        if not bound or chance.random() < 0.05:
            return
        self.request("PATCH", f"{path}/{claim}/status", {"status": {"phase": "Bound"}}, MERGE, setup=True)
        made: Object = {
            "capacity": {"storage": "1Gi"},
            "accessModes": modes,
            "storageClassName": spec["storageClassName"],
            "csi": {"driver": _DRIVER, "volumeHandle": f"handle-{number}"},
            "claimRef": {"namespace": "${run}", "name": claim},
        }
        labels: Object = {}
        if chance.random() < 0.5:
            key = chance.choice((_ZONE, _HOST))
            values = ["a"] if key == _ZONE else [f"node-{chance.randrange(self._nodes)}"]
            term = {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}
            made["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
        elif chance.random() < 0.3:
            labels = {_ZONE: chance.choice(("a", "b", "a__b"))}
        body = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume, "labels": labels},
            "spec": made,
        }
        self.request("POST", "/api/v1/persistentvolumes", body, setup=True)

    def _budget(self) -> None:
        chance = self.chance
        for number in range(chance.randrange(3)):
            name, label = f"budget-{number}", chance.choice(("web", "db"))
            spec: Object = {"minAvailable": 1, "selector": {"matchLabels": {"app": label}}}
            body = {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": name},
                "spec": spec,
            }
            path = "/apis/policy/v1/namespaces/${run}/poddisruptionbudgets"
            self.request("POST", path, body, setup=True)
            counts = {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
            status = {**counts, "disruptionsAllowed": chance.randrange(3), "observedGeneration": 1}
            self.request("PATCH", f"{path}/{name}/status", {"status": status}, MERGE, setup=True)

    # -- pods

    def _pod(self, number: int) -> None:
        chance, name = self.chance, f"pod-{number}"
        labels = {"app": chance.choice(("web", "db", "web"))}
        if chance.random() < 0.3:
            labels["track"] = chance.choice(("x", "y"))
        spec: Object = {
            "terminationGracePeriodSeconds": 0,
            "containers": [self._container(at) for at in range(chance.choice((1, 1, 1, 2)))],
        }
        self._scheduling(spec)
        if self._claims and chance.random() < (0.75 if self._mix == "devices" else 0.3):
            self._use_claims(spec)
        if self._volumes and chance.random() < 0.7:
            self._use_volumes(spec)
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "${run}", "labels": labels},
            "spec": spec,
        }
        self.request("POST", PODS, body, waits=True)
        self._pods.append(name)
        if chance.random() < 0.7:
            started = f"2026-01-01T00:00:{chance.randrange(60):02}Z"
            status = {"status": {"phase": "Running", "startTime": started}}
            self.request("PATCH", f"{PODS}/{name}/status", status, MERGE, of_bound=name)
        if chance.random() < 0.8:
            self.request("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0", of_unbound=name, waits=True)

    def _scheduling(self, spec: Object) -> None:
        chance = self.chance
        often = 0.6 if self._mix == "topology" else 0.12
        if chance.random() < (0.75 if self._mix == "preemption" else 0.15):
            spec["priorityClassName"] = chance.choice(("low", "low", "high", "high", "top", "patient"))
        if chance.random() < 0.25:
            spec["tolerations"] = [
                dict(each) for each in chance.sample(_TOLERATIONS[:5], chance.choice((1, 1, 2)))
            ]
            if self.gates.get("TaintTolerationComparisonOperators") and chance.random() < 0.4:
                spec["tolerations"].append(dict(_TOLERATIONS[5]))
        if chance.random() < 0.12:
            spec["nodeSelector"] = {"disk": chance.choice(("ssd", "hdd"))}
        affinity = self._affinity(often)
        if affinity:
            spec["affinity"] = affinity
        if chance.random() < often:
            spec["topologySpreadConstraints"] = [self._spread(at) for at in range(chance.choice((1, 1, 2)))]
        self._rarely(spec)

    def _affinity(self, often: float) -> Object:
        chance = self.chance
        affinity: Object = {}
        if chance.random() < 0.2:
            affinity["nodeAffinity"] = self._node_affinity()
        if chance.random() < often:
            affinity["podAffinity"] = self._pod_affinity()
        if chance.random() < often:
            affinity["podAntiAffinity"] = self._pod_affinity()
        return affinity

    def _rarely(self, spec: Object) -> None:
        chance = self.chance
        if chance.random() < 0.03:
            spec["schedulingGates"] = [{"name": "example.com/wait"}]
        if chance.random() < 0.1:
            init: Object = {"name": "init", **self._container(9)}
            init["name"] = "init"
            if chance.random() < 0.5:
                init["restartPolicy"] = "Always"
            spec["initContainers"] = [init]
        if self.minor >= 34 and chance.random() < 0.06:
            spec["resources"] = {"requests": {"cpu": "1500m", "memory": "512Mi"}}

    def _container(self, number: int) -> Object:
        chance = self.chance
        requests: Object = {}
        heavy = self._mix == "preemption"
        if chance.random() < (0.95 if heavy else 0.7):
            requests["cpu"] = chance.choice(
                ("500m", "1", "1500m") if heavy else ("100m", "250m", "500m", "1", "3")
            )
        if chance.random() < 0.5:
            requests["memory"] = chance.choice(("64Mi", "256Mi", "1Gi", "100M"))
        if chance.random() < 0.05:
            requests["ephemeral-storage"] = chance.choice(("1Gi", "15Gi"))
        limits: Object = {}
        if chance.random() < 0.06:
            limits["example.com/widget"] = chance.choice(("1", "2"))
        if chance.random() < 0.04:
            limits["hugepages-2Mi"] = "32Mi"
            requests.setdefault("cpu", "100m")
        if self._claims and chance.random() < 0.12:
            limits["example.com/gpu"] = chance.choice(("1", "1", "2"))
        made: Object = {"name": f"c{number}", "image": chance.choice(("app", *sorted(_IMAGES)))}
        resources = {"requests": requests, "limits": limits}
        made["resources"] = {name: each for name, each in resources.items() if each}
        if chance.random() < 0.07:
            port: Object = {"containerPort": 80, "hostPort": chance.choice((80, 8080))}
            if chance.random() < 0.3:
                port["hostIP"] = "127.0.0.1"
            if chance.random() < 0.2:
                port["protocol"] = "UDP"
            made["ports"] = [port]
        return made

    def _expression(self) -> Object:
        chance = self.chance
        key = chance.choice(("disk", "size", _ZONE, "absent"))
        operator = chance.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        made: Object = {"key": key, "operator": operator}
        if operator in {"In", "NotIn"}:
            made["values"] = chance.choice((["ssd"], ["ssd", "hdd"], ["a"], ["1", "2", "3"]))
        elif operator in {"Gt", "Lt"}:
            made["values"] = [str(chance.randrange(1, 5))]
        return made

    def _node_term(self) -> Object:
        chance = self.chance
        if chance.random() < 0.12:
            names = [f"node-{chance.randrange(self._nodes + 1)}"]
            operator = chance.choice(("In", "In", "NotIn"))
            made: Object = {"matchFields": [{"key": "metadata.name", "operator": operator, "values": names}]}
            if chance.random() < 0.2:
                made["matchExpressions"] = [self._expression()]
            return made
        return {"matchExpressions": [self._expression() for _ in range(chance.choice((1, 1, 2)))]}

    def _node_affinity(self) -> Object:
        chance, made = self.chance, Object()
        if chance.random() < 0.5:
            terms = [self._node_term() for _ in range(chance.choice((1, 1, 2)))]
            made["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if not made or chance.random() < 0.4:
            made["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": chance.choice((1, 10, 100)), "preference": self._node_term()}
                for _ in range(chance.choice((1, 2)))
            ]
        return made

    def _selector(self) -> Object:
        chance = self.chance
        return chance.choice(
            (
                {"matchLabels": {"app": "web"}},
                {"matchLabels": {"app": "db"}},
                {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]},
                {"matchExpressions": [{"key": "track", "operator": "DoesNotExist"}]},
                {},
            )
        )

    def _pod_affinity(self) -> Object:
        chance, made = self.chance, Object()

        def term() -> Object:
            one: Object = {
                "topologyKey": chance.choice((_ZONE, _HOST, "disk")),
                "labelSelector": self._selector(),
            }
            if chance.random() < 0.15:
                one["namespaceSelector"] = chance.choice(({}, {"matchLabels": {"team": "a"}}))
            elif chance.random() < 0.1:
                one["namespaces"] = [chance.choice(("${run}", "other"))]
            if chance.random() < 0.1:
                one[chance.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["track"]
            return one

        if chance.random() < 0.6:
            made["requiredDuringSchedulingIgnoredDuringExecution"] = [
                term() for _ in range(chance.choice((1, 1, 2)))
            ]
        if not made or chance.random() < 0.3:
            made["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": chance.choice((1, 50, 100)), "podAffinityTerm": term()}
                for _ in range(chance.choice((1, 2)))
            ]
        return made

    def _spread(self, number: int) -> Object:
        chance = self.chance
        made: Object = {
            "maxSkew": chance.choice((1, 1, 2)),
            "topologyKey": (_ZONE, _HOST)[number] if chance.random() < 0.8 else "disk",
            "whenUnsatisfiable": chance.choice(("DoNotSchedule", "ScheduleAnyway")),
        }
        if chance.random() < 0.9:
            made["labelSelector"] = self._selector()
        if made["whenUnsatisfiable"] == "DoNotSchedule" and chance.random() < 0.2:
            made["minDomains"] = chance.choice((1, 2, 3))
        if chance.random() < 0.15:
            made["nodeAffinityPolicy"] = chance.choice(("Honor", "Ignore"))
        if chance.random() < 0.15:
            made["nodeTaintsPolicy"] = chance.choice(("Honor", "Ignore"))
        if made.get("labelSelector") and chance.random() < 0.1:
            made["matchLabelKeys"] = ["track"]
        return made

    def _use_claims(self, spec: Object) -> None:
        chance = self.chance
        chosen = chance.sample(self._claims, min(len(self._claims), chance.choice((1, 1, 1, 2))))
        if chance.random() < 0.04:
            chosen[0] = "no-such-claim"
        spec["resourceClaims"] = [
            {"name": f"r{at}", "resourceClaimName": each} for at, each in enumerate(chosen)
        ]

    def _use_volumes(self, spec: Object) -> None:
        chance = self.chance
        chosen = chance.sample(self._volumes, min(len(self._volumes), chance.choice((1, 1, 2))))
        if chance.random() < 0.05:
            chosen[0] = "no-such-volume"
        spec["volumes"] = [
            {"name": f"v{at}", "persistentVolumeClaim": {"claimName": each}} for at, each in enumerate(chosen)
        ]

    # -- changes

    def _change(self) -> None:
        chance = self.chance
        node = f"{_NODES}/node-{chance.randrange(self._nodes)}"
        way = chance.choice(
            ("delete", "delete", "cordon", "uncordon", "label", "taint", "grow", "gates", "release")
        )
        if way == "delete":
            name = chance.choice(self._pods)
            self.request("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0", waits=True)
        elif way in {"cordon", "uncordon"}:
            body = {"spec": {"unschedulable": True if way == "cordon" else None}}
            self.request("PATCH", node, body, MERGE, waits=True)
        elif way == "label":
            labels = {chance.choice(("disk", "size", _ZONE)): chance.choice(("ssd", "3", "a", "b", None))}
            self.request("PATCH", node, {"metadata": {"labels": labels}}, MERGE, waits=True)
        elif way == "taint":
            taints = [dict(each) for each in chance.sample(_TAINTS, chance.choice((0, 1)))]
            self.request("PATCH", node, {"spec": {"taints": taints or None}}, MERGE, waits=True)
        elif way == "grow":
            more = {"cpu": chance.choice(("1", "4", "8")), "pods": "110", "memory": "8Gi"}
            body = {"status": {"allocatable": more, "capacity": more}}
            self.request("PATCH", f"{node}/status", body, MERGE, waits=True)
        elif way == "gates":
            name = chance.choice(self._pods)
            body = {"spec": {"schedulingGates": None}}
            self.request("PATCH", f"{PODS}/{name}", body, MERGE, waits=True)
        elif self._claims:
            version = resource_version(self.minor)
            path = f"{CLAIMS.format(version=version)}/{chance.choice(self._claims)}/status"
            self.request("PATCH", path, {"status": {"reservedFor": None}}, MERGE, waits=True)


def placements(seed: int, minor: int, gates: Mapping[str, bool]) -> Object:
    """Returns the history of a seed."""
    return {"name": f"placements-{seed}", "steps": Placements(seed, minor, gates).make()}
