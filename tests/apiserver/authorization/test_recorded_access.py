"""Questions of who may do what, as real API servers of each release answered them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict
from server_in_process import ADMIN, Caller, close_server, open_server

from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.http.request import Peer, Request
from kubeskew.apiserver.server import APIServer

sys.path.append(str(Path(__file__).parents[3] / "hack" / "differential"))

from access import identities
from access_answers import normal

RECORDINGS = sorted((Path(__file__).parents[2] / "data" / "access").glob("*.json"))
_BY_TOKEN = {f"Bearer {each.token}": each for each in identities() if each.token}


def _caller(headers: dict[str, Any]) -> Peer | None:
    """The one who asks: an administrator, who may act as all, without credentials of its own."""
    if "Authorization" not in headers:
        return ADMIN
    token = headers.pop("Authorization")
    return Peer(_BY_TOKEN[token].name, _BY_TOKEN[token].groups) if token else None


async def _answer(server: APIServer, check: dict[str, Any]) -> Any:
    named = dict(check["headers"])
    peer = _caller(named)
    body = json.dumps(check["body"]).encode() if "body" in check else b""
    request = Request.of(check["method"], check["path"], None, body, peer)
    headers = CIMultiDict[str](request.headers)
    for name, value in named.items():
        for each in (value,) if isinstance(value, str) else value:
            headers.add(name.lower(), each)
    headers.setdefault("content-type", "application/json")
    request.headers = headers
    response = await server.handle(request)
    assert isinstance(response.body, bytes)
    return normal(response.status, response.body.decode())


@pytest.mark.parametrize("text", [pytest.param(file.read_text(), id=file.stem) for file in RECORDINGS])
async def test_access_is_granted_as_real_servers_grant_it(text: str):
    """Each question gets the real server's decision, reason and error."""
    recording = json.loads(text)
    server = await open_server(Version.parse(recording["release"]))
    try:
        for path, body in recording["objects"]:
            made = await Caller(server).post(path, body)
            assert made.status == 201 or "namespaces/default" in path, made.raw
        apart = []
        for check in recording["checks"]:
            ours = json.loads(json.dumps(await _answer(server, check)))
            if ours != check["answer"]:
                apart.append((check, ours))
        assert not apart
    finally:
        await close_server(server)
