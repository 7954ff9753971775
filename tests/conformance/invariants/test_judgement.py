"""The components that a judgement takes for failed, by their processes and the log's time line."""

from types import SimpleNamespace

import pytest

from kubeskew.conformance.evidence.log import ComponentChange
from kubeskew.conformance.invariants.invariant import ComponentFailure
from kubeskew.conformance.invariants.judgement import _failures


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([("started", "")], [ComponentFailure("kubelet-1", "its process has ended", at_start=False)]),
        (
            [("started", ""), ("failed", "exit status 1")],
            [ComponentFailure("kubelet-1", "exit status 1", at_start=True)],
        ),
        (
            [("failed", "exit status 1"), ("started", "")],
            [ComponentFailure("kubelet-1", "its process has ended", at_start=False)],
        ),
    ],
)
def test_a_program_that_ended_before_it_was_ready_did_not_start(changes, expected):
    """A process that is gone has crashed, unless its component says last that it did not come up."""
    process = SimpleNamespace(name="kubelet-1", client="kubelet/n", wanted=True, pid=1, birth="")
    state = SimpleNamespace(processes={"kubelet-1": process})
    log = [ComponentChange(1, "", "kubelet/n", what, "1.36", "", detail) for what, detail in changes]
    assert _failures(state, SimpleNamespace(alive=lambda _pid, _birth: False), {}, log) == expected
