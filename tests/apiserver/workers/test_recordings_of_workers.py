"""A server of several workers answers as a real kube-apiserver 1.36.3 did, as one process does."""

import pytest
from recorded import DATA
from transcript_answers import differing, unexplained
from transcripts import load, run_all
from worker_sets import worker_set

pytestmark = pytest.mark.cluster

FILES = [
    DATA / "real-1.36" / "core136.golden.json",
    *sorted((DATA / "real-1.36").glob("machinery-*.golden.json")),
]
RECORDED = {name: value for file in FILES for name, value in load(file).items()}
# Not answered alike by one process either (tests/apiserver/test_real_answers.py).
_PROSE = r"body\.columnDefinitions\[\d+\]\.description: expected ['\"].+, got ''"
_NOT_ALIKE = {"events-leases": _PROSE, "namespace-finalize": _PROSE}
_SAMPLE = 12  # every so many-th sequence is had in `make test`


async def differences(directory, workers: int, names) -> dict[str, list]:
    arguments = ("--emulated-version", "1.36.3", "--service-cluster-ip-range", "10.96.0.0/12")
    async with worker_set(directory, workers, *arguments) as made:
        runs = await run_all(made.url, {name: RECORDED[name] for name in names})
    return {name: unexplained(differing(run), _NOT_ALIKE.get(name)) for name, run in runs.items()}


async def test_a_sample_is_answered_by_three_workers_as_by_the_real_server(tmp_path):
    """Requests of a sequence go to any of three workers, and are answered as one real server did."""
    found = await differences(tmp_path, 3, sorted(RECORDED)[::_SAMPLE])
    assert {name: each for name, each in found.items() if each} == {}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("workers", [1, 3])
async def test_all_sequences_are_answered_by_workers_as_by_the_real_server(tmp_path, workers: int):
    """Every recorded sequence is answered alike by one process and by three workers."""
    found = await differences(tmp_path, workers, RECORDED)
    assert {name: each for name, each in found.items() if each} == {}
