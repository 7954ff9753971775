"""Requests below, at and above each limit, as real API servers of each release answered them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from server_in_process import ADMIN, Caller, close_server, open_server

from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.http.request import Request
from kubeskew.apiserver.server import APIServer

sys.path.append(str(Path(__file__).parents[3] / "hack" / "differential"))

from limits import LIMITS, PREPARED, Step, of_release, said

RECORDINGS = sorted((Path(__file__).parents[2] / "data" / "limits").glob("*.json"))


async def _answer(server: APIServer, step: Step) -> list[Any]:
    body = step["body"] if isinstance(step["body"], str) else json.dumps(step["body"])
    headers = {"Content-Type": "application/json", **step["headers"]}
    response = await server.handle(Request.of(step["method"], step["path"], headers, body.encode(), ADMIN))
    assert isinstance(response.body, bytes)
    return said(response.status, response.body.decode())


@pytest.mark.parametrize(
    "release",
    [
        pytest.param(each, id=each["release"])
        for each in map(json.loads, (file.read_text() for file in RECORDINGS))
    ],
)
async def test_limits_are_those_of_real_servers(release: dict[str, Any]):
    """Each request has the code, reason and message of the real server."""
    version = Version.parse(release["release"])
    server = await open_server(version)
    try:
        for path, body in PREPARED:
            assert (await Caller(server).post(path, body)).status in {201, 409}
        apart = []
        for limit in of_release(version.minor):
            for number, real in release["limits"][limit.what].items():
                ours = await _answer(server, limit.make(int(number)))
                if json.loads(json.dumps(ours)) != real:
                    apart.append((limit.what, number, real, ours))
        assert not apart
    finally:
        await close_server(server)


def test_every_limit_is_recorded_where_it_is():
    """A limit's requests are refused above it, and not below, at each release that has it."""
    for release in map(json.loads, (file.read_text() for file in RECORDINGS)):
        minor = Version.parse(release["release"]).minor
        known = {limit.what: limit for limit in LIMITS if minor >= limit.since}
        assert release["limits"].keys() == known.keys()
        for what, answers in release["limits"].items():
            codes = {int(number): answer[0] for number, answer in answers.items()}
            most = min(codes) if known[what].searched else known[what].most
            assert all((code < 400) == (number <= most) for number, code in codes.items()), (what, codes)


def test_the_page_has_what_is_recorded():
    """docs/limits.md is what the recordings come to."""
    sys.path.append(str(Path(__file__).parents[3] / "hack" / "documents"))
    import limits_page

    assert limits_page.PAGE.read_text() == limits_page.page(), "run hack/documents/limits_page.py"
