"""Job: the rules of jobs, of their changes and policies, and of lists of indexes (`1,3-5`).

Source: pkg/apis/batch/validation/validation.go (ValidateJob, ValidateJobSpec, ValidateJobSpecUpdate,
validateIndexesFormat), 1.36.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    OMITTED,
    FieldError,
    InternalValue,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    key,
    not_supported,
    required,
    too_long,
    too_many,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.shared.amounts import NOT_NEGATIVE
from kubeskew.apiserver.registry.shared.formats import prefixed_path_errors
from kubeskew.apiserver.registry.shared.internal_values import success_policy
from kubeskew.apiserver.registry.shared.pod_options import PodOptions
from kubeskew.apiserver.registry.shared.podtemplate.validation import template_errors
from kubeskew.apiserver.registry.shared.repeats import repeats
from kubeskew.apiserver.registry.shared.workloads import immutable, matches, shown_labels, template_labels

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_MAX_RULES = 20
_MAX_CODES = 255
_MAX_PATTERNS = 20
_MAX_INDEXES = 64 * 1024
PREFIX = "batch.kubernetes.io/"
TRACKING = "batch.kubernetes.io/job-tracking"
_LABELS = "spec.template.metadata.labels"
_INDEXED = "Indexed"
_MAX_INDEXED = 100000
_MAX_HALF = 10000
_MAX_MANAGER = 63
_NEEDS_INDEXES = "requires indexed completion mode"
_SORTS = {"podFailurePolicy": "*batch.PodFailurePolicy", "successPolicy": "*batch.SuccessPolicy"}
_PLACING = ("nodeSelector", "tolerations", "schedulingGates")


class IndexesError(ValueError):
    """The message is upstream's."""


def index_intervals(text: str, completions: int) -> list[tuple[int, int]]:
    """Intervals have their first and last index; raises IndexesError."""
    found: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        start, end = _interval(part, completions)
        if found and found[-1][1] >= start:
            raise IndexesError(f"non-increasing order, previous: {found[-1][1]}, current: {start}")
        found.append((start, end))
    return found


def index_count(found: list[tuple[int, int]]) -> int:
    return sum(end - start + 1 for start, end in found)


def index_overlap(completed: str, failed: str, completions: int) -> int | None:
    """The first index found in both, walking along the two; intervals that cannot be read are passed over
    (validateFailedIndexesNotOverlapCompleted)."""
    one, other = _readable(completed, completions), _readable(failed, completions)
    done = lost = 0
    while done < len(one) and lost < len(other):
        (start, end), (first, last) = one[done], other[lost]
        if start <= last and first <= end:
            return max(start, first)
        if start <= first:
            done += 1
        else:
            lost += 1
    return None


def _readable(text: str, completions: int) -> list[tuple[int, int]]:
    found = []
    for part in text.split(","):
        with suppress(IndexesError):
            found.append(_interval(part, completions))
    return found


def _interval(part: str, completions: int) -> tuple[int, int]:
    limits = part.split("-")
    if len(limits) > 2:
        raise IndexesError(
            f"the fragment {json.dumps(part)} violates the requirement that an index interval can have at "
            "most two parts separated by '-'"
        )
    start = _number(limits[0], completions)
    if len(limits) == 1:
        return start, start
    end = _number(limits[1], completions)
    if start >= end:
        raise IndexesError(f"non-increasing order, previous: {start}, current: {end}")
    return start, end


def _number(text: str, completions: int) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
        raise IndexesError(f"cannot convert string to integer for index: {json.dumps(text)}")
    if int(text) >= completions:
        raise IndexesError(f"too large index: {json.dumps(text)}")
    return int(text)


def _one_of(value: str, allowed: tuple[str, ...], path: str) -> Iterator[FieldError]:
    if not value:
        shown = " ".join(json.dumps(name) for name in allowed)
        yield required(path, f"valid values: [{shown}]")
    elif value not in allowed:
        yield not_supported(path, value, allowed)


def failure_errors(spec: Object, path: str) -> Iterator[FieldError]:
    rules, at = spec["podFailurePolicy"].get("rules") or [], child(path, "rules")
    if len(rules) > _MAX_RULES:
        yield too_many(at, len(rules), _MAX_RULES)
    inside = (spec.get("template") or {}).get("spec") or {}
    known = {
        container.get("name")
        for field in ("containers", "initContainers")
        for container in inside.get(field) or ()
    }
    for position, rule in enumerate(rules):
        yield from _failure_rule(spec, rule, index(at, position), known)


