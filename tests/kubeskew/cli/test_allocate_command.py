"""`kubeskew allocate`: what people see, and what other programs read."""

import io
import json

import pytest
from recorded import DATA

from kubeskew.cli.main import main

_CASES = DATA / "allocator" / "cases-1.36.jsonl"

_DEVICES = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: "device.driver == 'gpu.example.com'"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: counters}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 2}
  sharedCounters: [{name: gpu-0, counters: {memory: {value: 40Gi}}}]
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceSlice
metadata: {name: devices}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 2}
  devices:
  - name: whole
    basic:
      attributes: {size: {string: whole}}
      consumesCounters: [{counterSet: gpu-0, counters: {memory: {value: 40Gi}}}]
  - name: half-1
    basic:
      attributes: {size: {string: half}}
      consumesCounters: [{counterSet: gpu-0, counters: {memory: {value: 20Gi}}}]
  - name: half-2
    basic:
      attributes: {size: {string: half}}
      consumesCounters: [{counterSet: gpu-0, counters: {memory: {value: 20Gi}}}]
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}}
- {apiVersion: v1, kind: Node, metadata: {name: n2}}
"""


def _claim(name, size, device="", kind="ResourceClaim"):
    selector = {"cel": {"expression": f"device.attributes['gpu.example.com'].size == '{size}'"}}
    request = {"name": "r", "deviceClassName": "gpu", "selectors": [selector]}
    spec = {"devices": {"requests": [request]}}
    claim = {"apiVersion": "resource.k8s.io/v1beta1", "kind": kind, "metadata": {"name": name}}
    claim["spec"] = spec if kind == "ResourceClaim" else {"spec": spec}
    if device:
        result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": device}
        claim["status"] = {"allocation": {"devices": {"results": [result]}}}
    return claim


_CLAIM = _claim("a", "half")


@pytest.fixture
def run(tmp_path, capsys):
    """Run the command on the devices above and other objects: its exit code, output and error output."""

    def run(*arguments, objects=()):
        (tmp_path / "devices.yaml").write_text(_DEVICES)
        (tmp_path / "claims.json").write_text(
            json.dumps({"kind": "List", "apiVersion": "v1", "items": objects})
        )
        files = ["-f", str(tmp_path / "devices.yaml"), "-f", str(tmp_path / "claims.json")] if objects else []
        with pytest.raises(SystemExit) as ended:
            main(["allocate", *files, *arguments])
        shown = capsys.readouterr()
        return ended.value.code, shown.out, shown.err

    return run


def test_people_see_the_devices(run):
    """The first node that fits is shown with its devices, the others with what happened there."""
    code, out, _ = run(objects=[_claim("a", "half"), _claim("b", "half", kind="ResourceClaimTemplate")])

    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["Allocation", "on", "n1:"],
        ["CLAIM", "REQUEST", "DRIVER", "POOL", "DEVICE", "DETAILS"],
        ["default/a", "r", "gpu.example.com", "n1", "half-1"],
        ["default/b", "r", "gpu.example.com", "n1", "half-2"],
        ["Not", "possible", "on", "n2:", "cannot", "allocate", "all", "claims"],
    ]


def test_manifests_on_standard_input(run, monkeypatch):
    """`-f -` reads what is piped in."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{_DEVICES}---\n{json.dumps(_CLAIM)}"))
    code, out, _ = run("-f", "-")

    assert (code, "half-1" in out) == (0, True)


def test_explanation_names_the_check(run):
    """Of every device the first check that refused it is shown, with numbers; of every pool how it is
    seen."""
    taken = _claim("other", "half", device="half-2")
    code, out, _ = run("--node", "n1", "--explain", "-o", "json", objects=[_claim("a", "whole"), taken])
    (node,) = json.loads(out)["nodes"]

    assert (code, node["allocations"]) == (1, None)
    assert node["explanation"]["pools"] == [
        {"pool": "gpu.example.com/n1", "verdict": "used: 3 devices for this node"}
    ]
    assert [device["verdict"] for device in node["explanation"]["requests"][0]["devices"]] == [
        "counter memory of gpu-0: needs 40Gi, 20Gi left",
        "selector #0 of the request does not match",
        "in use",
    ]


