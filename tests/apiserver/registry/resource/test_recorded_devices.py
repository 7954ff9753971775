"""Our server answers about devices and claims as a real kube-apiserver 1.36.3 did."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from declared_differences import differences
from recorded import DATA
from server_in_process import close_server, open_server
from transcript_answers import differing
from transcripts import Run, load, run_all

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.registry.generic import checks

pytestmark = pytest.mark.xdist_group("recorded-devices")  # what is recorded is asked once

RELEASE = Version.parse("1.36.3")
SERVED = ("v1alpha3", "v1beta1", "v1beta2")
RECORDED = {file: load(DATA / "real-1.36" / f"{file}.golden.json") for file in ("dra", "dra-gates")}
NAMES = [(file, name) for file, sequences in RECORDED.items() for name in sequences]

# The kinds whose rules are declared as well; of each write its errors, the new and the old object.
KINDS = ("DeviceClass", "ResourceClaim", "ResourceSlice")
VALIDATED: list[tuple[str, list[Any], Any, Any]] = []


def _options(file: str) -> dict[str, object]:
    """The gates and API versions of the server that was recorded."""
    if file == "dra":
        return {}
    known = FeatureGates(RELEASE, {}).known()
    gates = {name: True for name in known if name.startswith("DRA")} | {"GenericWorkload": True}
    return {"gates": gates, "runtime_config": {f"resource.k8s.io/{version}": True for version in SERVED}}


async def _run_all(file: str, tokens: str) -> dict[str, Run]:
    """Every sequence of a file run once, against one server on a socket."""
    server = await open_server(RELEASE, token_auth_file=tokens, **_options(file))
    await server.start()
    done = await run_all(f"http://127.0.0.1:{server.port}", RECORDED[file])
    await server.stop()
    await close_server(server)
    return done


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runs(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, dict[str, Run]]]:
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    tokens.write_text('secret,admin,1,"system:masters"\n')
    with pytest.MonkeyPatch.context() as patch:
        combine = checks.with_declared

        def noted(errors: list[Any], new: Any, old: Any, resource: Any, *others: Any) -> list[Any]:
            if resource.kind in KINDS and resource.version == "v1":
                before = None if old is None else json.loads(json.dumps(old))
                VALIDATED.append((resource.kind, list(errors), json.loads(json.dumps(new)), before))
            return combine(errors, new, old, resource, *others)

        patch.setattr(checks, "with_declared", noted)
        yield {file: await _run_all(file, str(tokens)) for file in RECORDED}


@pytest.mark.parametrize(("file", "name"), NAMES)
async def test_a_sequence_is_answered_as_recorded(runs: dict[str, dict[str, Run]], file: str, name: str):
    """Codes, warnings, bodies and causes are those of the real server."""
    assert not differing(runs[file][name])


async def test_declared_rules_find_the_same(runs: dict[str, dict[str, Run]]):
    """In all recorded writes the declared rules find the errors that the hand-written ones do."""
    assert runs
    assert len(VALIDATED) > 300
    different = [
        (kind, found, new)
        for kind, errors, new, old in VALIDATED
        if (found := differences(36, kind, errors, new, old))
    ]
    assert different == []
