"""Makes random allocation problems, as `kubeskew allocate --jsonl` reads them, and compares the answers."""

import json
import random
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.scheduler.allocator.cases import run_case

Object = dict[str, Any]
_TRIES = 40
_TOO_LONG = "context deadline exceeded"

GATES = (
    "DRAAdminAccess", "DRAConsumableCapacity", "DRADeviceBindingConditions", "DRADeviceTaints",
    "DRAListTypeAttributes", "DRAPartitionableDevices", "DRAPrioritizedList", "DRAResourceClaimDeviceStatus",
)  # fmt: skip
_DRIVERS = ("gpu.example.com", "nic.example.com")
_MODELS = ("a100", "h100", "l4")
_VERSIONS = ("1.2.3", "1.10.0-rc.1", "2.0.0+build5", "535.104.5")
_SELECTORS = (
    "device.driver == 'gpu.example.com'",
    "device.attributes[device.driver].?model.orValue('') == 'a100'",
    "device.attributes['gpu.example.com'].model == 'a100'",
    "'model' in device.attributes['gpu.example.com'] && device.attributes['gpu.example.com'].model != 'l4'",
    "device.attributes[device.driver].?numa.orValue(-1) == 0",
    "device.attributes[device.driver].index < 3",
    (
        "has(device.capacity[device.driver].memory) && "
        "device.capacity[device.driver].memory.compareTo(quantity('16Gi')) >= 0"
    ),
    "device.capacity[device.driver].memory.compareTo(quantity('16Gi')) >= 0",
    "has(device.attributes[device.driver].healthy) && device.attributes[device.driver].healthy",
    (
        "!has(device.attributes[device.driver].driverVersion) || "
        "device.attributes[device.driver].driverVersion.isGreaterThan(semver('1.2.3'))"
    ),
    "device.attributes[device.driver].links.includes('l1')",
    "device.allowMultipleAllocations == true",
    "cel.bind(a, device.attributes[device.driver], has(a.model) && a.model.startsWith('h'))",
    "true",
)
_ATTRIBUTES = (
    "numa",
    "model",
    "index",
    "gpu.example.com/model",
    "resource.kubernetes.io/pcieRoot",
    "links",
    "driverVersion",
    "none",
)
_TAINT_KEYS = ("gpu.example.com/unhealthy", "dedicated")
_TOLERATIONS: Sequence[Object] = (
    {"operator": "Exists"},
    {"key": "dedicated", "operator": "Equal", "value": "team-a", "effect": "NoSchedule"},
    {"key": "gpu.example.com/unhealthy", "operator": "Exists", "effect": "NoSchedule"},
    {
        "key": "gpu.example.com/unhealthy",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 30,
    },
    {"key": "dedicated", "operator": "Exists"},
)
_QUANTITIES = ("1Gi", "2Gi", "4Gi", "8Gi", "16Gi", "40Gi", "80Gi", "24576Mi", "3Gi")