def test_taint_rules_count(run):
    """A DeviceTaintRule taints devices where its gates are on."""
    rule = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "broken"},
        "spec": {
            "deviceSelector": {"driver": "gpu.example.com", "device": "half-1"},
            "taint": {"key": "broken", "effect": "NoSchedule"},
        },
    }
    arguments = ("-o", "json", "--node", "n1")
    objects = [rule, _claim("a", "half")]

    def device(out):
        return json.loads(out)["nodes"][0]["allocations"][0]["devices"]["results"][0]["device"]

    assert device(run(*arguments, objects=objects)[1]) == "half-1"  # the gate is off in 1.36
    gates = ("--feature-gates", "DRADeviceTaintRules=true")
    assert device(run(*arguments, *gates, objects=objects)[1]) == "half-2"


def test_recorded_cases_as_lines(run):
    """Every line is answered, in order."""
    _, out, _ = run("--jsonl", str(_CASES))
    expected = [json.loads(line) for line in _CASES.read_text().splitlines()]
    answers = [json.loads(line) for line in out.splitlines()]

    assert [answer["name"] for answer in answers] == [case["name"] for case in expected]
    assert [answer.get("error") for answer in answers] == [case["expect"].get("error") for case in expected]


_TWO = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
_LISTED = [
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "listed"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "n2",
            "pool": {"name": "n2", "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": "a", "attributes": {"numa": {"ints": [1, 2]}}},
                {"name": "b", "attributes": {"numa": {"ints": [2]}}},
            ],
        },
    },
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "both"},
        "spec": {
            "devices": {
                "requests": [{"name": "r", "exactly": _TWO}],
                "constraints": [{"matchAttribute": "gpu.example.com/numa"}],
            }
        },
    },
]


@pytest.mark.parametrize(("bugs", "code"), [((), 1), (("--bugs", "k8s-139332=off"), 0)])
def test_known_bugs_of_the_scheduler_may_be_switched(run, tmp_path, bugs, code):
    """1.36 keeps list attributes from its allocator (139332), unless it is asked without that bug."""
    gates = ("--version", "1.36.3", "--feature-gates", "DRAListTypeAttributes=true", "--node", "n2")

    assert run(*gates, *bugs, objects=_LISTED)[0] == code

    slice_, claim = _LISTED
    case = {
        "version": "1.36.3",
        "featureGates": {"DRAListTypeAttributes": True},
        "bugs": {"k8s-139332": False} if bugs else {},
        "node": {"metadata": {"name": "n2"}},
        "classes": [{"metadata": {"name": "gpu"}, "spec": {}}],
        "slices": [slice_],
        "claims": [claim],
    }
    line = tmp_path / "case"
    line.write_text(json.dumps(case))
    answer = json.loads(run("--jsonl", str(line))[1])
    assert (answer["allocations"] is None) is (code == 1)


