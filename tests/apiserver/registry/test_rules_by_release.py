"""Rules of jobs and autoscalers that differ from release to release."""

from datetime import UTC, datetime

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.registry.autoscaling.horizontalpodautoscaler import Bounds, spec_errors
from kubeskew.apiserver.registry.batch.job.status_validation import status_errors
from kubeskew.apiserver.registry.batch.job.strategy import default_job
from kubeskew.apiserver.registry.defaulting import DefaultingContext
from kubeskew.apiserver.workload_features import WorkloadFeatures


def workloads(minor: int) -> WorkloadFeatures:
    return Features.of(FeatureGates(Version(minor))).workloads


def errors_of(minor: int, most: int, version: str) -> list[str]:
    target = {"apiVersion": version, "kind": "Deployment", "name": "d"}
    spec: Object = {"maxReplicas": most, "scaleTargetRef": target}
    return [error.detail for error in spec_errors(spec, Bounds.of(spec, None, workloads(minor)))]


@pytest.mark.parametrize(
    ("minor", "most", "text"),
    [
        (35, 0, "must be greater than 0"),
        (35, -1, "must be greater than 0"),
        (36, 0, "must be set and greater than 0"),
        (36, -1, "must be greater than or equal to 1"),
    ],
)
def test_maxima_of_autoscalers(minor: int, most: int, text: str):
    """The texts about the maximum are those of declarative validation from 1.36 on."""
    assert errors_of(minor, most, "apps/v1") == [text]


@pytest.mark.parametrize(("minor", "texts"), [(33, []), (34, ["apiVersion must specify API group"])])
def test_versions_of_what_is_scaled(minor: int, texts: list[str]):
    """The version of what an autoscaler scales is looked at from 1.34 on."""
    assert errors_of(minor, 1, "v1") == texts


@pytest.mark.parametrize(("version", "needs"), [("1.35", True), ("1.36.0", True), ("1.36.2", False)])
def test_suspended_jobs_need_their_condition(version: str, needs: bool):
    """Suspended jobs of 1.35 may be placed again once their condition says that they are suspended."""
    release = Version.parse(version)
    assert Features.of(FeatureGates(release)).workloads.placing_needs_condition is needs


@pytest.mark.parametrize(("minor", "written"), [(28, None), (29, False)])
def test_manual_selectors_of_jobs(minor: int, written: bool | None):
    """The default of a job's manualSelector is written from 1.29 on."""
    job: Object = {"metadata": {}, "spec": {"template": {"spec": {"containers": []}}}}

    default_job(
        job, DefaultingContext(Features.of(FeatureGates(Version(minor))), datetime(2026, 1, 1, tzinfo=UTC))
    )
    assert job["spec"].get("manualSelector") is written


@pytest.mark.parametrize(
    ("conditions", "start", "errors"),
    [
        ([{"type": "Suspended", "status": "False"}], "2026-01-02T00:00:00Z", []),
        ([{"type": "Suspended", "status": "False"}], None, []),
        ([{"type": "Suspended", "status": "True"}], "2026-01-02T00:00:00Z", ["status.startTime"]),
        ([], "2026-01-02T00:00:00Z", ["status.startTime"]),
    ],
)
def test_start_times_of_resumed_jobs(conditions: list[Object], start: str | None, errors: list[str]):
    """A job's start may change where its condition Suspended turns from True to False, and only there."""
    suspended = [{"type": "Suspended", "status": "True"}]
    old = {"spec": {}, "status": {"startTime": "2026-01-01T00:00:00Z", "conditions": suspended}}
    new = {"spec": {}, "status": {"startTime": start, "conditions": conditions}}

    assert [error.path for error in status_errors(new, old, workloads(36))] == errors
