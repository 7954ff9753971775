"""The operation `request`: one request, and its whole answer held against the file."""

import pytest
from cell_in_memory import POD, Control, run


async def outcome(body: str) -> str:
    """The failure of a request to a server that has the pod `a`."""
    result = await run(
        f"""
  - name: one
    try:
    - apply: {{resource: {POD}}}
    - request: {{{body}}}
""",
        Control(),
    )
    return result.error or result.failure.removeprefix("one: request: ")


PODS = """path: "(join('', ['/api/v1/namespaces/', $namespace, '/pods']))" """.strip()


@pytest.mark.parametrize(
    "body",
    [
        PODS,
        f"{PODS}, answer: {{status: 200, warnings: [], body: {{(length(items)): 1}}}}",
        "path: /api/v1/namespaces/none/pods/absent, answer: {status: 404, body: {reason: NotFound}}",
        f"{PODS}, method: POST, body: {POD.replace('name: a', 'name: b')}, answer: {{status: 200}}",
    ],
)
async def test_an_answer_is_as_the_file_says(body: str):
    """Status, warnings and body are matched, of an error, too; without an answer the status has to be 200."""
    assert await outcome(body) == ""


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        (
            "path: /api/v1/namespaces/none/pods/absent",
            "pods/absent to be answered as the file says; found status: expected 200, found 404",
        ),
        (f"{PODS}, answer: {{body: {{kind: Table}}}}", "body.kind: expected 'Table', found"),
    ],
)
async def test_another_answer_is_a_failure(body: str, failure: str):
    """A failure shows what differs, with the message of an error."""
    assert failure in await outcome(body)
