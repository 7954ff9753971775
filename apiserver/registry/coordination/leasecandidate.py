"""LeaseCandidate: validation, strategy and cells of tables.

Sources: pkg/apis/coordination/validation/validation.go, pkg/registry/coordination/leasecandidate/strategy.go,
1.36.
"""

from collections.abc import Iterator
from itertools import zip_longest

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.coordination.lease import STRATEGIES, LeaseStrategy, strategy_errors
from kubeskew.apiserver.registry.generic.strategy import Check, StrategyContext
from kubeskew.apiserver.registry.shared.formats import SEMVER
from kubeskew.apiserver.registry.tables.cells import Cells, Subject

Version = tuple[tuple[int, ...], str]  # numbers, and what comes before the release


def candidate_errors(spec: Object) -> Iterator[FieldError]:
    if not spec.get("leaseName"):
        yield required("spec.leaseName")
    texts = {name: spec.get(name) or "" for name in ("emulationVersion", "binaryVersion")}
    parsed = {name: _version(text) for name, text in texts.items()}
    for name, text in texts.items():
        if not text and name == "binaryVersion":
            yield required(child("spec", name))
        elif text and parsed[name] is None:
            yield invalid(child("spec", name), text, "must be a valid semantic version")
    emulated, binary = (parsed[name] or ((0, 0, 0), "") for name in texts)
    if all(texts.values()) and _less(binary, emulated):
        text = "must be greater than or equal to `emulationVersion`"
        yield invalid("spec.binaryVersion", texts["binaryVersion"], text)
    strategy = spec.get("strategy") or ""
    if not strategy:
        yield required("spec.strategy")
        return
    if strategy in STRATEGIES and emulated == ((0, 0, 0), ""):
        text = "must be specified when `strategy` is 'OldestEmulationVersion'"
        yield required("spec.emulationVersion", text)
    yield from strategy_errors(strategy)


def candidate_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = ((candidate.get("spec") or {}).get("leaseName") or "" for candidate in (new, old))
    if after != before:
        yield invalid("spec.leaseName", after, IMMUTABLE)


def _version(text: str) -> Version | None:
    found = SEMVER.fullmatch(text)
    return (tuple(int(part) for part in found.groups()[:3]), found[4] or "") if found else None


def _less(one: Version, other: Version) -> bool:
    """Compares semantic versions part by part: a pre-release comes before its release."""
    if one[0] != other[0] or one[1] == other[1]:
        return one[0] < other[0]
    if not one[1] or not other[1]:
        return bool(one[1])
    for left, right in zip_longest(one[1].split("."), other[1].split(".")):
        if left == right:
            continue
        if left is None or right is None:
            return left is None
        if left.isdigit() and right.isdigit():
            return int(left) < int(right)
        return left.isdigit() or (not right.isdigit() and left < right)
    return False


class LeaseCandidateStrategy(LeaseStrategy):
    """Names follow the rules for keys of config maps."""

    update_checks = (Check.METADATA_CHANGE, Check.OWN_RULES, Check.CHANGE)

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return names.config_key(name)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(candidate_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(candidate_update_errors(new, old))


def lease_candidate_cells(subject: Subject) -> Cells:
    return {
        "LeaseName": subject.text("spec", "leaseName"),
        "BinaryVersion": subject.text("spec", "binaryVersion"),
        "EmulationVersion": subject.text("spec", "emulationVersion"),
    }
