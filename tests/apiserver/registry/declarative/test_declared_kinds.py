"""Declared rules on a server: kinds that have no others, kinds whose rules they replace, and added ones."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from server_in_process import Caller, close_server, open_server

from kubeskew.apimachinery.catalogue import data
from kubeskew.apimachinery.catalogue.table import Catalogue
from kubeskew.apimachinery.catalogue.types import types_of
from kubeskew.apimachinery.field import ErrorType, FieldError, required, too_many
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


def imported(monkeypatch: pytest.MonkeyPatch, changes: dict[str, dict[str, list[Any]]]) -> Version:
    """A release made of 1.36 with rules of its own, also for fields that 1.36 does not have."""
    document = json.loads(json.dumps(data.load()))
    for name, fields in changes.items():
        entry = document["definitions"][name]
        for field, rules in fields.items():
            if field not in entry["f"]:
                document["specs"].append({"t": "string", "o": 1})
                entry["f"][field] = len(document["specs"]) - 1
            document["rules"].append(rules)
            entry.setdefault("v", {})[field] = len(document["rules"]) - 1
    document["base"] = "1.36"
    mine, known = Version(36, preview="mine"), data.release
    made = data.Release(document, 36, frozenset())
    monkeypatch.setattr(data, "release", lambda version: made if version == mine else known(version))
    return mine


@pytest.mark.parametrize(
    ("spec", "old", "expected"),
    [
        ({"mine": "abcd"}, None, ["spec.mine: Too long: may not be more than 3 bytes"]),
        ({"mine": "abcd"}, {"mine": "abcd"}, []),
        ({"mine": "abc"}, {"mine": "ab"}, ["spec.mine: Invalid value: null: field is immutable"]),
        ({"holderIdentity": "abcd"}, None, ["spec.holderIdentity: Too long: by hand"]),
        ({"holderIdentity": "abcd", "strategy": "abcd"}, None,
         ["spec.holderIdentity: Too long: by hand", "spec.strategy: Too long: may not be more than 3 bytes"]),
        ({}, None, []),
    ],
)  # fmt: skip
def test_imported_releases(monkeypatch: pytest.MonkeyPatch, spec: Any, old: Any, expected: list[str]) -> None:
    """The rules that an imported release adds to its base count for any kind, at any level, and are not
    repeated where the base has them in code."""
    mine = imported(
        monkeypatch,
        {
            "io.k8s.api.coordination.v1.LeaseSpec": {
                "mine": [["immutable"], ["alpha", ["maxBytes", 3]]],
                "holderIdentity": [["maxBytes", 3]],
                "strategy": [["maxBytes", 3]],
            }
        },
    )
    gates = FeatureGates(Version(36))
    kind = Catalogue(Version(36), gates).resource("coordination.k8s.io", "v1", "leases")
    schema = types_of(mine).of_kind("coordination.k8s.io", "v1", "Lease")
    assert kind is not None
    assert schema is not None
    by_hand = [FieldError(ErrorType.TOO_LONG, "spec.holderIdentity", detail="by hand")]
    found = with_declared(
        by_hand if "holderIdentity" in spec else [],
        {"spec": spec},
        None if old is None else {"spec": old},
        replace(kind, schema=schema),
        DeclarativeFeatures.of(gates),
        FeatureGates(mine),
    )

    assert [str(error) for error in found] == expected


def test_other_kinds() -> None:
    """Findings of kinds whose hand-written rules count are not even looked for."""
    claim = {"spec": {"devices": {"requests": [{"name": f"r{number}"} for number in range(33)]}}}

    assert errors_at(36, [], claim) == []
