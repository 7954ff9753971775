"""The resources of all releases: verbs, subresources, names, gates, storage versions, printer columns.

From the facts about discovery, storage and printers; `OVERLAY` holds what they lack, marked with its source.
"""

import re
from collections.abc import Mapping
from typing import Any

from kubeskew.releases.catalogue.overlay import EXTENSIONS, REGISTRATION
from kubeskew.releases.catalogue.types import Document, definition_name

Row = dict[str, Any]

_PACKAGES = {"": "core", "internal.apiserver.k8s.io": "apiserverinternal"}

# Served before the facts begin (1.28); from memory of those releases' API lists.
_GPU = ["get", "patch", "update"]
EARLY: list[Row] = [
    {"group": "resource.k8s.io", "version": "v1alpha1", "resource": "podschedulings", "kind": "PodScheduling",
     "singular": "podscheduling", "namespaced": True, "verbs": "std", "minors": "1.26-1.26",
     "subresources": {"status": {"kind": "PodScheduling", "verbs": "gpu"}}},
    {"group": "resource.k8s.io", "version": "v1alpha1", "resource": "resourceclaims", "kind": "ResourceClaim",
     "singular": "resourceclaim", "namespaced": True, "verbs": "std", "minors": "1.26-1.26",
     "subresources": {"status": {"kind": "ResourceClaim", "verbs": "gpu"}}},
    {"group": "resource.k8s.io", "version": "v1alpha1", "resource": "resourceclaimtemplates",
     "kind": "ResourceClaimTemplate", "singular": "resourceclaimtemplate", "namespaced": True,
     "verbs": "std", "minors": "1.26-1.26"},
    {"group": "resource.k8s.io", "version": "v1alpha1", "resource": "resourceclasses",
     "kind": "ResourceClass", "singular": "resourceclass", "namespaced": False, "verbs": "std",
     "minors": "1.26-1.26"},
    {"group": "storage.k8s.io", "version": "v1beta1", "resource": "csistoragecapacities",
     "kind": "CSIStorageCapacity", "singular": "csistoragecapacity", "namespaced": True, "verbs": "std",
     "minors": "1.26-1.26"},
]  # fmt: skip

# A resource that is served only if its gate is on: {resource.group: [[first, last, gate], …]}, where
# facts/discovery.json does not name it. Of 1.31 to 1.36 these are what pkg/registry/*/rest says, where
# resource.k8s.io needs none. Other minors are from memory.
RESOURCE_GATES: dict[str, list[list[Any]]] = {
    "clustertrustbundles.certificates.k8s.io": [[27, 99, "ClusterTrustBundle"]],
    "podcertificaterequests.certificates.k8s.io": [[34, 99, "PodCertificateRequest"]],
    "workloads.scheduling.k8s.io": [[35, 99, "GenericWorkload"]],
    "podgroups.scheduling.k8s.io": [[36, 99, "GenericWorkload"]],
    "compositepodgroups.scheduling.k8s.io": [[37, 99, "CompositePodGroup"]],
    "evictionrequests.lifecycle.k8s.io": [[37, 99, "EvictionRequestAPI"]],
    "evictions.lifecycle.k8s.io": [[37, 99, "EvictionRequestAPI"]],
    "selfsubjectreviews.authentication.k8s.io": [[26, 27, "APISelfSubjectReview"]],
    "storageversionmigrations.storagemigration.k8s.io": [[30, 99, "StorageVersionMigrator"]],
    "pods/resize": [[32, 99, "InPlacePodVerticalScaling"]],
}

# Storage versions that the facts leave open or have wrong: of 1.31 and later from what the sources of these
# releases choose (kubeskew/releases/tree/storage_versions.py), of others from memory. Upstream stores
# CustomResourceDefinitions in v1beta1, which it does not serve.
_STORED = {
    "admissionregistration.k8s.io/ValidatingAdmissionPolicy": dict.fromkeys((26, 27, 28), "v1alpha1"),
    "admissionregistration.k8s.io/ValidatingAdmissionPolicyBinding": dict.fromkeys((26, 27, 28), "v1alpha1"),
    "autoscaling/HorizontalPodAutoscaler": {26: "v1"},
    "certificates.k8s.io/ClusterTrustBundle": {33: "v1beta1"},
    "coordination.k8s.io/LeaseCandidate": {33: "v1beta1"},
    "flowcontrol.apiserver.k8s.io/FlowSchema": {26: "v1beta2", 27: "v1beta3", 28: "v1beta3"},
    "flowcontrol.apiserver.k8s.io/PriorityLevelConfiguration": {26: "v1beta2", 27: "v1beta3", 28: "v1beta3"},
    "networking.k8s.io/IPAddress": {31: "v1beta1"},
    "networking.k8s.io/ServiceCIDR": {31: "v1beta1"},
    "storage.k8s.io/VolumeAttributesClass": {31: "v1beta1"},
    "apiextensions.k8s.io/CustomResourceDefinition": dict.fromkeys(range(26, 100), "v1"),
}  # fmt: skip

