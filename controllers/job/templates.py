"""The pods of jobs; with the completion indexes of indexed jobs, their text in a status and their place in
pods. Pure functions.

Sources: k8s.io/kubernetes/pkg/controller/job/indexed_job_utils.go, 1.36;
pkg/controller/job/{job_controller,indexed_job_utils}.go, 1.36.
"""

import copy
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework import pods

INDEX = "batch.kubernetes.io/job-completion-index"  # annotation, and label from 1.28 on
FINALIZER = "batch.kubernetes.io/job-tracking"  # of pods; up to 1.26 an annotation of jobs as well
_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_NAME_LIMIT = 58  # of a generated name's prefix


def parse(text: str | None, limit: int) -> set[int]:
    """Invalid parts of a text like `1,3-5` are skipped, and so are indexes from `limit` on."""
    found: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            found |= set(range(int(first), min(int(last or first) + 1, limit)))
    return {index for index in found if index < limit}


def show(indexes: Iterable[int]) -> str:
    """Ranges are written as in `1,3-5`, two in a row as `1,2`."""
    parts: list[str] = []
    ordered = sorted(indexes)
    while ordered:
        length = 1
        while length < len(ordered) and ordered[length] == ordered[0] + length:
            length += 1
        run, ordered = ordered[:length], ordered[length:]
        if length > 2:
            parts.append(f"{run[0]}-{run[-1]}")
        else:
            parts += [str(index) for index in run]
    return ",".join(parts)


def index_of(pod: Object) -> int | None:
    """None unless the annotation is a valid index."""
    text = str((pod["metadata"].get("annotations") or {}).get(INDEX, ""))
    return int(text) if text.isascii() and text.isdigit() and int(text) < 2**31 else None


def valid_index(pod: Object, completions: int) -> int | None:
    index = index_of(pod)
    return index if index is not None and index < completions else None


def pending(taken: Collection[int], completions: int, count: int) -> list[int]:
    found: list[int] = []
    for index in range(completions):
        if len(found) == count:
            break
        if index not in taken:
            found.append(index)
    return found


def superfluous(
    active: Sequence[Object], completions: int, now: datetime
) -> tuple[list[Object], list[Object]]:
    """Pods to delete have no valid index, or that of a better pod; the others come second."""
    gone, left = [], []
    by_index: dict[int, list[Object]] = {}
    for pod in active:
        index = valid_index(pod, completions)
        if index is None:
            gone.append(pod)
        else:
            by_index.setdefault(index, []).append(pod)
    for index in sorted(by_index):
        *worse, best = pods.deletion_order(by_index[index], {}, now)
        gone += worse
        left.append(best)
    return gone, left


def is_marked(job: Object) -> bool:
    """Jobs with this annotation have their pods counted by finalizers (1.26 and earlier)."""
    return FINALIZER in (job["metadata"].get("annotations") or {})


def template_of(job: Object, *, indexed: bool, index_label: bool, tracked: bool = True) -> Object:
    template: Object = copy.deepcopy(job["spec"]["template"])
    metadata = template.setdefault("metadata", {})
    finalizers = metadata.get("finalizers") or []
    if tracked and FINALIZER not in finalizers:
        metadata["finalizers"] = [*finalizers, FINALIZER]
    if indexed:
        _add_variable(template["spec"], "labels" if index_label else "annotations")
    return template


def _add_variable(spec: Object, where: str) -> None:
    source = {"fieldRef": {"fieldPath": f"metadata.{where}['{INDEX}']"}}
    for name in ("initContainers", "containers"):
        for container in spec.get(name) or ():
            variables = container.get("env") or []
            if all(variable["name"] != _INDEX_VARIABLE for variable in variables):
                container["env"] = [*variables, {"name": _INDEX_VARIABLE, "valueFrom": source}]


def for_index(
    template: Object, job_name: str, index: int, annotations: dict[str, str], *, index_label: bool
) -> Object:
    metadata = dict(template["metadata"])
    metadata["annotations"] = {**(metadata.get("annotations") or {}), INDEX: str(index), **annotations}
    if index_label:
        metadata["labels"] = {**(metadata.get("labels") or {}), INDEX: str(index)}
    return {"metadata": metadata, "spec": {**template["spec"], "hostname": f"{job_name}-{index}"}}


def prefix_for(job_name: str, index: int) -> str:
    end = f"-{index}-"
    return job_name[: _NAME_LIMIT - len(end)] + end


def is_tracked(pod: Object) -> bool:
    return FINALIZER in (pod["metadata"].get("finalizers") or ())
