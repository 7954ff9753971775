"""Writes logs by hand: one line per write, as the store would have them."""

from datetime import UTC, datetime, timedelta

from kubeskew.apimachinery.clock import SystemClock, micro_timestamp
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.conformance.evidence.log import ComponentChange, Write
from kubeskew.conformance.evidence.nodes import DriverCall, NodeRecords
from kubeskew.conformance.invariants.catalogue import invariants, measuring
from kubeskew.conformance.invariants.invariant import USUAL, Evidence
from kubeskew.conformance.invariants.judgement import check

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = {
    "pods": ("v1", "Pod"),
    "events": ("v1", "Event"),
    "nodes": ("v1", "Node"),
    "services": ("v1", "Service"),
    "resourcequotas": ("v1", "ResourceQuota"),
    "replicasets.apps": ("apps/v1", "ReplicaSet"),
    "statefulsets.apps": ("apps/v1", "StatefulSet"),
    "daemonsets.apps": ("apps/v1", "DaemonSet"),
    "jobs.batch": ("batch/v1", "Job"),
    "cronjobs.batch": ("batch/v1", "CronJob"),
    "persistentvolumeclaims": ("v1", "PersistentVolumeClaim"),
    "persistentvolumes": ("v1", "PersistentVolume"),
    "namespaces": ("v1", "Namespace"),
    "configmaps": ("v1", "ConfigMap"),
    "leases.coordination.k8s.io": ("coordination.k8s.io/v1", "Lease"),
    "resourceclaims.resource.k8s.io": ("resource.k8s.io/v1", "ResourceClaim"),
    "deviceclasses.resource.k8s.io": ("resource.k8s.io/v1", "DeviceClass"),
    "resourceslices.resource.k8s.io": ("resource.k8s.io/v1", "ResourceSlice"),
    "noderesourceslices.resource.k8s.io": ("resource.k8s.io/v1alpha2", "NodeResourceSlice"),
}
CLUSTER_WIDE = {
    "nodes",
    "persistentvolumes",
    "namespaces",
    "resourceslices.resource.k8s.io",
    "deviceclasses.resource.k8s.io",
}
CLAIMS = "resourceclaims.resource.k8s.io"
SCHEDULER, MANAGER = "kube-scheduler 1.36", "kube-controller-manager 1.36"
ALL = ("apiserver", "controller-manager", "scheduler", "kubelet/n1")
RUNNING = {"phase": "Running"}
DELETING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
SLICES = "resourceslices.resource.k8s.io"
LEASES = "leases.coordination.k8s.io"
COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"


def at(second):
    return micro_timestamp(BEGIN + timedelta(seconds=second))


class History:
    """A log that grows by one second with each write."""

    def __init__(self, *components, version="1.36"):
        self.log = []
        self._there = set()
        self.now = 0
        for component in components:
            self.component(component, version=version)

    def component(self, name, what="started", version="1.36"):
        self.log.append(ComponentChange(len(self.log), at(self.now), name, what, version, ""))

    def write(self, resource, name, *, by="kubectl 1.36", user="", server="1.36", api_version="", **parts):
        """Creates or replaces an object; `metadata` is added to its names."""
        verb = "update" if (resource, name) in self._there else "create"
        self._there.add((resource, name))
        return self._add(
            verb, resource, name, by, user, server, self._object(resource, name, api_version, parts)
        )

    def delete(self, resource, name, *, by="kube-controller-manager 1.36", user="", **parts):
        return self._add("delete", resource, name, by, user, "1.36", self._object(resource, name, "", parts))

    def _object(self, resource, name, api_version, parts):
        own, kind = KINDS[resource]
        namespace = {} if resource in CLUSTER_WIDE else {"namespace": parts.pop("namespace", "default")}
        metadata = {"name": name, **namespace, "uid": f"{kind}-{name}", **parts.pop("metadata", {})}
        return {"apiVersion": api_version or own, "kind": kind, "metadata": metadata, **parts}

    def _add(self, verb, resource, name, by, user, server, obj):
        self.now += 1
        namespace = obj["metadata"].get("namespace", "")
        place = (resource, namespace, name)
        self.log.append(Write(len(self.log) + 1, at(self.now), verb, *place, by, obj, server, user))
        return self

    def broken(self, *, at_rest=True, calls=(), containers=(), tolerance=USUAL, **evidence):
        """Returns the violations as `code: message`."""
        measure = measuring(FeatureGates(Version.parse("1.36"), {}), SystemClock())
        records = NodeRecords(calls, containers)
        judges = invariants(measure, tolerance)
        found = check(self.log, judges, Evidence(records, **evidence), at_rest=at_rest)
        return [f"{violation.code}: {violation.message}" for violation in found]


def owned_by(kind, name, **more):
    return {
        "ownerReferences": [{"kind": kind, "name": name, "uid": f"{kind}-{name}", "controller": True, **more}]
    }


def allocation(*devices, reserved=(), **result):
    """Returns a claim's status with devices of driver `d` and pool `p`."""
    results = [{"request": "r", "driver": "d", "pool": "p", "device": device, **result} for device in devices]
    consumers = [{"resource": "pods", "name": pod, "uid": f"Pod-{pod}"} for pod in reserved]
    return {"allocation": {"devices": {"results": results}}, "reservedFor": consumers}


def call(name, call="NodePrepareResources", second=0, error="", uid=""):
    device = {"pool": "p", "device": "gpu-0", "requests": ["r"], "cdiIDs": []}
    devices = [] if "Unprepare" in call else [device]
    uid = uid or f"ResourceClaim-{name}"
    return DriverCall(at(second), "n1", "d", call, "default", name, uid, error, devices)


def bind(log, **node):
    log.write("nodes", "n1", **node)
    log.write("pods", "p", spec={}).write("pods", "p", spec={"nodeName": "n1"}, by=SCHEDULER)
    return log
