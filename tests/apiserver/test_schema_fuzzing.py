"""Requests made by schemathesis of the served OpenAPI documents: no 5xx but upstream's.

The seed is that of `make test-random`, another one in each run of it, and else always the same. By hand:
`FUZZ_SEED=1 FUZZ_FAULTS=faults.jsonl SCHEMATHESIS_HOOKS=schemathesis_hooks PYTHONPATH=tests/apiserver
schemathesis run URL/openapi/v3/apis/GROUP/VERSION --url URL --checks no_fault_of_ours`.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from randomness import SEED
from server_in_process import ADMIN, Caller, close_server, open_server

TOKEN = "secret"
HOOKS = Path(__file__).parent
GROUPS = [
    "api/v1",
    *(
        f"apis/{group}"
        for group in (
            "admissionregistration.k8s.io/v1", "apiextensions.k8s.io/v1", "apiregistration.k8s.io/v1",
            "apps/v1", "authentication.k8s.io/v1", "authorization.k8s.io/v1", "autoscaling/v1",
            "autoscaling/v2", "batch/v1", "certificates.k8s.io/v1", "coordination.k8s.io/v1",
            "discovery.k8s.io/v1", "events.k8s.io/v1", "flowcontrol.apiserver.k8s.io/v1",
            "networking.k8s.io/v1", "node.k8s.io/v1", "policy/v1", "rbac.authorization.k8s.io/v1",
            "resource.k8s.io/v1", "scheduling.k8s.io/v1", "storage.k8s.io/v1", "fuzz.example.com/v1",
        )
    ),
]  # fmt: skip
RICH: dict[str, Any] = {
    "type": "object",
    "x-kubernetes-validations": [{"rule": "!has(self.spec) || !has(self.spec.low) || self.spec.low < 100"}],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "pattern": "^(a|b)*c?$", "maxLength": 20},
                "low": {"type": "integer", "minimum": -5, "default": 3},
                "ratio": {"type": "number", "multipleOf": 0.5},
                "when": {"type": "string", "format": "date-time"},
                "either": {"x-kubernetes-int-or-string": True},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "template": {"type": "object", "x-kubernetes-embedded-resource": True,
                             "x-kubernetes-preserve-unknown-fields": True},
                "tags": {"type": "array", "maxItems": 10, "x-kubernetes-list-type": "set",
                         "items": {"type": "string", "enum": ["x", "y", "z"]}},
                "parts": {
                    "type": "array",
                    "maxItems": 10,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["key"],
                    "items": {
                        "type": "object",
                        "required": ["key"],
                        "properties": {"key": {"type": "string", "maxLength": 5},
                                       "n": {"type": "integer", "nullable": True}},
                        "x-kubernetes-validations": [
                            {"rule": "!has(self.n) || self.n != 7", "messageExpression": "self.key"}
                        ],
                    },
                },
                "map": {"type": "object", "maxProperties": 5,
                        "additionalProperties": {"type": "array", "items": {"type": "boolean"}}},
                "replicas": {"type": "integer"},
            },
        },
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
    },
}  # fmt: skip
DEFINITION: dict[str, Any] = {
    "metadata": {"name": "riches.fuzz.example.com"},
    "spec": {
        "group": "fuzz.example.com",
        "scope": "Namespaced",
        "names": {"plural": "riches", "kind": "Rich"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": RICH},
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "additionalPrinterColumns": [
                    {"name": "P", "type": "string", "jsonPath": ".spec.parts[*].key"}
                ],
                "selectableFields": [{"jsonPath": ".spec.name"}],
            }
        ],
    },
}


@pytest.fixture
async def listening(tmp_path: Path) -> AsyncIterator[Any]:
    """A server on a free port, with custom resources; the token is a master's."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text(f'{TOKEN},admin,1,"{ADMIN.organizations[0]}"\n')
    server = await open_server(token_auth_file=str(tokens))
    made = await Caller(server).post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
    assert made.status == 201, made.raw
    await server.start()
    yield server
    await server.stop()
    await close_server(server)


async def fuzz(server: Any, group: str, directory: Path, *options: str) -> None:
    """Run schemathesis over one document; fails with what it printed and the faults that it found."""
    seed = str(SEED)
    faults, url = directory / "faults.jsonl", f"http://127.0.0.1:{server.port}"
    found = {"FUZZ_SEED": seed, "FUZZ_FAULTS": str(faults), "SCHEMATHESIS_HOOKS": "schemathesis_hooks"}
    arguments = [f"{url}/openapi/v3/{group}", "--url", url, "-H", f"Authorization: Bearer {TOKEN}"]
    arguments += ["--checks", "no_fault_of_ours", "--seed", seed, "--request-timeout", "30", *options]
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from schemathesis.cli import schemathesis as s; s()", "run", *arguments,
        env={**os.environ, **found, "PYTHONPATH": str(HOOKS)}, cwd=directory,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await run.communicate()
    reported = faults.read_text() if faults.exists() else ""
    assert "Loaded specification" in said.decode(), said.decode()
    assert not reported, f"TEST_SEED={seed} {group}\n{reported}\n{said.decode()[-3000:]}"
    assert (await Caller(server).get("/readyz")).status == 200


@pytest.mark.random
async def test_small_groups(listening: Any, tmp_path: Path) -> None:
    """A few hundred requests about runtime classes, with what the schema forbids as well."""
    await fuzz(listening, "apis/node.k8s.io/v1", tmp_path, "--phases", "coverage", "--max-time", "4")


@pytest.mark.random
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("group", GROUPS)
async def test_every_group(listening: Any, tmp_path: Path, group: str) -> None:
    """Thousands of requests about everything in a group."""
    options = ("--phases", "coverage,fuzzing", "--max-examples", "3", "--max-time", "60")
    await fuzz(listening, group, tmp_path, *options, "--continue-on-failure")