class Problems:
    """Makes the problem of a seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(f"allocation-{seed}")
        self.gates = {name: self._chance.random() < 0.8 for name in GATES}
        self.devices: list[tuple[str, str, Object]] = []  # driver, pool, device

    def problem(self, name: str, version: str) -> Object:
        """Returns a node, classes, slices, claims and what is allocated."""
        chance = self._chance
        slices = [each for number in range(chance.randrange(1, 4)) for each in self._pool(number)]
        chance.shuffle(slices)
        claims = [self._claim(number) for number in range(chance.choice((1, 1, 2, 3)))]
        made = {
            "name": name,
            "version": version,
            "featureGates": self.gates,
            "node": {"metadata": {"name": "node-1", "labels": {"zone": "a"}}},
            "classes": self._classes(),
            "slices": slices,
            "claims": claims,
        }
        return {**made, **self._taken()}

    def _pool(self, number: int) -> list[Object]:
        chance = self._chance
        driver, local = chance.choice(_DRIVERS), chance.random() < 0.5
        pool = f"node-1-{number}" if local else f"pool-{number}"
        count = chance.choice((1, 1, 1, 2, 3))
        generation, slices = chance.choice((1, 1, 2)), list[Object]()
        counted = self.gates["DRAPartitionableDevices"] and chance.random() < 0.3
        for at in range(count):
            spec: Object = {
                "driver": driver,
                "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            }
            if chance.random() < 0.04:
                spec["pool"]["resourceSliceCount"] = count + 1
            spec |= self._selection(local)
            devices = [self._device(at * 4 + each, driver, counted) for each in range(chance.randrange(1, 5))]
            if spec.get("perDeviceNodeSelection"):
                for device in devices:
                    device |= self._selection(chance.random() < 0.5, per_device=True)
            spec["devices"] = devices
            self.devices += [(driver, pool, device) for device in devices]
            slices.append(_slice(f"s{number}{at}-{pool}", spec))
        if counted:
            counters = {"name": "set-0", "counters": {"memory": {"value": "40Gi"}, "slots": {"value": "4"}}}
            spec = {
                "driver": driver,
                "pool": {"name": pool, "generation": generation, "resourceSliceCount": count + 1},
            }
            spec |= {"allNodes": True} if not local else {"nodeName": "node-1"}
            for each in slices:
                each["spec"]["pool"]["resourceSliceCount"] = count + 1
            slices.append(_slice(f"s{number}c-{pool}", {**spec, "sharedCounters": [counters]}))
        if chance.random() < 0.08:  # of an older generation
            spec = {
                "driver": driver,
                "pool": {"name": pool, "generation": 0, "resourceSliceCount": 1},
                "nodeName": "node-1",
            }
            slices.append(_slice(f"s{number}-old", {**spec, "devices": [{"name": "old"}]}))
        return slices

    def _selection(self, local: bool, *, per_device: bool = False) -> Object:
        chance = self._chance
        if local:
            return {"nodeName": chance.choice(("node-1", "node-1", "node-1", "node-1", "node-1", "node-2"))}
        zone = {
            "matchExpressions": [
                {"key": "zone", "operator": chance.choice(("In", "In", "NotIn")), "values": ["a"]}
            ]
        }
        ways: list[Object] = [
            {"allNodes": True},
            {"allNodes": True},
            {"nodeSelector": {"nodeSelectorTerms": [zone]}},
        ]
        if not per_device and self.gates["DRAPartitionableDevices"]:
            ways.append({"perDeviceNodeSelection": True})
        return dict(chance.choice(ways))

    def _device(self, number: int, driver: str, counted: bool) -> Object:
        chance = self._chance
        device: Object = {"name": f"dev-{number}", "attributes": self._attributes(number)}
        if chance.random() < 0.8:
            device["capacity"] = {"memory": {"value": chance.choice(_QUANTITIES)}}
            if chance.random() < 0.3:
                device["capacity"]["cores"] = {"value": chance.choice(("7", "14", "108"))}
        if self.gates["DRAConsumableCapacity"] and chance.random() < 0.3:
            device["allowMultipleAllocations"] = True
            if "capacity" in device and chance.random() < 0.6:
                device["capacity"]["memory"] |= {"requestPolicy": self._policy()}
        if self.gates["DRADeviceTaints"] and chance.random() < 0.2:
            device["taints"] = [
                {
                    "key": key,
                    "value": chance.choice(("team-a", "xid")),
                    "effect": chance.choice(("NoSchedule", "NoExecute", "None")),
                }
                for key in chance.sample(_TAINT_KEYS, chance.choice((1, 1, 2)))
            ]
        if self.gates["DRADeviceBindingConditions"] and chance.random() < 0.1:
            device |= {
                "bindingConditions": ["example.com/ready"],
                "bindingFailureConditions": ["example.com/failed"],
            }
            if chance.random() < 0.5:
                device["bindsToNode"] = True
        if counted and chance.random() < 0.7:
            counters = {"memory": {"value": chance.choice(("8Gi", "16Gi", "40Gi"))}}
            if chance.random() < 0.4:
                counters["slots"] = {"value": chance.choice(("1", "2"))}
            device["consumesCounters"] = [{"counterSet": "set-0", "counters": counters}]
        return device

    def _attributes(self, number: int) -> Object:
        chance = self._chance
        made: Object = {"index": {"int": number}}
        choices: Mapping[str, Object] = {
            "numa": {"int": chance.randrange(2)},
            chance.choice(("model", "gpu.example.com/model")): {"string": chance.choice(_MODELS)},
            "healthy": {"bool": chance.random() < 0.7},
            "driverVersion": {"version": chance.choice(_VERSIONS)},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:0{chance.randrange(3)}"},
        }
        made |= {name: value for name, value in choices.items() if chance.random() < 0.7}
        if self.gates["DRAListTypeAttributes"] and chance.random() < 0.3:
            made["links"] = {"strings": chance.sample(("l1", "l2", "l3"), chance.randrange(1, 4))}
        return made

    def _policy(self) -> Object:
        chance = self._chance
        if chance.random() < 0.5:
            made: Object = {"min": "1Gi"}
            if chance.random() < 0.6:
                made["max"] = "8Gi"
            if chance.random() < 0.5:
                made["step"] = chance.choice(("1Gi", "2Gi"))
            return {"default": "1Gi", "validRange": made}
        return {"default": "2Gi", "validValues": ["1Gi", "2Gi", "4Gi"]}

    def _classes(self) -> list[Object]:
        def made(name: str, *selectors: str, **spec: Any) -> Object:
            listed = [{"cel": {"expression": each}} for each in selectors]
            body = {"selectors": listed} if listed else {}
            return {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": name},
                "spec": {**body, **spec},
            }

        config = {
            "opaque": {"driver": "gpu.example.com", "parameters": {"kind": "GpuConfig", "sharing": "none"}}
        }
        return [
            made("gpu", _SELECTORS[0]),
            made("nic", "device.driver == 'nic.example.com'"),
            made("any"),
            made("big", _SELECTORS[0], _SELECTORS[6]),
            made("configured", config=[config]),
        ]

    def _claim(self, number: int) -> Object:
        chance, requests = self._chance, list[Object]()
        names: list[str] = []
        for at in range(chance.choice((1, 1, 2, 3))):
            name = f"req-{at}"
            names.append(name)
            if self.gates["DRAPrioritizedList"] and chance.random() < 0.3:
                below = [{"name": f"sub-{each}", **self._wanted()} for each in range(chance.randrange(1, 4))]
                for each in below:
                    each.pop("adminAccess", None)
                names += [f"{name}/{each['name']}" for each in below]
                requests.append({"name": name, "firstAvailable": below})
            else:
                requests.append({"name": name, "exactly": self._wanted()})
        devices: Object = {"requests": requests}
        if chance.random() < 0.25:
            devices["constraints"] = [self._constraint(names) for _ in range(chance.choice((1, 1, 2)))]
        if chance.random() < 0.2:
            config = {"opaque": {"driver": chance.choice(_DRIVERS), "parameters": {"a": number}}}
            devices["config"] = [
                {**config, **({"requests": [chance.choice(names)]} if chance.random() < 0.6 else {})}
            ]
        metadata = {"name": f"claim-{number}", "namespace": "default", "uid": f"uid-{number}"}
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": metadata,
            "spec": {"devices": devices},
        }

    def _constraint(self, names: Sequence[str]) -> Object:
        chance = self._chance
        attribute = chance.choice(_ATTRIBUTES)
        if "/" not in attribute:
            attribute = f"{chance.choice(_DRIVERS)}/{attribute}"
        distinct = self.gates["DRAConsumableCapacity"] and chance.random() < 0.3
        made: Object = {"distinctAttribute" if distinct else "matchAttribute": attribute}
        if chance.random() < 0.6:
            made["requests"] = chance.sample(names, chance.randrange(1, len(names) + 1))
        return made

    def _wanted(self) -> Object:
        chance = self._chance
        every = chance.random() < 0.2
        made: Object = {
            "deviceClassName": chance.choice(("gpu", "gpu", "any", "any", "nic", "big", "configured")),
            "allocationMode": "All" if every else "ExactCount",
        }
        if chance.random() < 0.02:
            made["deviceClassName"] = "no-such-class"
        if not every:
            made["count"] = chance.choice((1, 1, 1, 1, 2, 3))
        if chance.random() < 0.3:
            made["selectors"] = [
                {"cel": {"expression": chance.choice(_SELECTORS)}} for _ in range(chance.choice((1, 1, 2)))
            ]
        if self.gates["DRAAdminAccess"] and chance.random() < 0.1:
            made["adminAccess"] = True
        if self.gates["DRADeviceTaints"] and chance.random() < 0.3:
            made["tolerations"] = [
                dict(each) for each in chance.sample(_TOLERATIONS, chance.choice((1, 1, 2)))
            ]
        if self.gates["DRAConsumableCapacity"] and chance.random() < 0.25:
            made["capacity"] = {"requests": {"memory": chance.choice(_QUANTITIES)}}
        return made

    def _taken(self) -> Object:
        chance, made = self._chance, dict[str, list[Object]]()
        for driver, pool, device in self.devices:
            place = {"driver": driver, "pool": pool, "device": device["name"]}
            if chance.random() >= 0.15:
                continue
            if not device.get("allowMultipleAllocations"):
                made.setdefault("allocatedDevices", []).append(place)
                continue
            share = f"11111111-1111-1111-1111-{len(made.get('allocatedShares', ())):012}"
            made.setdefault("allocatedShares", []).append({**place, "shareID": share})
            if "memory" in device.get("capacity", {}):
                consumed = {"memory": chance.choice(("1Gi", "2Gi", "8Gi"))}
                made.setdefault("consumedCapacity", []).append({**place, "consumedCapacity": consumed})
        return dict(made)


def _slice(name: str, spec: Object) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": spec,
    }


def normal(answer: Mapping[str, Any]) -> Object:
    """Returns an answer without what is drawn or has no order: share ids, the order of results."""
    made: Object = json.loads(json.dumps({"allocations": None, **answer}))
    for allocation in made["allocations"] or ():
        allocation.setdefault("nodeSelector", None)
        results = (allocation.get("devices") or {}).get("results") or []
        for result in results:
            if "shareID" in result:
                result["shareID"] = "<share>"
        results.sort(key=lambda result: json.dumps(result, sort_keys=True))
    if "error" in made:  # of the lister that the program has
        made["error"] = made["error"].partition("could not retrieve device class")[0] or made["error"]
    return made


@dataclass(frozen=True, slots=True)
class Answered:
    """A problem's answers; `theirs` is the one that the program gave first."""

    seed: int
    theirs: Object
    ours: Object
    alike: bool

    @property
    def kind(self) -> str:
        if _TOO_LONG in self.theirs.get("error", ""):
            return "without an answer in time"
        if "error" in self.ours:
            return "failed"
        return "allocated" if self.ours["allocations"] is not None else "not allocated"


def asked(program: str, seeds: Iterable[int], version: str) -> Iterator[Answered]:
    """Yields the answers to the problems of some seeds."""
    problems = {seed: Problems(seed).problem(f"seed-{seed}", version) for seed in seeds}
    for (seed, problem), theirs in zip(problems.items(), _answers(program, problems.values()), strict=True):
        if _TOO_LONG in theirs.get("error", ""):
            yield Answered(seed, theirs, {}, alike=True)
            continue
        ours = normal(run_case(problem, lambda: "share"))
        # The order of a map decides some: upstream walks through slices and pools by it.
        alike = ours == theirs or ours in _answers(program, _in_other_orders(problem))
        yield Answered(seed, theirs, ours, alike)


def _in_other_orders(problem: Object) -> Iterator[Object]:
    chance, slices = random.Random(1), [*problem["slices"]]
    for _ in range(_TRIES):
        chance.shuffle(slices)
        yield {**problem, "slices": [*slices]}


def _answers(program: str, problems: Iterable[Object]) -> Sequence[Object]:
    lines = "\n".join(map(json.dumps, problems))
    run = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    return [normal(json.loads(line)) for line in run.stdout.splitlines()]