def test_bad_lines_are_answered(run, tmp_path):
    """A line that is no case does not keep the others from being answered."""
    cases = tmp_path / "cases"
    cases.write_text('{"name": "a"\n[]\n{"name": "b"}\n{"name": "c", "node": {"metadata": {"name": "n"}}}\n')
    code, out, _ = run("--jsonl", str(cases))
    answers = [json.loads(line) for line in out.splitlines()]

    assert code == 0
    assert [answer["name"] for answer in answers] == [None, None, "b", "c"]
    assert ["error" in answer for answer in answers] == [True, True, True, False]
    assert answers[2]["error"] == "unusable case: node is missing"


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ({"version": 36}, 'version: expected a text such as "1.36"'),
        ({"featureGates": {"X": True}}, "featureGates: unrecognized feature gate: X"),
        ({"featureGates": {"DRAAdminAccess": "yes"}}, "featureGates: expected an object of true and false"),
        ({"bugs": {"k8s-1": True}}, "bugs: "),
        ({"bugs": {"k8s-139332": "off"}}, "bugs: expected an object of true and false"),
        ({"node": {"metadata": {}}}, "node: metadata.name is missing"),
        ({"slices": {}, "claims": 5}, "claims: expected a list"),
        ({"classes": [{"spec": 5}]}, "classes[0]: json: cannot unmarshal number into Go struct field "),
        ({"slices": [{"metadata": {"name": "s"}, "spec": {}}]}, "slices[0]: spec.driver is missing"),
        ({"claims": [{"metadata": {"name": "c"}}]}, "claims[0]: spec is missing"),
        ({"allocatedShares": [{"driver": "d"}]}, "allocatedShares[0]: pool is missing"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_bad_parts_of_a_line(run, tmp_path, part, text):
    """A line that is not shaped as a case is answered with the path of the fault."""
    line = tmp_path / "case"
    line.write_text(json.dumps({"name": "a", "node": {"metadata": {"name": "n"}}, **part}))
    _, out, _ = run("--jsonl", str(line))

    answer = json.loads(out)
    assert (answer["name"], answer["allocations"]) == ("a", None)
    assert answer["error"].startswith(f"unusable case: {text}")


def test_what_a_server_refuses_is_reported(run):
    """Objects that no server would store are allocated with a warning, unless their lists are too long."""
    claim = {
        **_CLAIM,
        "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu", "count": -1}]}},
    }
    code, _, err = run(objects=[claim])
    many = {**_CLAIM, "spec": {"devices": {"requests": [{"name": f"r{i}"} for i in range(33)]}}}

    assert code == 0
    assert (
        "a server of 1.36 refuses ResourceClaim a: spec.devices.requests[0].exactly.count: Invalid value"
        in err
    )
    code, _, err = run(objects=[many])
    assert (code, "item 0: spec.devices.requests: Too many: 33: must have at most 32 items" in err) == (
        2,
        True,
    )


@pytest.mark.parametrize(
    ("arguments", "objects", "text"),
    [
        pytest.param([], [], "nothing to read", id="nothing"),
        pytest.param(["--jsonl", "--node", "n1"], [], "--jsonl takes everything", id="jsonl-and-more"),
        pytest.param(["-f", "nowhere.yaml"], [], "cannot read nowhere.yaml: No such file", id="no-file"),
        pytest.param(["--node", "n3"], [_CLAIM], "no node n3 in the files; there are n1, n2", id="node"),
        pytest.param(["--version", "1.30"], [_CLAIM], "1.30 allocates no devices", id="version"),
        pytest.param(["--feature-gates", "X=true"], [_CLAIM], "feature gates: ", id="gates"),
        pytest.param(["--bugs", "k8s-139377=off"], [_CLAIM], "--bugs: ", id="bugs"),
        pytest.param(
            ["--jsonl", "--bugs", "k8s-139332=off"], [], "--jsonl takes everything", id="jsonl-and-bugs"
        ),
        pytest.param(
            [], [_claim("a", "half", device="half-1")], "no claim without an allocation", id="claims"
        ),
        pytest.param([], [{"apiVersion": "v1", "kind": "Pod"}], "says nothing about devices", id="kind"),
        pytest.param(
            [],
            [{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}],
            "metadata is missing",
            id="name",
        ),
        pytest.param(
            [],
            [_CLAIM | {"spec": {"devices": {"requests": [{"name": "r", "count": "two"}]}}}],
            "cannot unmarshal string into Go struct field DeviceRequest.spec.devices.requests.count",
            id="type",
        ),
    ],
)
def test_wrong_usage_is_one_line(run, arguments, objects, text):
    """Wrong files or options are reported in one line with exit code 2."""
    code, out, err = run(*arguments, objects=objects)

    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert text in err
