"""Options in a query or body that cannot be read are refused, also several wrong ones at once."""

import pytest
from server_in_process import MAPS, Caller, close_server, config_map, open_server

_NO_NUMBER = 'strconv.ParseInt: parsing "": invalid syntax'
_MISMATCH = "fieldSelector metadata.name doesn't match requested name"
_NO_KEY = "continue key is not valid: invalid character 'i' looking for beginning of value"
_BOTH = "specifying resource version is not allowed when using continue"
READS = {
    "?limit=": (400, _NO_NUMBER),
    "?timeoutSeconds=": (400, _NO_NUMBER),
    "?limit=1&resourceVersion=5&continue=abc": (
        400,
        f"invalid continue token: {_NO_KEY}",
    ),
    "?resourceVersion=5&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0": (400, _BOTH),
    "?timeout=5": (
        400,
        'invalid timeout specified in the request URL - time: missing unit in duration "5"',
    ),
    "?timeout=5x": (
        400,
        'invalid timeout specified in the request URL - time: unknown unit "x" in duration "5x"',
    ),
    "?timeout=-": (400, 'invalid timeout specified in the request URL - time: invalid duration "-"'),
}


@pytest.mark.parametrize("query", READS)
async def test_queries_of_lists(api: Caller, query):
    """Empty numbers are none, a token is looked at before the revision that may not go with it."""
    answer = await api.get(MAPS + query)

    assert (answer.status, answer.body["message"]) == READS[query]


@pytest.mark.parametrize("timeout", ["-5s", ".5m", "+1h2m3.5s", "1µs1m", "0"])
async def test_durations(api: Caller, timeout):
    """A timeout is anything that Go takes for a duration; one that is none at all means the server's own."""
    assert (await api.get(f"{MAPS}?timeout={timeout}".replace("+", "%2B"))).status == 200


@pytest.mark.parametrize("selector", ["metadata.name=b", "metadata.namespace=default"])
async def test_watching_one_object_by_fields(api: Caller, selector):
    """A path that names the object goes with no selector but one for that name."""
    path = "/api/v1/watch/namespaces/default/configmaps/a?fieldSelector="

    refused = await api.get(path + selector.replace("=", "%3D"))

    assert (refused.status, refused.body["message"]) == (400, _MISMATCH)


PATCH_OPTIONS = {
    ("apply", "?dryRun=x&force=true"): {
        "fieldManager": "Required value: is required for apply patch",
        "dryRun": 'Unsupported value: ["x"]: supported values: "All"',
    },
    ("merge", "?force=&fieldValidation=x"): {
        "force": "Forbidden: may not be specified for non-apply patch",
        "fieldValidation": 'Unsupported value: "x": supported values: "", "Ignore", "Strict", "Warn"',
    },
}


@pytest.mark.parametrize(("kind", "query"), PATCH_OPTIONS)
async def test_patch_options(api: Caller, kind, query):
    """All that is wrong with the options of a patch is reported at once."""
    refused = await api.patch(f"{MAPS}/a{query}", {}, kind)

    causes = refused.body["details"]["causes"]
    assert {cause["field"]: cause["message"] for cause in causes} == PATCH_OPTIONS[kind, query]


_POLICY = (
    'propagationPolicy: Unsupported value: "": supported values: "Foreground", "Background", "Orphan", "nil"'
)
_SCHEME = 'scheme "pkg/apis/meta/internalversion/scheme/register.go:27"'
DELETIONS = {
    b"{": "couldn't get version/kind; json parse error: unexpected end of JSON input",
    b'{"kind":5}': "couldn't get version/kind; json parse error: json: cannot unmarshal number into "
    "Go struct field .kind of type string",
    b'{"apiVersion":"a/b/c"}': "unexpected GroupVersion string: a/b/c",
    b'{"kind":"Pod"}': f'no kind "Pod" is registered for version "v1" in {_SCHEME}',
    b'{"kind":"Pod","apiVersion":"x/v2"}': f'no kind "Pod" is registered for version "x/v2" in {_SCHEME}',
    b'{"kind":"Status"}': "converting (v1.Status) to (v1.DeleteOptions): unknown conversion",
    b'{"dryRun":"All"}': "json: cannot unmarshal string into Go struct field DeleteOptions.dryRun "
    "of type []string",
}


@pytest.mark.parametrize("body", DELETIONS, ids=lambda body: body.decode())
async def test_delete_options(api: Caller, body):
    """A body that cannot be decoded as DeleteOptions is answered 400 with the decoder's message."""
    for path in (MAPS, f"{MAPS}/a"):
        refused = await api.delete(path, body)
        assert (refused.status, refused.body["message"]) == (400, DELETIONS[body])


async def test_empty_propagation_policy(api: Caller):
    """An empty policy is one that nobody knows, unlike none."""
    by_query = await api.delete(f"{MAPS}/a?propagationPolicy=")
    by_body = await api.delete(f"{MAPS}/a", {"propagationPolicy": ""})

    for refused in (by_query, by_body):
        assert refused.body["message"] == f'DeleteOptions.meta.k8s.io "" is invalid: {_POLICY}'


async def test_older_servers_on_delete_options():
    """Before 1.35 options that cannot be read are the server's fault."""
    server = await open_server(34)
    try:
        refused = await Caller(server).delete(f"{MAPS}/a", b"{")
    finally:
        await close_server(server)

    assert (refused.status, refused.body.get("reason")) == (500, None)


async def test_paths_with_nothing_between_slashes(api: Caller):
    """Slashes behind a path do not count for upstream's router; before or within it they make another one."""
    await api.post(MAPS, config_map("a"))

    for path in (f"{MAPS}/", f"{MAPS}//", f"{MAPS}/a/", "/api/", "/api/v1/", "/apis/apps/v1//", "/version/"):
        assert (await api.get(path)).status == 200
    for path in (f"/{MAPS}", "/apis//", "/healthz/", "/openapi/v2/"):
        assert (await api.get(path)).content_type.startswith("text/plain")
    for path in ("/api//v1/configmaps", "/api/v1//configmaps", "/apis/apps/v9/x", "/apis/apps/v9/"):
        assert (await api.get(path)).body["reason"] == "NotFound"
    everywhere = await api.get("/api/v1/namespaces//configmaps")
    assert everywhere.body["kind"] == "ConfigMapList"


async def test_a_special_prefix_alone(api: Caller):
    """A path that ends with `watch` does not even say what it is about."""
    broken = await api.get("/api/v1/watch")

    assert broken.status == 500
    assert broken.raw == (
        b'Internal Server Error: "/api/v1/watch": failed to create RequestInfo: '
        b"unable to determine kind and namespace from url, /api/v1/watch\n"
    )


async def test_repeated_keys(api: Caller):
    """Keys given twice are reported in every value, even in one that another replaced; unknown ones once."""
    body = b'{"metadata":{"name":"x"},"data":{"k":"1","k":"2"},"data":{"l":""},"odd":1,"odd":2}'

    refused = await api.post(f"{MAPS}?fieldValidation=Strict", body)

    assert refused.body["message"].partition("strict decoding error: ")[2] == (
        'duplicate field "data.k", duplicate field "data", unknown field "odd"'
    )


async def test_many_warnings(api: Caller):
    """Warnings end when they are long enough."""
    names = {f"odd{number}{'x' * 300}": 1 for number in range(30)}

    made = await api.raw("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "x"}, **names})

    warnings = [text for name, text in made.headers if name == "Warning"]
    assert len(warnings) == 4096 // 256
    assert {len(text) for text in warnings} == {len('299 - ""') + 256 + len("\\")}
