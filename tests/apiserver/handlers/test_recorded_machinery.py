"""Our server answers as real ones did: of 1.36 about custom resources and reads, of 1.20 about the rest."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from recorded import DATA
from server_in_process import close_server, open_server
from transcript_answers import differing, unexplained
from transcripts import Run, load, run_all

pytestmark = pytest.mark.xdist_group("machinery")  # what is recorded is asked once

FOLDERS = ("machinery-1.36", "reads-1.36", "access-1.20", "kinds-1.20", "pods-1.20", "requests-1.20")
FILES = [file for folder in FOLDERS for file in sorted((DATA / folder).glob("*.golden.json"))]
RECORDED = {name: value for file in FILES for name, value in load(file).items()}
# What 1.20 answered otherwise than 1.36, with every difference. One of them that comes to pass fails, and so
# does another difference. Sources: pkg/apis/networking/validation/validation.go (1.34); the strategies of
# replica sets and others (pkg/registry/*/*/strategy.go, 1.34 and 1.35); those of scales (storage.go, 1.33).
_CHANGED = {
    # Errors of references do not say in words what is required since 1.34.
    "ingress-references": r"message: expected 'Required value: \w+ is required', got 'Required value'",
    # Changed replica sets are not checked as new ones since 1.34, others since 1.35.
    "metadata-of-changes": r"step (30|42|48): status: expected 422, got 200",
    # A binding to a role that there is not reads that the binding was not found since 1.32.
    "granting-what-one-has-not": r"step 9: body\.(message|details\.kind): expected 'clusterroles",
    # A 404 for a missing Scale names the resource itself since 1.33.
    "scales-missed": r"body\.message: expected '\w+/scale\S* \"x\" not found'|body\.details\.(group|kind): ",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runs(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Run]]:
    """Every sequence run once, some side by side, against one server on a socket."""
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    tokens.write_text('secret,admin,1,"system:masters"\n')
    server = await open_server(token_auth_file=str(tokens))
    await server.start()
    yield await run_all(f"http://127.0.0.1:{server.port}", RECORDED)
    await server.stop()
    await close_server(server)


@pytest.mark.parametrize("name", RECORDED)
async def test_a_sequence_is_answered_as_recorded(runs: dict[str, Run], name: str):
    """Codes, types, warnings, bodies and events, but for what no two servers have alike."""
    found = differing(runs[name])

    assert bool(found) == (name in _CHANGED), found
    assert unexplained(found, _CHANGED.get(name)) == []
