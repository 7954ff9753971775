"""Hooks that schemathesis loads next to a group's OpenAPI document: smaller schemas, and what counts as a
fault.

Environment: `FUZZ_SEED`, a number; `FUZZ_FAULTS`, a file that gets one JSON line per fault.
"""

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import schemathesis

_PROPERTIES = 8  # of a schema, chosen by chance: whole pods take minutes to make
_ENDLESS = ("/exec", "/attach", "/portforward", "/log", "/proxy", "/proxy/{path}")
_ENDLESS_PARAMETERS = {"watch", "follow", "timeoutSeconds", "sendInitialEvents"}

# Where upstream answers a client's mistake with a 5xx, and so do we: docs/fidelity.md names them. The method,
# a part of the URL, the type of the body (or of any), and the whole message; the code is always 500.
_APPLY, _STRATEGIC = "application/apply-patch+yaml", "application/strategic-merge-patch+json"
_NO_NUMBER = r'(?:.*: )?strconv\.ParseUint: parsing ".*": (?:invalid syntax|value out of range)'
_UPSTREAMS = [
    ("POST|PUT|PATCH", "", "", "resourceVersion should not be set on objects to be created"),
    ("GET", "[?&]resourceVersion=", "", _NO_NUMBER),
    ("PUT|PATCH|DELETE", "", "", _NO_NUMBER),
    ("PATCH", "", "", "object has no apiVersion field"),
    ("POST", "/binding", "", r"\[?target\..*"),
    (
        "POST|PUT|PATCH",
        "/services",
        "",
        "Internal error occurred: failed to allocate requested HealthCheck .*",
    ),
    ("PUT|PATCH", "/services", "", r"duplicate nodePort: \{\w+ \d+\}"),
    ("PATCH", "", _STRATEGIC, r"map: .* does not contain declared merge key: \w+"),
    ("PATCH", "", _STRATEGIC, r"expected a map, got .*"),
    ("PATCH", "", _STRATEGIC, r"unknown patch type"),
    ("PATCH", "", _STRATEGIC, r"list element types are not identical:? ?.*"),
    ("PATCH", "", _STRATEGIC, r".*content is not a list.*"),
    ("PATCH", "", _STRATEGIC, r"cannot merge lists without merge key .*"),
    ("PATCH", "", _APPLY, r"failed to create typed patch object \(.*\): .*"),
    ("PATCH", "", _APPLY, r"failed to create manager for existing fields: .*"),
    ("PATCH", "", _APPLY, r"failed to convert new object \(.*\): .*"),
]


def _is_upstreams(method: str, url: str, content_type: str, message: str) -> bool:
    return any(
        re.fullmatch(methods, method)
        and re.search(part, url)
        and kind in content_type
        and re.fullmatch(pattern, message, re.DOTALL)
        for methods, part, kind, pattern in _UPSTREAMS
    )


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:
    """Leave out what does not end, and most of what is too large."""
    paths = raw_schema["paths"]
    for path in [path for path in paths if "/watch/" in path or path.endswith(_ENDLESS)]:
        del paths[path]
    for item in paths.values():
        for place in (item, *(one for one in item.values() if isinstance(one, dict))):
            if "parameters" in place:
                kept = [
                    parameter
                    for parameter in place["parameters"]
                    if parameter.get("name") not in _ENDLESS_PARAMETERS
                ]
                place["parameters"] = kept
    chance = random.Random(int(os.environ["FUZZ_SEED"]))
    for schema in raw_schema.get("components", {}).get("schemas", {}).values():
        _shorten(schema, chance)


def _shorten(schema: dict[str, Any], chance: random.Random) -> None:
    properties = schema.get("properties", {})
    if len(properties) > _PROPERTIES:
        kept = {"apiVersion", "kind", "metadata", "spec", *schema.get("required", ())}
        kept |= set(chance.sample(sorted(properties), _PROPERTIES))
        schema["properties"] = {name: value for name, value in properties.items() if name in kept}


@schemathesis.check
def no_fault_of_ours(context: Any, response: Any, case: Any) -> None:
    """No 5xx but upstream's."""
    if response.status_code < 500:
        return
    try:
        message = json.loads(response.text)["message"]
    except (ValueError, TypeError, KeyError):
        message = response.text
    sent = response.request
    content_type, url = str(sent.headers.get("Content-Type") or ""), str(sent.url)
    if response.status_code == 500 and _is_upstreams(case.method.upper(), url, content_type, message):
        return
    body = sent.body
    body = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body or "")
    fault = [case.method, url, body[:20_000], response.status_code, response.text[:2000]]
    with Path(os.environ["FUZZ_FAULTS"]).open("a") as faults:
        faults.write(json.dumps(fault) + "\n")
    raise AssertionError(f"{response.status_code}: {response.text[:300]}")
