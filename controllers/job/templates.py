"""Makes the pods of jobs.

Source: pkg/controller/job/{job_controller,indexed_job_utils}.go, 1.36.
"""

import copy

from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.job.indexes import INDEX

FINALIZER = "batch.kubernetes.io/job-tracking"  # of pods; up to 1.26 an annotation of jobs as well
_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_NAME_LIMIT = 58  # of a generated name's prefix


def is_marked(job: Object) -> bool:
    """Returns whether the job's annotation says that its pods are counted by finalizers."""
    return FINALIZER in (job["metadata"].get("annotations") or {})


def template_of(job: Object, *, indexed: bool, index_label: bool, tracked: bool = True) -> Object:
    """Returns the template of all new pods, with the finalizer if they are tracked by it."""
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
    """Returns the template of the pod with that completion index."""
    metadata = dict(template["metadata"])
    metadata["annotations"] = {**(metadata.get("annotations") or {}), INDEX: str(index), **annotations}
    if index_label:
        metadata["labels"] = {**(metadata.get("labels") or {}), INDEX: str(index)}
    return {"metadata": metadata, "spec": {**template["spec"], "hostname": f"{job_name}-{index}"}}


def prefix_for(job_name: str, index: int) -> str:
    """Returns the generateName of an index's pods."""
    end = f"-{index}-"
    return job_name[: _NAME_LIMIT - len(end)] + end


def is_tracked(pod: Object) -> bool:
    """Returns whether the pod still has to be counted."""
    return FINALIZER in (pod["metadata"].get("finalizers") or ())
