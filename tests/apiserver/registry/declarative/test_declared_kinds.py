"""Declared rules on a server: kinds that have no others, kinds whose rules they replace, and added ones."""

import json
from pathlib import Path
from typing import Any

import pytest
from server_in_process import Caller, close_server, open_server

from kubeskew.apimachinery.catalogue import data
from kubeskew.apimachinery.catalogue.table import Catalogue
from kubeskew.apimachinery.field import FieldError, required, too_many
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.declarative_features import DeclarativeFeatures
from kubeskew.apiserver.registry.declarative.enforcement import with_declared

RECORDED = Path(__file__).parents[3] / "data" / "real-1.36" / "declared.jsonl"
GATES = {
    "DRAResourcePoolStatus": True,
    "DRAWorkloadResourceClaims": True,
    "GenericWorkload": True,
    "TopologyAwareWorkloadScheduling": True,
    "WorkloadAwarePreemption": True,
}
SERVED = {"scheduling.k8s.io/v1alpha2": True, "resource.k8s.io/v1alpha3": True}


def causes(answer: Any) -> list[Any]:
    """The answer as the recording has it."""
    if answer.status < 300:
        return [answer.status]
    told = [
        [cause.get("field"), cause["reason"], cause["message"]]
        for cause in answer.body["details"].get("causes", [])
    ]
    return [answer.status, answer.body["reason"], told or answer.body["message"]]


async def test_recorded_answers() -> None:
    """Kinds whose rules are declared answer as a real server does, to each cause of a 422 and its place."""
    server = await open_server(36, gates=GATES, runtime_config=SERVED)
    ask, different = Caller(server), []
    for line in RECORDED.read_text("utf-8").splitlines():
        asked = json.loads(line)
        kind = "application/merge-patch+json" if asked["method"] == "PATCH" else "application/json"
        answer = await ask(asked["method"], asked["path"], asked["body"], content_type=kind)
        if causes(answer) != asked["answer"]:
            different.append((asked, causes(answer)))
    await close_server(server)

    assert different == []


NEW_KINDS = {"CompositePodGroup": True, "EvictionRequestAPI": True, "GenericWorkload": True}
SCHEDULING = "/apis/scheduling.k8s.io/v1beta1/namespaces/default"
LIFECYCLE = "/apis/lifecycle.k8s.io/v1alpha1/namespaces/default"