# Kinds that live in another group's store: {group/Kind: api version} (facts: one store for both).
SHARED_STORES = {"events.k8s.io/Event": "v1"}

# Columns of earlier releases: {group/Kind: [[first, last, names]]}, each name a plain string column. They are
# those of pkg/printers/internalversion/printers.go from 1.31 on, of others from memory.
_ERAS: dict[str, list[list[Any]]] = {
    "/ServiceAccount": [[26, 34, ["Name", "Secrets", "Age"]]],
    "/ResourceQuota": [[26, 32, ["Name", "Age", "Request", "Limit"]]],
    "resource.k8s.io/ResourceClaim": [
        [26, 30, ["Name", "ResourceClassName", "AllocationMode", "State", "Age"]]
    ],
    "resource.k8s.io/ResourceClaimTemplate": [
        [26, 30, ["Name", "ResourceClassName", "AllocationMode", "Age"]]
    ],
    "resource.k8s.io/ResourceSlice": [[30, 30, ["Name", "NodeName", "DriverName", "Age"]]],
}
# Kinds that have the columns of another: their name in an earlier release.
_ALSO_FOR = {"resource.k8s.io/PodSchedulingContext": ["resource.k8s.io/PodScheduling"]}
# Columns that kinds got later: {group/Kind: [name, first minor]}.
_LATER: dict[str, tuple[str, int]] = {
    "/PersistentVolume": ("VolumeAttributesClass", 29),
    "/PersistentVolumeClaim": ("VolumeAttributesClass", 29),
    "certificates.k8s.io/PodCertificateRequest": ("UnverifiedUserAnnotations", 35),
    "scheduling.k8s.io/PriorityClass": ("PreemptionPolicy", 32),
    "storagemigration.k8s.io/StorageVersionMigration": ("Status", 35),
}


def package(group: str) -> str:
    """The directory of a group's Go types: `rbac.authorization.k8s.io` → `rbac`."""
    return _PACKAGES.get(group, group.split(".")[0])


def kind_definition(group: str, version: str, kind: str) -> str:
    if group == "apiextensions.k8s.io":
        return EXTENSIONS + kind
    if group == "apiregistration.k8s.io":
        return REGISTRATION + kind
    return definition_name(f"{package(group)}/{version}", kind)


def minors(text: str, newest: int) -> tuple[int, int]:
    """`1.28-1.31`, `1.28-` or `1.28` as first and last minor."""
    first, dash, last = text.partition("-")
    start = int(first.removeprefix("1."))
    if not dash:
        return start, start
    return start, int(last.removeprefix("1.")) if last else newest


def group_orders(discovery: Document, newest: int) -> list[list[Any]]:
    """Groups by priority, `[[first, last, groups], …]`; the core group has no place among them."""
    return [[*minors(span, newest), groups] for span, groups in discovery["groupOrder"].items()]


def resource_rows(discovery: Document, releases: Mapping[int, Mapping[str, Any]]) -> list[Row]:
    """One row per resource and span of releases in which nothing about it changed."""
    newest = max(releases)
    rows = []
    for fact in [*discovery["resources"], *EARLY]:
        first, last = minors(fact["minors"], newest)
        definition = kind_definition(fact["group"], fact["version"], fact["kind"])
        while first == 28 or (first == 27 and fact["minors"].startswith("1.28")):
            if definition not in releases[first - 1] or first - 1 not in releases:
                break
            if not _existed(definition, releases[first - 1]):
                break
            first -= 1
        rows.append(resource_row(fact, first, last))
    _extend(rows, releases)
    return rows


def _extend(rows: list[Row], releases: Mapping[int, Mapping[str, Any]]) -> None:
    """Notes until when a version is still known (decoded) after it is served no more: `known`."""
    for row in rows:
        definition = kind_definition(row["g"], row["v"], row["k"])
        following = [one for one in rows if one["in"][0] > row["in"][1] and _gvr(one) == _gvr(row)]
        last = row["in"][1]
        while not following and definition in releases.get(last + 1, {}):
            if not _existed(definition, releases[last + 1]):
                break
            last += 1
        if last > row["in"][1]:
            row["known"] = last


def _gvr(row: Row) -> tuple[str, str, str]:
    return row["g"], row["v"], row["r"]


def _existed(definition: str, release: Mapping[str, Any]) -> bool:
    return not release[definition].get("borrowed")


def resource_row(
    fact: Document, first: int, last: int, gates_of: Mapping[str, list[list[Any]]] = RESOURCE_GATES
) -> Row:
    """Nothing about the resource changed from the first to the last release. `gates_of` is as
    RESOURCE_GATES."""
    row: Row = {
        "g": fact["group"], "v": fact["version"], "r": fact["resource"], "k": fact["kind"],
        "s": fact["singular"], "n": int(fact["namespaced"]), "verbs": fact["verbs"], "in": [first, last],
    }  # fmt: skip
    for key, source in (("short", "shortNames"), ("cat", "categories")):
        if source in fact:
            row[key] = fact[source]
    name = f"{fact['resource']}.{fact['group']}".rstrip(".")
    gates = gates_of.get(name) or gates_of.get(f"{name}/{fact['version']}")
    if gates:
        row["gates"] = gates
    if "subresources" in fact:
        row["sub"] = {
            name: _subresource(fact, name, listed, gates_of)
            for name, listed in sorted(fact["subresources"].items())
        }
    return row


