"""The keys of a cluster file by place, with their meaning and the JSON Schema of their values.

This is the one declaration of them: `config.py` checks a file by it, and `docs/cluster-file.md` and
`docs/schemas/cluster.schema.json` are generated from it (`make schemas`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.gates import all_gates
from kubeskew.apimachinery.known_bugs import known_bugs
from kubeskew.apimachinery.known_names import CONTROLLER, DRIVER, METRICS_SERVER, PLUGIN
from kubeskew.apimachinery.periods import TIMES
from kubeskew.apimachinery.versions import DEFAULT_VERSION, MINORS, SUPPORTED
from kubeskew.apiserver.options import AUTO, MOST_WORKERS
from kubeskew.kubelet.drivers.profiles import PROFILES
from kubeskew.kubelet.drivers.settings import APIS, FLAGS
from kubeskew.kubelet.node.config import (
    DEFAULT_ENDPOINT,
    ENDPOINT,
    IMAGE_POLICIES,
    POLICIES,
    RESERVED,
    RUNTIMES,
)

Schema = dict[str, Any]

ANY_SERVER = "any"
LIKE = ("kind",)
MOST_SERVERS = 9
MOST_VERBOSE = 10
STORAGE_PATTERN = "^(sqlite$|postgres(ql)?([+]asyncpg)?://)"


@dataclass(frozen=True, slots=True)
class Key:
    """`schema` is that of the value, `example` is YAML.

    Errors have `expected` in place of a text that is made from the schema.
    """

    meaning: str
    schema: Schema
    example: str
    required: bool = False
    expected: str = ""

    def described(self) -> Schema:
        message = {"errorMessage": f"expected {self.expected}"} if self.expected else {}
        return {"description": self.meaning, **message, **self.schema}


Keys = Mapping[str, Key]


def object_of(keys: Keys, **more: Any) -> Schema:
    required = [name for name, key in keys.items() if key.required]
    return {
        "type": "object",
        "properties": {name: key.described() for name, key in keys.items()},
        "additionalProperties": False,
        **({"required": required} if required else {}),
        **more,
    }


def nullable(schema: Schema) -> Schema:
    """Null is read as an absent key."""
    return {**schema, "type": [schema["type"], "null"]}


def list_of(items: Schema) -> Schema:
    """Null is an empty list."""
    return {"type": ["array", "null"], "items": items}


TEXT: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
AMOUNTS: Schema = {"type": ["object", "null"], "additionalProperties": {"type": ["string", "number"]}}
VERSION: Schema = {"$ref": "#/$defs/version"}
GATES: Schema = {"$ref": "#/$defs/featureGates"}
BUGS: Schema = {"$ref": "#/$defs/bugs"}
COMPONENT: Schema = {"$ref": "#/$defs/component"}
SWITCHES: Schema = {
    "type": ["object", "null"],
    "errorMessage": "expected a mapping of names to true or false",
    "additionalProperties": BOOLEAN,
}
# For checks of the shape. Names of gates, bugs and components, and versions, are checked where they are read.
REFERENCES: Mapping[str, Schema] = {GATES["$ref"]: SWITCHES, BUGS["$ref"]: SWITCHES}
# The kinds of components that can be real programs of a folder.
REAL = ("apiserver", "scheduler", "controller-manager", "kubelet")
CONFIG_FLAG = "--config"  # of a scheduler's program: its configuration
# The kinds of components that every cluster has.
KINDS = ("apiserver", "controller-manager", "scheduler", "kubelet")


def definitions() -> Schema:
    """Returns the schemas that keys refer to, which hold every gate, bug and release."""
    minors = "|".join(str(version.minor) for version in MINORS)
    return {
        "version": {
            "anyOf": [
                {"enum": [str(version) for version in SUPPORTED]},
                {"type": "string", "pattern": rf"^v?1\.({minors})(\.[0-9]+)?$"},
                {"type": "string", "pattern": r"^v?1\.[0-9]+\+[a-z0-9]+$"},  # imported
            ]
        },
        "featureGates": {
            "type": ["object", "null"],
            "properties": dict.fromkeys(sorted(all_gates()), BOOLEAN),
            "additionalProperties": False,
        },
        "bugs": {
            "type": ["object", "null"],
            "properties": {
                name: {"description": f"{bug.title} ({bug.component})", "type": "boolean"}
                for name, bug in known_bugs().items()
            },
            "additionalProperties": False,
        },
        "component": {
            "anyOf": [
                {"enum": [*KINDS, DRIVER, PLUGIN, CONTROLLER, METRICS_SERVER]},
                {"type": "string", "pattern": rf"^apiserver-[1-{MOST_SERVERS}]$"},
                {"type": "string", "pattern": rf"^(kubelet|{DRIVER}|{PLUGIN}|{CONTROLLER})/.+$"},
            ]
        },
    }


WORKERS = Key(
    "Processes of an emulated API server that answer requests, behind one port and over one log; `auto` is "
    "what is fastest on the machine. One if nothing is said, and in a simulation.",
    {
        "type": ["integer", "string"],
        "pattern": f"^{AUTO}$",
        "minimum": 1,
        "maximum": MOST_WORKERS,
    },
    "workers: 2",
    expected=f"a number from 1 to {MOST_WORKERS}, or {AUTO}",
)
SERVER_KEYS: Keys = {"workers": WORKERS}

COMPONENT_KEYS: Keys = {
    "version": Key("Its version, in place of the cluster's.", VERSION, 'version: "1.34"'),
    "featureGates": Key(
        "Its gates, in addition to the cluster's.", GATES, "featureGates: {DRAExtendedResource: false}"
    ),
    "bugs": Key("Known bugs that it is to have or not.", BUGS, "bugs: {k8s-134773: off}"),
    "server": Key(
        f"The only API server that it speaks to. With {ANY_SERVER}, as without it, that is the first, and "
        "another takes the place of one that is down. API servers have none.",
        {"type": "string", "pattern": rf"^(apiserver(-[1-{MOST_SERVERS}])?|{ANY_SERVER})$"},
        "server: apiserver-2",
    ),
    "workers": WORKERS,
    "binary": Key(
        "A real program that runs in its place, wherever the component is at the program's minor: a "
        "kube-apiserver, a kube-scheduler, a kube-controller-manager, a kubelet (`kubelet/NODE`), or the "
        "program of a DRA driver (`driver/NAME`). A relative path begins at the cluster file.",
        {**TEXT, "minLength": 1},
        "binary: ./_output/bin/kube-scheduler",
        expected="the path of a program",
    ),
    "args": Key(
        "More arguments for its real program. In those of a driver {node}, {kubeconfig}, {registrarDir}, "
        "{pluginsDir}, {cdiDir} and {dataDir} are replaced.",
        {"type": ["array", "null"], "items": TEXT},
        "args: [--kube-api-qps=200]",
    ),
    "env": Key(
        "More environment variables for its real program, with the same replacements.",
        {"type": ["object", "null"], "additionalProperties": {"type": ["string", "number", "boolean"]}},
        'env: {NUM_DEVICES: "4"}',
    ),
}

PLUGIN_KEYS: Keys = {
    "resource": Key(
        "The extended resource that it offers.",
        {
            "type": "string",
            "pattern": "^.+/.+$",
            "not": {"pattern": "^deviceclass[.]resource[.]kubernetes[.]io/"},
        },
        "resource: example.com/gpu",
        required=True,
        expected="a resource such as example.com/gpu",
    ),
    "devices": Key("How many devices; 1 if it is left out.", {"type": "integer", "minimum": 0}, "devices: 2"),
    "deviceName": Key("What their names begin with.", nullable(TEXT), "deviceName: gpu"),
}

CONTROLLER_SCHEMA: Schema = {
    "type": ["boolean", "object", "null"],
    "properties": {
        **dict.fromkeys(FLAGS, BOOLEAN),
        "userLimit": {
            "type": "integer",
            "minimum": -1,
            "not": {"const": 0},
            "errorMessage": "expected a number above 0, or -1 for any",
        },
        "semanticParameters": {
            "type": ["boolean", "object"],
            "errorMessage": "expected true, or a mapping with apiGroup and kind",
            "properties": {"apiGroup": TEXT, "kind": TEXT},
            "required": ["apiGroup", "kind"],
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}

DRIVER_KEYS: Keys = {
    "name": Key(
        "The driver's name, as in a DeviceClass.",
        {**TEXT, "minLength": 1},
        "name: gpu.example.com",
        required=True,
        expected="the driver's name, as in a DeviceClass",
    ),
    "devices": Key("How many devices, all alike.", nullable({"type": "integer", "minimum": 0}), "devices: 8"),
    "deviceName": Key("What their names begin with.", nullable(TEXT), "deviceName: gpu"),
    "attributes": Key(
        "Attributes of each device.", {"type": ["object", "null"]}, "attributes: {model: a, cores: 4}"
    ),
    "capacity": Key("The capacity of each device.", {"type": ["object", "null"]}, "capacity: {memory: 40Gi}"),
    "profile": Key(
        "Devices as a product has them, in place of `devices`.",
        {"enum": [*(name for name in PROFILES if name), None]},
        "profile: a100-mig",
    ),
    "resources": Key(
        "Pools written out as in resource.k8s.io/v1: `slices`; at 1.29+kep4381 `nodeResources`.",
        {"type": ["object", "null"]},
        "resources: {slices: [{devices: [{name: gpu-0}]}]}",
    ),
    "pluginAPIs": Key(
        "The versions of the kubelet's DRA interface that it speaks; all if it is left out.",
        {"type": ["array", "null"], "items": {"enum": sorted(APIS)}},
        "pluginAPIs: [v1beta1]",
    ),
    "syncDelay": Key(
        "How long its library waits until it looks at what happened to its slices, upstream 30s; the same on "
        "all nodes. Its mutation cache lasts twice as long. If it is left out, it looks at once.",
        {"type": "string", "pattern": r"^[0-9]+([.][0-9]+)?(ms|s|m)$"},
        "syncDelay: 30s",
        expected="a duration such as 500ms or 2s",
    ),
    "controller": Key(
        "A controller that allocates claims, up to 1.31 (classic DRA): true, or its settings.",
        CONTROLLER_SCHEMA,
        "controller: {shareable: true, nodeLocal: false}",
        expected="true, or a mapping of settings",
    ),
}

IMAGE_KEYS: Keys = {
    "path": Key(
        "A root file system, an OCI layout or an archive (`docker save`, `skopeo`); for `runtime: host`.",
        TEXT,
        "path: ./agnhost.tar",
    ),
    "program": Key("A program of this machine; for `runtime: host`.", TEXT, "program: /bin/busybox"),
    "runsFor": Key(
        "Seconds until an acted container ends by itself, unless an annotation says otherwise.",
        {"type": "number", "minimum": 0},
        "runsFor: 5",
    ),
    "exitCode": Key(
        "Its exit code then; without `runsFor` a container whose command is not known ends at once.",
        {"type": "integer", "minimum": 0, "maximum": 255},
        "exitCode: 1",
    ),
    "onSigterm": Key(
        "`ignore`, or the seconds that an acted container lives after SIGTERM.",
        {"type": ["string", "number"], "pattern": "^(ignore|exit|[0-9]+([.][0-9]+)?)$", "minimum": 0},
        "onSigterm: ignore",
        expected="ignore, exit or a number of seconds",
    ),
}
CONTAINER_KEYS: Keys = {
    "runtime": Key(
        "What runs containers: `simulated` acts them, `host` runs processes of this machine in namespaces, "
        "`host-plain` without; `cri` is a container runtime of the machine, such as containerd.",
        {"enum": [*RUNTIMES]},
        "runtime: simulated",
    ),
    ENDPOINT: Key(
        "Where the container runtime listens, as in a KubeletConfiguration, which means `runtime: cri`; with "
        f"that alone it is `{DEFAULT_ENDPOINT}`.",
        {"type": "string", "pattern": "^unix:///."},
        f"{ENDPOINT}: unix:///run/crio/crio.sock",
        expected=f"a URL such as {DEFAULT_ENDPOINT}",
    ),
    "images": Key(
        "What images are, by names with wildcards; the first name that fits counts. A relative path begins "
        "at the cluster file.",
        {"type": ["object", "null"], "additionalProperties": object_of(IMAGE_KEYS)},
        'images: {"example.com/job:*": {runsFor: 5, exitCode: 1}}',
    ),
    "imagePolicy": Key(
        "What an image without an entry is: `strict` cannot pull it, as from a registry that does not have "
        "it; `simulate` acts it. By default `simulate` with `runtime: simulated`, else `strict`.",
        {"enum": [*IMAGE_POLICIES]},
        "imagePolicy: strict",
    ),
}

NODE_KEYS: Keys = {
    "name": Key(
        "The node's name; with `count`, what the names begin with.",
        {"type": ["string", "null"]},
        "name: gpu-node",
    ),
    "count": Key("So many nodes, numbered.", {"type": "integer", "minimum": 0}, "count: 100"),
    "labels": Key(
        "Labels of the Node.",
        {"type": ["object", "null"], "additionalProperties": {"type": ["string", "number", "boolean"]}},
        "labels: {zone: a}",
    ),
    "taints": Key(
        "Taints of the Node.", list_of({"type": "object"}), "taints: [{key: a, value: b, effect: NoSchedule}]"
    ),
    "capacity": Key(
        "What it has; 8 CPUs, 32Gi, 110 pods and 100Gi of storage unless said otherwise.",
        AMOUNTS,
        'capacity: {cpu: "8", memory: 32Gi, pods: "110"}',
    ),
    "drivers": Key(
        "DRA drivers on it.",
        list_of(object_of(DRIVER_KEYS)),
        "drivers: [{name: gpu.example.com, devices: 8}]",
    ),
    "devicePlugins": Key(
        "Device plugins on it.",
        list_of(object_of(PLUGIN_KEYS)),
        "devicePlugins: [{resource: example.com/gpu, devices: 2}]",
    ),
    "cpuManagerPolicy": Key(
        "`static` gives Guaranteed pods CPUs of their own.",
        {"enum": [*POLICIES["cpuManagerPolicy"]]},
        "cpuManagerPolicy: static",
    ),
    "memoryManagerPolicy": Key(
        "`Static` gives Guaranteed pods memory of their own.",
        {"enum": [*POLICIES["memoryManagerPolicy"]]},
        "memoryManagerPolicy: Static",
    ),
    "topologyManagerScope": Key(
        "`pod` gives Guaranteed pods that ask for resources as a whole these as a whole, where the gate "
        "PodLevelResourceManagers is on; the policy is best-effort.",
        {"enum": [*POLICIES["topologyManagerScope"]]},
        "topologyManagerScope: pod",
    ),
    "kubeReserved": Key(
        "What is not for pods; with a static policy, by default as much as that needs.",
        {
            "type": "object",
            "properties": {key: {"type": ["string", "number"]} for key in RESERVED},
            "additionalProperties": False,
        },
        'kubeReserved: {cpu: "1", memory: 1Gi}',
    ),
    **CONTAINER_KEYS,
}

CLUSTER_KEYS: Keys = {
    "version": Key(
        "The release of every component, its newest patch unless one is named; "
        f"{DEFAULT_VERSION} if it is left out.",
        VERSION,
        'version: "1.35"',
    ),
    "featureGates": Key(
        "Feature gates of every component.", GATES, "featureGates: {DRAExtendedResource: true}"
    ),
    "bugs": Key(
        "Known bugs of Kubernetes: off runs without one that the version has, on with one that it does not "
        "have.",
        BUGS,
        "bugs: {k8s-134773: off}",
    ),
    "runtimeConfig": Key(
        "API versions that are served or not, as the API server's flag has them. "
        "A server gets those that its release knows.",
        SWITCHES,
        "runtimeConfig: {resource.k8s.io/v1beta2: true}",
    ),
    "like": Key(
        "kind's additions to the nodes: a control-plane node whose static pods show the components, CoreDNS, "
        "kube-proxy, kindnet, the StorageClass `standard`; a metrics server, too. Not together "
        "with `ha`.",
        {"enum": [*LIKE, None]},
        "like: kind",
    ),
    "metricsServer": Key(
        "A metrics server, for `kubectl top` and autoscalers; with `like: kind` there is one unless this is "
        "false.",
        nullable(BOOLEAN),
        "metricsServer: true",
    ),
    "ha": Key(
        "Number of API servers, which share a port in addition to their own: apiserver-1, apiserver-2, …; "
        "one, named apiserver, if it is left out.",
        {"type": "integer", "minimum": 1, "maximum": MOST_SERVERS},
        "ha: 2",
        expected=f"the number of API servers, 1 to {MOST_SERVERS}",
    ),
    "apiserver": Key(
        "How the API servers run.",
        nullable(object_of(SERVER_KEYS)),
        "apiserver: {workers: 2}",
    ),
    "storage": Key(
        "Where the log is: `sqlite`, a file in the state directory, unless said otherwise; or an empty "
        "database or schema of PostgreSQL, which the extra `postgres` is needed for.",
        {"type": ["string", "null"], "pattern": STORAGE_PATTERN},
        "storage: postgresql://kubeskew@db.example.com/kubeskew",
    ),
    "verbosity": Key(
        "How much components log, as their flag -v; 0 if it is left out.",
        {"type": "integer", "minimum": 0, "maximum": MOST_VERBOSE},
        "verbosity: 5",
    ),
    "time": Key(
        "How long components wait where nothing happens: `quick` is shorter than Kubernetes in some places, "
        "`real` is not (docs/time.md); `quick` if it is left out.",
        {"enum": [*TIMES, None]},
        "time: real",
    ),
    "binaries": Key(
        "A folder of real programs by version, such as 1.36/kube-scheduler: the components named by `real` "
        "run the one of their version, and are emulated where there is none. A relative path begins at the "
        "cluster file.",
        {"type": ["string", "null"]},
        "binaries: ./binaries",
    ),
    "real": Key(
        "The components that run the programs of `binaries`.",
        list_of({"enum": [*REAL]}),
        "real: [scheduler, controller-manager]",
        expected=f"a list of {', '.join(REAL)}",
    ),
    **CONTAINER_KEYS,
    "components": Key(
        "What is otherwise for a kind of component (`scheduler`, `kubelet`) or for one (`apiserver-2`, "
        "`kubelet/NODE`).",
        {
            "type": ["object", "null"],
            "propertyNames": COMPONENT,
            "properties": {kind: object_of(COMPONENT_KEYS) for kind in KINDS},
            "additionalProperties": object_of(COMPONENT_KEYS),
        },
        'components: {scheduler: {version: "1.34"}}',
        expected="a mapping of component names",
    ),
    "nodes": Key(
        "The fake nodes; three without devices if it is left out.",
        list_of(object_of(NODE_KEYS)),
        "nodes: [{name: gpu-node}, {count: 2}]",
    ),
}
