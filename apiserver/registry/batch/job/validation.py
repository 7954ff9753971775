"""Holds the rules of jobs. Source: pkg/apis/batch/validation/validation.go (ValidateJob, ValidateJobSpec),
1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    child,
    forbidden,
    invalid,
    key,
    not_supported,
    required,
    too_long,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.batch.job import policies
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.shared.amounts import NOT_NEGATIVE
from kubeskew.apiserver.registry.shared.domains import prefixed_path_errors
from kubeskew.apiserver.registry.shared.internal_values import success_policy
from kubeskew.apiserver.registry.shared.pod_options import PodOptions
from kubeskew.apiserver.registry.shared.podtemplate.validation import template_errors
from kubeskew.apiserver.registry.shared.workloads.validation import matches, template_labels

PREFIX = "batch.kubernetes.io/"
TRACKING = "batch.kubernetes.io/job-tracking"
_LABELS = "spec.template.metadata.labels"
_INDEXED = "Indexed"
_MAX_INDEXED = 100000
_MAX_HALF = 10000
_MAX_MANAGER = 63
_NEEDS_INDEXES = "requires indexed completion mode"


def is_marked(job: Object) -> bool:
    """Decides whether a job has the annotation that its pods are counted by finalizers."""
    return TRACKING in (job["metadata"].get("annotations") or {})


def job_errors(
    job: Object, options: PodOptions, *, prefixed: bool, markable: bool = True
) -> list[FieldError]:
    """Returns the errors of a whole job.

    `prefixed`: the labels with a prefix must be there too, as in all but old jobs. `markable`: the job may
    have the annotation of `is_marked`.
    """
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
    """Checks that a selector which the server makes takes the job's own pods."""
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
    """Checks a job's own spec: with a selector that takes its template's pods."""
    errors = template_spec_errors(spec, "spec", options)
    selector = spec.get("selector")
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        errors += selectors.selector_errors(selector, "spec.selector")
    labels = template_labels(spec)
    if matches(selector, labels) is False:
        text = "`selector` does not match template `labels`"
        errors.append(invalid(_LABELS, labels or None, text))
    return errors


def template_spec_errors(spec: Object, path: str, options: PodOptions) -> list[FieldError]:
    """Checks a job's spec, in a cron job too, where there is no selector."""
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
        yield from policies.failure_errors(spec, child(path, "podFailurePolicy"))
    if spec.get("successPolicy") is not None:
        at = child(path, "successPolicy")
        if spec.get("completionMode") != _INDEXED:
            yield invalid(at, success_policy(spec["successPolicy"]), _NEEDS_INDEXES)
        else:
            yield from policies.success_errors(spec, at)
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
