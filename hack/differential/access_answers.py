"""Makes answers about access comparable: without what a real server draws, or walks through in any order."""

import json
import re
from typing import Any

_REASON = re.compile(r'(RBAC: allowed by (?:Cluster)?RoleBinding) ".*', re.DOTALL)
# The rules that a user does not have come in the order of a walk through a map.
_MISSING = re.compile(r"\{[^}]*\}")
# UPSTREAM: <carry> rules and a reason of the fork whose sources the programs were built from; a path of ours.
_NOT_SHARED = ("/.well-known", "endpointslices/restricted", "/kubeskew/")
_CARRIED = re.compile(r"proxy (?:verb|subresource) changed to unsafeproxy")
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RESOLVED = re.compile(r"RBAC: \[([^\]]*)\]")


def normal(status: int, text: str) -> Any:
    """Returns what is compared of an answer: of a review its status, of an error all, of others the code.

    Of several bindings that allow something a real server names the first of a walk through a map.
    """
    try:
        body = json.loads(text)
    except ValueError:
        return [status, text if status >= 400 else ""]
    if not isinstance(body, dict):
        return [status]
    if str(body.get("kind", "")).endswith(("AccessReview", "RulesReview")):
        return [status, _reviewed(body.get("status") or {})]
    if status < 400 or status == 422:
        return [status]
    if body.get("kind") == "Status":
        body["message"] = _UID.sub("<uid>", _sorted(body.get("message", "")))
        return [status, {key: body.get(key) for key in ("message", "reason", "details")}]
    return [status, body]


def _reviewed(status: dict[str, Any]) -> dict[str, Any]:
    found = dict(status)
    if "reason" in found:
        found["reason"] = _reason(found["reason"])
        if not found["reason"]:
            del found["reason"]
    if "evaluationError" in found:
        found["evaluationError"] = sorted(found["evaluationError"].strip("[]").split(", "))
    for name in ("resourceRules", "nonResourceRules"):
        if name in found:
            rules = [
                each
                for each in found[name] or []
                if not any(part in json.dumps(each) for part in _NOT_SHARED)
            ]
            found[name] = sorted(rules, key=lambda rule: json.dumps(rule, sort_keys=True))
    return found


def _reason(text: str) -> str:
    """Returns a reason with what comes in the order of a walk through a map sorted or left out."""
    text = _REASON.sub(r"\1", _CARRIED.sub("", text).strip("\n"))
    return _RESOLVED.sub(lambda match: f"RBAC: {sorted(match[1].split(', '))}", text)


def _sorted(message: str) -> str:
    message = _reason(message)
    rules = sorted(_MISSING.findall(message))
    if not rules or "attempting to grant" not in message:
        return message
    head, _, errors = _MISSING.sub("", message).partition("; resolution errors: ")
    return " ".join((head.strip(), *rules, *sorted(errors.strip("[]").split(", "))))