def _subresource(fact: Document, name: str, listed: Document, gates_of: Mapping[str, list[list[Any]]]) -> Row:
    row: Row = {"k": listed["kind"], "verbs": _GPU if listed["verbs"] == "gpu" else listed["verbs"]}
    if "version" in listed:
        row |= {"g": listed.get("group", ""), "v": listed["version"]}
    gates = gates_of.get(f"{fact['resource']}/{name}")
    return row | ({"gates": gates} if gates else {})


def version_priority(version: str) -> tuple[int, int, int]:
    """Sorts GA before beta before alpha, higher first."""
    found = re.match(r"^v(\d+)(?:(alpha|beta)(\d+))?$", version)
    if found is None:
        raise ValueError(f"{version!r} is not an API version")
    stage = {None: 0, "beta": 1, "alpha": 2}[found[2]]
    return stage, -int(found[1]), -int(found[3] or 0)


def storage_versions(facts: Document, rows: list[Row], newest: int) -> dict[str, list[list[Any]]]:
    """`{group/Kind: [[first, last, api version], …]}` for every kind that is stored."""
    versions_by_kind = _from_facts(facts, newest)
    stored: dict[str, dict[int, str]] = {}
    for row in rows:
        if row["verbs"] != "std" and "list" not in row["verbs"]:
            continue
        for minor in range(row["in"][0], row["in"][1] + 1):
            key = f"{row['g']}/{row['k']}"
            chosen = versions_by_kind.get(key, {}).get(minor) or _best(rows, row, minor)
            stored.setdefault(key, {})[minor] = f"{row['g']}/{chosen}".lstrip("/")
    for key, version in SHARED_STORES.items():
        stored[key] = dict.fromkeys(stored[key], version)
    return {key: runs(by_minor) for key, by_minor in sorted(stored.items())}


def _best(rows: list[Row], of: Row, minor: int) -> str:
    versions = [
        row["v"]
        for row in rows
        if (row["g"], row["k"]) == (of["g"], of["k"]) and row["in"][0] <= minor <= row["in"][1]
    ]
    return str(min(versions, key=version_priority))


def _from_facts(facts: Document, newest: int) -> dict[str, dict[int, str]]:
    versions_by_kind: dict[str, dict[int, str]] = {}
    for kinds, by_minor in facts["resource.k8s.io"]["perMinor"].items():
        for kind in kinds.split(", "):
            versions_by_kind[f"resource.k8s.io/{kind}"] = {
                minors(m, newest)[0]: v for m, v in by_minor.items()
            }
    for fact in facts["otherKinds"]:
        for kind in fact["kinds"].split(", "):
            spans = versions_by_kind.setdefault(f"{fact['group']}/{kind}", {})
            for span, version in fact["stored"].items():
                version = version.removesuffix(" ?")
                first, last = minors(span, newest)
                if re.match(r"^v\d+[a-z0-9]*$", version):
                    spans |= dict.fromkeys(range(first, last + 1), version)
    for key, by_minor in _STORED.items():
        versions_by_kind[key] = versions_by_kind.get(key, {}) | by_minor
    return versions_by_kind


def runs(by_minor: Mapping[int, Any]) -> list[list[Any]]:
    """Values per minor as `[[first, last, value], …]`."""
    found: list[list[Any]] = []
    for minor, value in sorted(by_minor.items()):
        if found and found[-1][1] == minor - 1 and found[-1][2] == value:
            found[-1][1] = minor
        else:
            found.append([minor, minor, value])
    return found


def printer_columns(facts: Document, oldest: int, newest: int) -> dict[str, list[list[Any]]]:
    """`{group/Kind: [[first, last, [[name, type, format, priority], …]], …]}`."""
    found: dict[str, list[list[Any]]] = {}
    for fact in facts["kinds"]:
        columns = [[c["name"], c["type"], c["format"], c.get("priority", 0)] for c in fact["columns"]]
        own = f"{fact['group']}/{fact['kind'].split(' ')[0]}"
        for key in [own, *fact.get("alsoFor", []), *_ALSO_FOR.get(own, [])]:
            by_minor: dict[int, Any] = dict.fromkeys(range(oldest, newest + 1), columns)
            for first, last, names in _ERAS.get(key, []):
                era = [[name, "string", "name" if name == "Name" else "", 0] for name in names]
                by_minor |= dict.fromkeys(range(first, last + 1), era)
            if key in _LATER:
                later, since = _LATER[key]
                fewer = [column for column in columns if column[0] != later]
                by_minor |= dict.fromkeys(range(oldest, since), fewer)
            found[key] = runs(by_minor)
    return dict(sorted(found.items()))