async def test_kinds_of_1_37() -> None:
    """Kinds that came with 1.37 are validated as declared, each error once, also types that contain
    themselves."""
    server = await open_server(37, gates=NEW_KINDS, runtime_config={"api/all": True})
    ask = Caller(server)

    def named(spec: Any) -> Any:
        return {"metadata": {"name": "a"}, "spec": spec}

    template = {"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}}
    nested = {"name": "c", "schedulingPolicy": {"basic": {}}, "podGroupTemplates": [template]}
    spec = {"compositePodGroupTemplates": [{**nested, "compositePodGroupTemplates": [nested]}]}
    assert causes(await ask.post(f"{SCHEDULING}/workloads", named(spec))) == [201]
    nested["name"] = "C"
    assert [cause[0] for cause in causes(await ask.post(f"{SCHEDULING}/workloads", named(spec)))[2]] == [
        "spec.compositePodGroupTemplates[0].compositePodGroupTemplates[0].name"
    ]
    change = {"spec": {"compositePodGroupTemplates": [{**nested, "name": "d"}]}}
    answer = await ask.patch(f"{SCHEDULING}/workloads/a", change)
    assert [cause[::2] for cause in causes(answer)[2]] == [
        ["spec.compositePodGroupTemplates[0]", "Forbidden: item may not be added"],
        ["spec.compositePodGroupTemplates", "Forbidden: item may not be removed"],
    ]
    assert causes(await ask.post(f"{LIFECYCLE}/evictionrequests", named({"requester": "x"})))[2] == [
        ["spec.target", "FieldValueInvalid", 'Invalid value: "": must specify one of: `pod`'],
        [
            "spec.requester",
            "FieldValueInvalid",
            "Invalid value: \"x\": must include a prefix (e.g. 'example.com/key')",
        ],
        ["spec.intent", "FieldValueRequired", "Required value"],
    ]
    await close_server(server)


def errors_at(minor: int, by_hand: list[FieldError], claim: Any, **gates: bool) -> list[str]:
    """The errors of a new ResourceClaim of that minor."""
    found = FeatureGates(Version(minor), gates)
    kind = Catalogue(Version(minor), found).resource("resource.k8s.io", "v1", "resourceclaims")
    assert kind is not None
    features = DeclarativeFeatures.of(found)
    return [str(error) for error in with_declared(by_hand, claim, None, kind, features, found)]


@pytest.mark.parametrize(
    ("minor", "gates", "expected"),
    [
        (35, {}, ["spec.other: Required value", "spec.devices.requests: Too many: 33: by hand"]),
        (
            35,
            {"DeclarativeValidationTakeover": True},
            ["spec.other: Required value", "spec.devices.requests: Too many: 33: must have at most 32 items"],
        ),
        (
            35,
            {"DeclarativeValidationTakeover": True, "DeclarativeValidation": False},
            ["spec.other: Required value", "spec.devices.requests: Too many: 33: by hand"],
        ),
        (
            36,
            {"DeclarativeValidationTakeover": True},
            ["spec.other: Required value", "spec.devices.requests: Too many: 33: by hand"],
        ),
    ],
)
def test_takeover(minor: int, gates: dict[str, bool], expected: list[str]) -> None:
    """Until 1.35 a gate puts the declared rules in the place of hand-written ones for the same; else these
    stand alone."""
    many = too_many("spec.devices.requests", 33, 32)
    by_hand = [required("spec.other"), FieldError(many.type, many.path, 33, "by hand")]
    claim = {"spec": {"devices": {"requests": [{"name": f"r{number}"} for number in range(33)]}}}

    assert errors_at(minor, by_hand, claim, **gates) == expected


LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
TOO_LONG = "Too long: may not be more than 3 bytes"


def write_release(directory: Path, name: str, changes: dict[str, list[Any]]) -> None:
    """A release made of 1.36 with rules of its own, by path, also for fields that 1.36 does not have."""
    document = json.loads(json.dumps(data.load()))
    for path, rules in changes.items():
        definition, _, field = path.rpartition(".")
        entry = document["definitions"][f"io.k8s.api.{definition}"]
        if field not in entry["f"]:
            document["specs"].append({"t": "string", "o": 1})
            entry["f"][field] = len(document["specs"]) - 1
        document["rules"].append(rules)
        entry.setdefault("v", {})[field] = len(document["rules"]) - 1
    files = {
        "release.json": {"format": 1, "base": "1.36"},
        "gates.json": {"gates": {}, "dependencies": {}},
        "catalogue.json": document,
    }
    (directory / name).mkdir()
    for file, content in files.items():
        (directory / name / file).write_text(json.dumps(content), "utf-8")


async def test_imported_releases(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The rules that an imported release adds to its base count for any kind, at any level, and once where
    the base has them in code."""
    rules = {
        "coordination.v1.LeaseSpec.mine": [["immutable"], ["alpha", ["maxBytes", 3]]],
        "coordination.v1.LeaseSpec.holderIdentity": [["maxBytes", 3]],
        "coordination.v1.LeaseSpec.leaseDurationSeconds": [["minimum", 1]],
    }
    monkeypatch.setenv("KUBESKEW_RELEASES", str(tmp_path))
    write_release(tmp_path, "1.36+declared", rules)
    server = await open_server(Version.parse("1.36+declared"))
    ask = Caller(server)

    def lease(**spec: Any) -> Any:
        return {"metadata": {"name": "a"}, "spec": spec}

    assert causes(await ask.post(LEASES, lease(mine="abcd")))[2:] == [
        [["spec.mine", "FieldValueTooLong", TOO_LONG]]
    ]
    assert causes(await ask.post(LEASES, lease(leaseDurationSeconds=-1, holderIdentity="abcd")))[2:] == [
        [
            ["spec.leaseDurationSeconds", "FieldValueInvalid", "Invalid value: -1: must be greater than 0"],
            ["spec.holderIdentity", "FieldValueTooLong", TOO_LONG],
        ]
    ]
    assert causes(await ask.post(LEASES, lease(mine="abc"))) == [201]
    assert causes(await ask.patch(f"{LEASES}/a", {"metadata": {"labels": {"a": "b"}}})) == [200]
    assert causes(await ask.patch(f"{LEASES}/a", {"spec": {"mine": "abcd"}}))[2:] == [
        [
            ["spec.mine", "FieldValueInvalid", "Invalid value: null: field is immutable"],
        ]
    ]
    await close_server(server)


async def test_the_version_of_a_request(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An object is checked by the rules, and at the paths, of the version that was sent."""
    rules = {
        "resource.v1.ExactDeviceRequest.deviceClassName": [["maxBytes", 3]],
        "resource.v1beta1.DeviceRequest.deviceClassName": [["maxBytes", 4]],
    }
    monkeypatch.setenv("KUBESKEW_RELEASES", str(tmp_path))
    write_release(tmp_path, "1.36+versions", rules)
    served = {"resource.k8s.io/v1beta1": True}
    server = await open_server(Version.parse("1.36+versions"), runtime_config=served)
    ask = Caller(server)
    request = {"deviceClassName": "large"}
    requests = {"v1": {"name": "r", "exactly": request}, "v1beta1": {"name": "r", **request}}
    found = []
    for version, sent in requests.items():
        claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [sent]}}}
        path = f"/apis/resource.k8s.io/{version}/namespaces/default/resourceclaims"
        found += [cause[::2] for cause in causes(await ask.post(path, claim))[2]]
    await close_server(server)

    assert found == [
        ["spec.devices.requests[0].exactly.deviceClassName", TOO_LONG],
        ["spec.devices.requests[0].deviceClassName", "Too long: may not be more than 4 bytes"],
    ]


def test_other_kinds() -> None:
    """Findings of kinds whose hand-written rules count are not even looked for."""
    claim = {"spec": {"devices": {"requests": [{"name": f"r{number}"} for number in range(33)]}}}

    assert errors_at(36, [], claim) == []
