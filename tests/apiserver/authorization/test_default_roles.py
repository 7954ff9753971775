"""The default roles and bindings of each minor are upstream's, with the default gates and with all."""

import hashlib
import json
from pathlib import Path

import pytest
import yaml

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.authorization.default_roles import DefaultRoles

DIGESTS = yaml.safe_load((Path(__file__).parents[2] / "data" / "default-roles.yaml").read_text())["digests"]
ALL = {"AllAlpha": True, "AllBeta": True}
OURS = "kubeskew:timeline-viewer"


def default_objects(minor: str, gates: dict[str, bool]) -> list[Object]:
    version = Version.parse(minor)
    roles = DefaultRoles(FeatureGates(version, gates))
    every = (roles.cluster_roles, roles.cluster_role_bindings, roles.roles, roles.role_bindings)
    return [made for make in every for made in make() if made["metadata"]["name"] != OURS]


def digest(objects: list[Object]) -> str:
    """Returns a sum of all names, labels, rules in their order, subjects and references."""
    found = {}
    for made in objects:
        metadata = made["metadata"]
        key = f"{made['kind']}/{metadata.get('namespace', '')}/{metadata['name']}"
        found[key] = {
            "labels": metadata["labels"], "annotations": metadata["annotations"],
            "rules": made.get("rules") or [], "aggregation": made.get("aggregationRule"),
            "subjects": made.get("subjects") or [], "role": made.get("roleRef"),
        }  # fmt: skip
    assert len(found) == len(objects)
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]


@pytest.mark.parametrize("gates", ["default", "all"])
@pytest.mark.parametrize("minor", DIGESTS)
def test_the_roles_of_a_minor_are_upstreams(minor, gates):
    """Makes as many objects as upstream, with the same rules in the same order."""
    made = default_objects(minor, ALL if gates == "all" else {})

    assert {"objects": len(made), "digest": digest(made)} == DIGESTS[minor][gates]


def test_the_digest_notices_what_is_missing_and_what_is_too_much():
    """A role less, a rule more or a verb less are other digests."""
    whole = default_objects("1.36", {})
    role = next(made for made in whole if made["metadata"]["name"] == "system:kube-scheduler")
    others = [made for made in whole if made is not role]
    rules = role["rules"]
    shorter = {**rules[0], "verbs": rules[0]["verbs"][:-1]}
    changed = [[], [*rules, rules[0]], rules[1:], [shorter, *rules[1:]]]
    digests = [digest([*others, {**role, "rules": given}]) for given in changed]

    assert len({digest(whole), digest(others), *digests}) == len(changed) + 2


@pytest.mark.parametrize(
    ("gate", "held"),
    [("ComponentFlagz", "/flagz"), ("ComponentStatusz", "/statusz")],
)
def test_a_rule_without_a_gate(gate, held):
    """Upstream adds to the monitors' one rule what a gate serves; with the gate off the rule is shorter."""
    on, off = (
        next(
            made["rules"]
            for made in default_objects("1.36", {gate: value})
            if made["metadata"]["name"] == "system:monitoring"
        )
        for value in (True, False)
    )

    assert len(on) == len(off) == 2
    assert set(on[0]["nonResourceURLs"]) - set(off[0]["nonResourceURLs"]) == {held}