def _failure_rule(spec: Object, rule: Object, path: str, known: set[str | None]) -> Iterator[FieldError]:
    action, at = rule.get("action") or "", child(path, "action")
    if action == "FailIndex":
        if spec.get("backoffLimitPerIndex") is None:
            yield invalid(at, action, "requires the backoffLimitPerIndex to be set")
    else:
        yield from _one_of(action, _ACTIONS, at)
    codes, patterns = rule.get("onExitCodes"), rule.get("onPodConditions") or []
    if codes is not None:
        yield from _codes(codes, child(path, "onExitCodes"), known)
    if patterns:
        yield from _patterns(patterns, child(path, "onPodConditions"))
    if codes is not None and patterns:
        yield invalid(path, OMITTED, "specifying both OnExitCodes and OnPodConditions is not supported")
    if codes is None and not patterns:
        yield invalid(path, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required")


def _patterns(patterns: list[Object], path: str) -> Iterator[FieldError]:
    if len(patterns) > _MAX_PATTERNS:
        yield too_many(path, len(patterns), _MAX_PATTERNS)
    for position, pattern in enumerate(patterns):
        at, kind = index(path, position), pattern.get("type") or ""
        yield from (invalid(child(at, "type"), kind, text) for text in names.qualified_name(kind))
        yield from _one_of(pattern.get("status") or "", _STATUSES, child(at, "status"))


def _codes(codes: Object, path: str, known: set[str | None]) -> Iterator[FieldError]:
    operator, container = codes.get("operator") or "", codes.get("containerName")
    yield from _one_of(operator, _OPERATORS, child(path, "operator"))
    if container is not None and container not in known:
        text = "must be one of the container or initContainer names in the pod template"
        yield invalid(child(path, "containerName"), container, text)
    values, at = codes.get("values") or [], child(path, "values")
    if not values:
        yield invalid(at, codes.get("values"), "at least one value is required")
    elif len(values) > _MAX_CODES:
        yield too_many(at, len(values), _MAX_CODES)
    repeated = repeats(values)
    for position, value in enumerate(values):
        if operator == "In" and value == 0:
            yield invalid(index(at, position), value, "must not be 0 for the In operator")
        if position in repeated:
            yield duplicate(index(at, position), value)
    if values != sorted(values):
        yield invalid(at, values, "must be ordered")


def success_errors(spec: Object, path: str) -> Iterator[FieldError]:
    """`spec` is that of an indexed job."""
    rules, at = spec["successPolicy"].get("rules") or [], child(path, "rules")
    if not rules:
        yield required(at, "at least one rules must be specified when the successPolicy is specified")
    if len(rules) > _MAX_RULES:
        yield too_many(at, len(rules), _MAX_RULES)
    for position, rule in enumerate(rules):
        yield from _success_rule(rule, spec.get("completions") or 0, index(at, position))


def _success_rule(rule: Object, completions: int, path: str) -> Iterator[FieldError]:
    number, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if number is None and indexes is None:
        yield required(path, "at least one of succeededCount or succeededIndexes must be specified")
    total = 0
    if indexes is not None:
        at = child(path, "succeededIndexes")
        if len(indexes) > _MAX_INDEXES:
            yield too_long(at, _MAX_INDEXES)
        try:
            total = index_count(index_intervals(indexes, completions))
        except IndexesError as error:
            yield invalid(at, indexes, f"error parsing succeededIndexes: {error}")
    if number is None:
        return
    at = child(path, "succeededCount")
    if number < 0:
        yield invalid(at, number, NOT_NEGATIVE)
    if number > completions:
        limit = f"{completions} (the number of specified completions)"
        yield invalid(at, number, f"must be less than or equal to {limit}")
    if indexes is not None and number > total:
        limit = f"{total} (the number of indexes in the specified succeededIndexes field)"
        yield invalid(at, number, f"must be less than or equal to {limit}")


def is_marked(job: Object) -> bool:
    """An annotation says that the job's pods are counted by finalizers."""
    return TRACKING in (job["metadata"].get("annotations") or {})


def job_errors(
    job: Object, options: PodOptions, *, prefixed: bool, markable: bool = True
) -> list[FieldError]:
    """`prefixed`: the labels with a prefix must be there too, as in all but old jobs. `markable`: the job may
    have the annotation of `is_marked`."""
    spec = job["spec"]
    errors = [*_generated(job, prefixed=prefixed), *spec_errors(spec, options)]
    if not markable and is_marked(job):
        errors.append(forbidden(key("metadata.annotations", TRACKING), "cannot add this annotation"))
    completions = spec.get("completions") or 0
    if spec.get("completionMode") == _INDEXED and completions > 0:
        name = job["metadata"].get("name") or ""
        texts = names.dns1123_label(f"{name}-{completions - 1}")
        what = "will not able to create pod with invalid DNS label"
        errors += [invalid("metadata.name", name, f"{what}: {name}-{completions - 1}") for _ in texts]
    return errors


def _generated(job: Object, *, prefixed: bool) -> Iterator[FieldError]:
    """A selector which the server makes must take the job's own pods."""
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return
    own = {"controller-uid": metadata.get("uid") or "", "job-name": metadata.get("name") or ""}
    wanted = {**own, **{PREFIX + name: value for name, value in own.items()}} if prefixed else own
    labels = template_labels(spec)
    for name, value in wanted.items():
        text = f"must be '{value}'"
        if name not in labels:
            yield required(key(_LABELS, name), text)
        elif labels[name] != value:
            yield invalid(key(_LABELS, name), labels, text)
    if matches(spec["selector"], wanted) is False:
        yield invalid("spec.selector", selectors.shown(spec["selector"]), "`selector` not auto-generated")


def spec_errors(spec: Object, options: PodOptions) -> list[FieldError]:
    errors = template_spec_errors(spec, "spec", options)
    selector = spec.get("selector")
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        errors += selectors.selector_errors(selector, "spec.selector")
    labels = template_labels(spec)
    if matches(selector, labels) is False:
        text = "`selector` does not match template `labels`"
        errors.append(invalid(_LABELS, shown_labels(spec), text))
    return errors


def template_spec_errors(spec: Object, path: str, options: PodOptions) -> list[FieldError]:
    """`spec` may be that of a cron job, where there is no selector."""
    errors = list(_limits(spec, path))
    if spec.get("managedBy") is not None:
        at = child(path, "managedBy")
        errors += prefixed_path_errors(at, spec["managedBy"])
        if len(spec["managedBy"]) > _MAX_MANAGER:
            errors.append(too_long(at, _MAX_MANAGER))
    mode = spec.get("completionMode")
    if mode is not None:
        if mode not in {"NonIndexed", _INDEXED}:
            at = child(path, "completionMode")
            errors.append(not_supported(at, mode, ("NonIndexed", _INDEXED)))
        if mode == _INDEXED:
            errors += _indexed(spec, path)
    if mode is None or mode == "NonIndexed":
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(field) is not None:
                errors.append(invalid(child(path, field), spec[field], _NEEDS_INDEXES))
    errors += _policies(spec, path)
    errors += template_errors(spec.get("template") or {}, child(path, "template"), options)
    errors += _restarts(spec, child(path, "template.spec.restartPolicy"))
    return errors


def _limits(spec: Object, path: str) -> Iterator[FieldError]:
    for field in (
        "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
        "backoffLimitPerIndex", "maxFailedIndexes",
    ):  # fmt: skip
        number = spec.get(field)
        if number is not None and number < 0:
            yield invalid(child(path, field), number, NOT_NEGATIVE)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required(child(path, "backoffLimitPerIndex"), "when maxFailedIndexes is specified")


def _indexed(spec: Object, path: str) -> Iterator[FieldError]:
    completions, parallelism = spec.get("completions"), spec.get("parallelism")
    failed, at = spec.get("maxFailedIndexes"), child(path, "maxFailedIndexes")
    if completions is None:
        yield required(child(path, "completions"), f"when completion mode is {_INDEXED}")
    if parallelism is not None and parallelism > _MAX_INDEXED:
        text = f"must be less than or equal to {_MAX_INDEXED} when completion mode is {_INDEXED}"
        yield invalid(child(path, "parallelism"), parallelism, text)
    if failed is not None and completions is not None and failed > completions:
        yield invalid(at, failed, "must be less than or equal to completions")
    if failed is not None and failed > _MAX_INDEXED:
        yield invalid(at, failed, f"must be less than or equal to {_MAX_INDEXED}")
    if (completions or 0) <= _MAX_INDEXED or spec.get("backoffLimitPerIndex") is None:
        return
    if failed is None:
        yield required(at, f"must be specified when completions is above {_MAX_INDEXED}")
    text = (
        f"must be less than or equal to {_MAX_HALF} when completions are above {_MAX_INDEXED} and used with "
        "backoff limit per index"
    )
    for field in ("parallelism", "maxFailedIndexes"):
        if (spec.get(field) or 0) > _MAX_HALF:
            yield invalid(child(path, field), spec[field], text)


def _policies(spec: Object, path: str) -> Iterator[FieldError]:
    failing = spec.get("podFailurePolicy") is not None
    if failing:
        yield from failure_errors(spec, child(path, "podFailurePolicy"))
    if spec.get("successPolicy") is not None:
        at = child(path, "successPolicy")
        if spec.get("completionMode") != _INDEXED:
            yield invalid(at, success_policy(spec["successPolicy"]), _NEEDS_INDEXES)
        else:
            yield from success_errors(spec, at)
    policy = spec.get("podReplacementPolicy")
    allowed = ("Failed",) if failing else ("Failed", "TerminatingOrFailed")
    if policy is not None and policy not in allowed:
        yield not_supported(child(path, "podReplacementPolicy"), policy, allowed)


def _restarts(spec: Object, path: str) -> Iterator[FieldError]:
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy") or ""
    if policy in {"", "Always"}:
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in {"OnFailure", "Never"}:
        yield not_supported(path, policy, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        yield invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


@dataclass(frozen=True, slots=True)
class JobChanges:
    """`placing`: the pods may be placed elsewhere; `resources`: they may have other amounts."""

    elastic: bool
    placing: bool
    resources: bool


def change_errors(spec: Object, old: Object, allowed: JobChanges) -> Iterator[FieldError]:
    yield from _completions(spec, old, allowed)
    after, before = (selectors.shown(spec_.get("selector")) for spec_ in (spec, old))
    yield from immutable(after, before, "spec.selector")
    template, former = spec.get("template") or {}, deepcopy(old.get("template") or {})
    if allowed.placing:
        _let_place(template, former)
    if allowed.resources:  # then upstream looks at the pods' spec alone
        template, former, sort = template.get("spec") or {}, former.get("spec") or {}, "core.PodSpec"
        _let_size(template, former)
        at = "spec.template.spec"
    else:
        at, sort = "spec.template", "core.PodTemplateSpec"
    if template != former:
        yield invalid(at, InternalValue(template, sort), IMMUTABLE)
    for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        if spec.get(field) != old.get(field):
            internal = _SORTS.get(field)
            shown = InternalValue(spec.get(field), internal) if internal else spec.get(field)
            yield invalid(f"spec.{field}", shown, IMMUTABLE)


def _completions(spec: Object, old: Object, allowed: JobChanges) -> Iterator[FieldError]:
    after, before, at = spec.get("completions"), old.get("completions"), "spec.completions"
    if after == before:
        return
    if not allowed.elastic or spec.get("completionMode") != "Indexed" or before is None or after is None:
        yield invalid(at, after, IMMUTABLE)
    elif after != spec.get("parallelism"):
        yield invalid(at, after, "can only be modified in tandem with spec.parallelism")


def _let_place(template: Object, before: Object) -> None:
    """Fields that decide where pods run are copied, so that they do not count as a change."""
    inside, was = template.get("spec") or {}, before.setdefault("spec", {})
    for field in _PLACING:
        _take(inside, was, field)
    affinity, old_affinity = inside.get("affinity"), was.get("affinity")
    if affinity is None and old_affinity is not None:
        old_affinity.pop("nodeAffinity", None)
        if not old_affinity:
            was.pop("affinity")
    elif affinity is not None:
        _take(affinity, was.setdefault("affinity", {}), "nodeAffinity")
    metadata = template.get("metadata") or {}
    for field in ("annotations", "labels"):
        _take(metadata, before.setdefault("metadata", {}), field)
    if "metadata" not in template and not before["metadata"]:
        del before["metadata"]


def _let_size(inside: Object, was: Object) -> None:
    for field in ("containers", "initContainers"):
        after, before = inside.get(field) or [], was.get(field) or []
        if len(after) == len(before):
            for container, old in zip(after, before, strict=True):
                if container.get("name") == old.get("name"):
                    _take(container, old, "resources")


def _take(new: Object, old: Object, field: str) -> None:
    old.pop(field, None)
    if field in new:
        old[field] = new[field]
