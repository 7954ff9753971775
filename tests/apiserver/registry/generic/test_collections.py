"""Deleting: options that cannot be read, collections that are deleted, and paths that are none."""

import pytest
from server_in_process import MAPS, Caller, config_map

UNREADABLE = [
    (b"{", "couldn't get version/kind; json parse error: unexpected end of JSON input"),
    (
        b'{"gracePeriodSeconds":"x"}',
        "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
    ),
]


@pytest.mark.parametrize(("body", "why"), UNREADABLE)
async def test_unreadable_options(api: Caller, body: bytes, why: str):
    """Delete options that cannot be decoded are answered 400 with the decoder's message."""
    await api.post(MAPS, config_map("a"))
    answer = await api("DELETE", f"{MAPS}/a", body)
    assert (answer.status, answer.body["message"]) == (400, why)


async def test_options_of_any_version(api: Caller):
    """Delete options are the same in every group and version."""
    await api.post(MAPS, config_map("a"))
    options = {"kind": "DeleteOptions", "apiVersion": "apps/v9", "dryRun": ["All"]}
    assert (await api.delete(f"{MAPS}/a", options)).status == 200


async def test_deleted_collections(api: Caller):
    """A deleted collection is answered with the list as it was before, and a token for the rest."""
    for name in ("a", "b", "c"):
        await api.post(MAPS, config_map(name, finalizers=["example.com/f"], labels={"set": "x"}))
    before = await api.get(f"{MAPS}?labelSelector=set%3Dx")
    answer = await api.delete(f"{MAPS}?labelSelector=set%3Dx&limit=2")
    assert answer.body["items"] == before.body["items"][:2]
    assert answer.body["metadata"]["continue"]
    left = await api.get(f"{MAPS}?labelSelector=set%3Dx")
    marked = [
        item["metadata"]["name"] for item in left.body["items"] if "deletionTimestamp" in item["metadata"]
    ]
    assert marked == ["a", "b"]


_NO_METHOD = (405, "the server does not allow this method on the requested resource")
_NO_RESOURCE = (404, "the server could not find the requested resource")
PATHS = [
    ("DELETE", "/api/v1/configmaps", _NO_METHOD),
    ("PUT", "/api/v1/configmaps", _NO_METHOD),
    ("GET", "/api/v1/configmaps/a", _NO_RESOURCE),
    ("GET", "/api/v1/watch/configmaps/a", _NO_RESOURCE),
    ("HEAD", "/api/v1/namespaces/default", _NO_METHOD),
    ("GET", "/api/v1/namespaces/default/nodes", _NO_RESOURCE),
    ("GET", "/api/v1/namespaces/default/nodes/a", _NO_RESOURCE),
]


@pytest.mark.parametrize(("method", "path", "expected"), PATHS)
async def test_misplaced_paths(api: Caller, method: str, path: str, expected: tuple[int, str]):
    """A built-in kind where it is not is a Status; the list of all namespaces can be read only."""
    answer = await api(method, path)
    assert (answer.status, answer.body["message"]) == expected
