"""What schemathesis loads beside a group's OpenAPI document: smaller schemas, and what counts as a fault.

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
# the type of the body (or of any), the code, and the whole message.
_APPLY, _STRATEGIC = "application/apply-patch+yaml", "application/strategic-merge-patch+json"
_WRITES = "POST|PUT|PATCH|DELETE"
_UPSTREAMS = [
    ("POST|PUT", "", 500, "resourceVersion should not be set on objects to be created"),
    ("PATCH", "", 500, "resourceVersion should not be set on objects to be created"),
    (
        "GET|PUT|PATCH|DELETE",
        "",
        500,
        r'(?:.*: )?strconv\.ParseUint: parsing ".*": (?:invalid syntax|value out of range)',
    ),
    ("PATCH", "", 500, "object has no apiVersion field"),
    ("GET", "", 500, "Component not found: .*"),
    ("PATCH", _STRATEGIC, 500, r"map: .* does not contain declared merge key: \w+"),
    ("PATCH", _STRATEGIC, 500, r"expected a map, got .*"),
    ("PATCH", _STRATEGIC, 500, r"unknown patch type"),
    ("PATCH", _STRATEGIC, 500, r"list element types are not identical:? ?.*"),
    ("PATCH", _STRATEGIC, 500, r".*content is not a list.*"),
    ("PATCH", _STRATEGIC, 500, r"cannot merge lists without merge key .*"),
    ("PATCH", _APPLY, 500, r"failed to create typed patch object \(.*\): .*"),
    ("PATCH", _APPLY, 500, r"failed to create manager for existing fields: .*"),
    ("PATCH", _APPLY, 500, r"failed to convert new object \(.*\): .*"),
    # Webhooks, conversions and servers that the fuzzing itself has registered and that do not exist.
    (_WRITES, "", 500, r'Internal error occurred: failed calling webhook ".*": .*'),
    ("GET|" + _WRITES, "", 500, r"conversion webhook for .* failed: .*"),
]


def _is_upstreams(method: str, content_type: str, code: int, message: str) -> bool:
    return any(
        re.fullmatch(methods, method)
        and kind in content_type
        and code == wanted
        and re.fullmatch(pattern, message, re.DOTALL)
        for methods, kind, wanted, pattern in _UPSTREAMS
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
                kept = [one for one in place["parameters"] if one.get("name") not in _ENDLESS_PARAMETERS]
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
    content_type = response.request.headers.get("Content-Type") or ""
    if _is_upstreams(case.method.upper(), str(content_type), response.status_code, message):
        return
    body = response.request.body
    body = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body or "")
    fault = [case.method, response.request.url, body[:20_000], response.status_code, response.text[:2000]]
    with Path(os.environ["FUZZ_FAULTS"]).open("a") as faults:
        faults.write(json.dumps(fault) + "\n")
    raise AssertionError(f"{response.status_code}: {response.text[:300]}")
