"""The operation `audit`: what other versions would make of what is stored, held against the file."""

import orjson
import pytest
from cell_in_memory import Control, run

from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.conformance.evidence.log import ComponentChange

GROUP = "resource.k8s.io"


async def outcome(body: str) -> str:
    """The failure of an audit of a claim that 1.35 has stored, by servers of 1.35 and 1.34."""
    control = Control()
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    metadata = {"name": "c", "namespace": "ns", "uid": "u"}
    claim = {"apiVersion": f"{GROUP}/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}
    key = Key(f"resourceclaims.{GROUP}", "ns", "c")
    control.stored = [Entry(key, "u", 9, 9, orjson.dumps(claim))]
    control.runtime_config = {"api/beta": True}
    control.written = [
        ComponentChange(1, "", "apiserver-1", "started", "1.35", ""),
        ComponentChange(1, "", "apiserver-2", "started", "1.34", "DRAAdminAccess=true"),
        ComponentChange(2, "", "scheduler", "started", "1.34", ""),
    ]
    result = await run(f"\n  - name: one\n    try: [{{audit: {{{body}}}}}]\n", control)
    return result.error or result.failure.removeprefix("one: audit: ")


MIGRATE = (
    "'1.33: unreadable: resourceclaims c: kubeskew storage migrate resourceclaims.resource.k8s.io at 1.34'"
)


@pytest.mark.parametrize(
    "body",
    [
        "for: '1.34', answer: []",
        f"for: '1.33', answer: [{MIGRATE}]",
        f"to: '1.33', answer: [{MIGRATE}]",
        "for: '1.33', resources: [pods], answer: []",
        f"for: '1.33', resources: [resourceclaims.{GROUP}], answer: [{MIGRATE}]",
    ],
)
async def test_an_audit_that_says_what_the_file_says_holds(body: str):
    """The oldest server decides what can be done before; resources narrow the answer down."""
    assert await outcome(body) == ""


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        (
            "for: '1.33', answer: []",
            "expected the audit to say []; found ['1.33: unreadable: resourceclaims c",
        ),
        ("for: '1.33', gates: {Nonsense: true}", "audit: unrecognized feature gate: Nonsense"),
        ("answer: []", "expected either `for` or `to`"),
        ("for: '1.33', to: '1.33'", "expected either `for` or `to`"),
        ("for: '1.99'", "version 1.99 is not supported"),
    ],
)
async def test_what_is_wrong_is_said(body: str, failure: str):
    """The failure shows the findings, and a gate, a version or a question that cannot be."""
    try:
        message = await outcome(body)
    except Exception as error:
        message = str(error)
    assert failure in message
