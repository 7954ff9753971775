"""The gate table of `apimachinery/data/gates.json`, from the facts about feature gates.

One row per gate: `{"specs": [[minor, stage, default, locked], …], "first": minor, "last": minor}`. `first`
and `last` bound the releases that know the name; outside of them the flag refuses it. Of the releases that
`gate-releases.json` covers (made by `gate_releases.py` from their sources) that file is the authority, but
for what later patch releases changed; of others the facts are.
"""

import re
from typing import Any

from kubeskew.apimachinery.versions import NEWEST_MINOR as NEWEST
from kubeskew.apimachinery.versions import OLDEST_MINOR as OLDEST

Facts = dict[str, Any]
Row = dict[str, Any]

# What the facts leave open (from memory of the releases' own tables).
OVERLAY: dict[str, Row] = {
    "ValidatingAdmissionPolicy": {
        "specs": [[26, "Alpha", 0, 0], [28, "Beta", 0, 0], [30, "GA", 1, 1]],
        "first": 26,
        "last": 31,
    },
    "KMSv2": {"specs": [[25, "Alpha", 0, 0], [27, "Beta", 1, 0], [29, "GA", 1, 1]], "first": 25, "last": 31},
    "DRAControlPlaneController": {"specs": [[31, "Alpha", 0, 0]], "first": 31, "last": 31},
    "WorkloadAwarePreemption": {"specs": [[36, "Alpha", 0, 0]], "first": 36, "last": 36},
    # `kube-scheduler --help` of 1.36 still has these two
    "GangScheduling": {"specs": [[35, "Alpha", 0, 0]], "first": 35, "last": 36},
    "PreventStaticPodAPIReferences": {"specs": [[34, "Beta", 1, 0]], "first": 34, "last": 36},
    # client-go's
    "AtomicFIFO": {"specs": [[36, "Beta", 1, 0]], "first": 36, "last": 99},
    "ClientsAllowCARotation": {"specs": [[36, "Beta", 1, 0]], "first": 36, "last": 99},
    "ClientsAllowCBOR": {"specs": [[32, "Alpha", 0, 0]], "first": 32, "last": 99},
    "ClientsAllowTLSCacheGC": {"specs": [[36, "Beta", 1, 0]], "first": 36, "last": 99},
    "ClientsPreferCBOR": {"specs": [[32, "Alpha", 0, 0]], "first": 32, "last": 99},
    "InOrderInformers": {"specs": [[33, "Beta", 1, 0], [36, "GA", 1, 1]], "first": 33, "last": 99},
    "InOrderInformersBatchProcess": {"specs": [[35, "Beta", 1, 0]], "first": 35, "last": 99},
    "InformerResourceVersion": {"specs": [[30, "Alpha", 0, 0], [35, "GA", 1, 0]], "first": 30, "last": 99},
    "UnlockWhileProcessingFIFO": {"specs": [[36, "Beta", 1, 0]], "first": 36, "last": 99},
    "WatchListClient": {"specs": [[30, "Beta", 0, 0], [35, "Beta", 1, 0]], "first": 30, "last": 99},
    # of the facts the only spec is of no release; the source of 1.36 has it there
    "AllowServiceExternalIPs": {"specs": [[36, "GA", 1, 0]], "first": 36, "last": 99},
    "AllAlpha": {"specs": [[0, "Alpha", 0, 0]], "first": 0, "last": 99},
    "AllBeta": {"specs": [[0, "Beta", 0, 0]], "first": 0, "last": 99},
}
# Changed by patch releases that are newer than the sources of `gate-releases.json`.
PATCHED: dict[str, list[list[Any]]] = {
    "OrderedNamespaceDeletion": [[30, "Beta", 0, 0]],
    "SchedulerQueueingHints": [[28, "Beta", 0, 0]],
}
# What the designs of preview releases say of their gates: {release: {gate: [stage, default, locked]}}. Their
# other gates are those of the release of the same minor.
PREVIEWS = {
    "1.25+kep3063": {"DynamicResourceAllocation": ["Alpha", 1, 0]},
    "1.29+kep4381": {"DynamicResourceAllocation": ["Alpha", 1, 0]},
}
# Of gates that newer releases no longer have.
DEPENDENCIES = {"GangScheduling": ["GenericWorkload"]}
_CAMEL = re.compile(r"^[A-Z][a-zA-Z0-9]+$")
_COMPONENTS = {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"}
# Gates that were released under another name than their proposal gives.
_RENAMED = {"PodDisruptionBudgetPodHealthyPolicy": "PDBUnhealthyPodEvictionPolicy"}
_LOCK_LIFETIME = 2  # a locked gate stays two more releases, then its code goes


def minor(text: Any) -> int | None:
    """`1.30` or `v1.30` → 30; anything else None."""
    found = re.match(r"^v?1\.(\d+)", str(text))
    return int(found[1]) if found else None


def _specs(listed: list[Facts]) -> list[list[Any]]:
    """By release; of two for one release the first: the other needs a newer minimal compatible version."""
    specs: dict[int, list[Any]] = {}
    for spec in listed:
        since = minor(spec["version"]) or 0
        specs.setdefault(since, [since, spec["stage"], int(spec["default"]), int(spec["locked"])])
    return list(specs.values())


def _current(listed: list[Facts]) -> Row:
    specs = _specs(listed)
    introduced_later = specs[0][0] == 0 and len(specs) > 1
    return {"specs": specs, "first": specs[1][0] if introduced_later else specs[0][0], "last": 99}


def _removed(fact: Facts) -> Row:
    if "specs" in fact:
        row = _current(fact["specs"])
    else:
        listed = [{"version": release, **spec} for release, spec in fact["perMinor"].items()]
        row = _current(listed)
        if row["first"] == OLDEST + 2:  # the records begin there, the gate did not
            row["specs"][0][0] = row["first"] = OLDEST
    locked_since = next((spec[0] for spec in row["specs"] if spec[3]), 0)
    if "inReleases" in fact:
        row["last"] = minor(fact["inReleases"][1])
    else:
        seen = minor(fact["lastSeenIn"]) or NEWEST
        row["last"] = min(NEWEST - 1, max(seen, locked_since + _LOCK_LIFETIME))
    return row


def _from_proposal(fact: Facts) -> Row | None:
    """The proposal alone names the gate: implemented, and locked since some release we follow."""
    milestones = {stage: minor(fact.get("milestone", {}).get(stage)) for stage in ("alpha", "beta", "stable")}
    stable = milestones["stable"]
    if fact.get("status") != "implemented" or stable is None or not OLDEST - 2 <= stable < NEWEST - 2:
        return None
    if not _COMPONENTS & set(fact.get("components") or ()):
        return None
    specs: list[list[Any]] = []
    if milestones["alpha"] is not None:
        specs.append([milestones["alpha"], "Alpha", 0, 0])
    if milestones["beta"] is not None:
        specs.append([milestones["beta"], "Beta", 1, 0])
    specs.append([stable, "GA", 1, 1])
    return {"specs": specs, "first": specs[0][0], "last": stable + _LOCK_LIFETIME}


State = tuple[str, int, int]  # stage, default, locked


def _state(row: Row, release: int) -> State | None:
    """None if the release does not know the gate."""
    acting = [spec for spec in row["specs"] if spec[0] <= release]
    if not acting or not row["first"] <= release <= row["last"]:
        return None
    stage, default, locked = row.get("releases", {}).get(str(release), max(acting)[1:])
    return stage, default, locked


def _states(spans: list[list[Any]]) -> dict[int, State]:
    return {
        release: (stage, default, locked)
        for first, last, stage, default, locked in spans
        for release in range(first, last + 1)
    }


def with_releases(rows: dict[str, Row], releases: dict[str, list[list[Any]]]) -> dict[str, Row]:
    """Sources of the covered releases replace rows, which stay as they were in all others."""
    covered = {release for spans in releases.values() for release in _states(spans)}
    table: dict[str, Row] = {}
    for name in sorted(rows.keys() | releases.keys()):
        row = rows.get(name)
        states = _states(releases.get(name, []))
        states |= {
            release: (stage, default, locked) for release, stage, default, locked in PATCHED.get(name, [])
        }
        if row is not None:
            states |= {
                release: state
                for release in range(OLDEST, NEWEST + 1)
                if release not in covered and (state := _state(row, release)) is not None
            }
        if states:
            table[name] = _row_of(name, states)
    return table


def _row_of(name: str, states: dict[int, State]) -> Row:
    known = sorted(states)
    if known != list(range(known[0], known[-1] + 1)):
        raise SystemExit(f"{name} comes, goes and comes again: {known}")
    changed = [release for release in known if states.get(release - 1) != states[release]]
    specs = [[release, *states[release]] for release in changed]
    return {"specs": specs, "first": known[0], "last": 99 if known[-1] == NEWEST else known[-1]}


def gate_table(facts: Facts, releases: dict[str, list[list[Any]]]) -> dict[str, Any]:
    """Earlier sources yield to better ones."""
    rows: dict[str, Row] = {}
    for name, proposals in facts["fromKEP"].items():
        row = _from_proposal(proposals[0]) if _CAMEL.match(name) and proposals else None
        if row is not None:
            rows[_RENAMED.get(name, name)] = row
    rows |= {name: _removed(fact) for name, fact in facts["removed"].items()}
    rows |= {name: _current(specs) for name, specs in facts["gates"].items()}
    for name, specs in facts["laterThanThisTable"].items():
        if name != "note":
            later = _specs(specs)
            known = [spec for spec in rows.get(name, {"specs": []})["specs"] if spec[0] < later[0][0]]
            merged = known + later
            rows[name] = {"specs": merged, "first": merged[0][0], "last": 99}
    rows |= OVERLAY
    for name, differing in facts.get("releaseDiffersFromSpecs", {}).items():
        rows[name]["releases"] = {
            str(minor(release)): [spec["stage"], int(spec["default"]), int(spec["locked"])]
            for release, spec in differing.items()
        }
    special = {name: rows.pop(name) for name in ("AllAlpha", "AllBeta")}  # no source lists them
    table = with_releases(rows, releases) | special
    dependencies = DEPENDENCIES | facts["dependencies"]
    return {
        "gates": dict(sorted(table.items())),
        "dependencies": dict(sorted(dependencies.items())),
        "previews": PREVIEWS,
    }
