"""Answers of a recorded sequence in a form that any faithful server gives again, and their comparison."""

import copy
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from transcripts import Run, filled, lookup, remove

_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_VERSIONED = re.compile(r"resource ?version", re.IGNORECASE)
_AGES = ("Age", "Last Seen", "First Seen")


class Normaliser:
    """Numbers what differs from run to run: uids, revisions, saved names."""

    def __init__(self, run: Run) -> None:
        sequence = run.sequence
        self._run, self._vars, self._mode = run.name, sequence["vars"], sequence["rv"]
        self._uids: dict[str, int] = {}
        self._revisions: dict[Any, set[str]] = {}
        self._hashes: dict[str, str] = {}  # of pod templates and of revisions of controllers
        self._saved = [(str(value), f"${{{name}}}") for name, value in run.saved.items() if _is_name(value)]
        for answer, step in zip(run.answers, sequence["steps"], strict=False):
            if step.get("compare", "full") in {"full", "causes"} and "pick" not in step:
                self._learn(answer)
        if self._mode == "object":
            self._ranks = {uid: _rank(seen) for uid, seen in self._revisions.items()}
        else:
            ranks = _rank({one for seen in self._revisions.values() for one in seen})
            self._ranks = dict.fromkeys(self._revisions, ranks)
        self._all = {value: rank for ranks in self._ranks.values() for value, rank in ranks.items()}

    def _learn(self, node: Any) -> None:
        if isinstance(node, list):
            for child in node:
                self._learn(child)
        if not isinstance(node, dict) or node.get("type") == "BOOKMARK":
            return
        meta = node.get("metadata")
        if isinstance(meta, dict) and meta.get("resourceVersion") and not _is_list(node):
            self._revisions.setdefault(meta.get("uid"), set()).add(meta["resourceVersion"])
        for key in ("pod-template-hash", "controller-revision-hash"):
            if isinstance(value := node.get(key), str) and value not in self._hashes:
                self._hashes[value] = f"<hash {len(self._hashes) + 1}>"
        for child in node.values():
            self._learn(child)

    def answer(self, answer: Any, step: dict[str, Any]) -> Any:
        """A raw answer as it was recorded."""
        if answer is None:
            return None
        answer = copy.deepcopy(answer)
        out = {
            key: value
            for key, value in answer.items()
            if key in {"status", "type", "ended", "failed", "note"}
        }
        ignored = filled(step.get("ignore", []), self._vars, partial=True)
        if "warnings" in answer and "#warnings" not in ignored:
            out["warnings"] = sorted(self._text(warning) for warning in answer["warnings"])
        if "text" in answer:
            out["text"] = self._text(answer["text"])
        if "events" in answer:
            out["events"] = [
                [
                    event["type"],
                    self._body(event["object"], ignored, step, bookmark=event["type"] == "BOOKMARK"),
                ]
                for event in answer["events"]
            ]
        if "body" in answer:
            out["body"] = self._body(answer["body"], ignored, step)
        return out

    def _body(self, body: Any, ignored: list[str], step: dict[str, Any], *, bookmark: bool = False) -> Any:
        body = self._tree(body, bookmark=bookmark)
        for path in ignored:
            if path != "#warnings":
                remove(body, path)
        if isinstance(body, dict) and body.get("kind") == "Status":
            _order_causes(body)
        if "pick" in step:
            return {path: lookup(body, filled(path, self._vars, partial=True)) for path in step["pick"]}
        return body

    def _tree(self, node: Any, *, bookmark: bool = False) -> Any:
        if isinstance(node, list):
            return [self._tree(one) for one in node]
        if isinstance(node, str):
            return self._text(node)
        if not isinstance(node, dict):
            return node
        node = dict(node)
        if isinstance(node.get("metadata"), dict):
            loose = bookmark or _is_list(node) or self._mode == "drop"
            node["metadata"] = self._metadata(dict(node["metadata"]), loose=loose)
        if node.get("kind") == "Table":
            columns = node.get("columnDefinitions") or []
            ages = [at for at, column in enumerate(columns) if column["name"] in _AGES]
            for row in node.get("rows") or []:
                row["cells"] = ["<age>" if at in ages else cell for at, cell in enumerate(row["cells"])]
        if "storageVersionHash" in node:
            node["storageVersionHash"] = "<hash>"
        return {self._text(key): self._tree(value) for key, value in node.items()}

    def _metadata(self, meta: dict[str, Any], *, loose: bool) -> dict[str, Any]:
        if meta.get("creationTimestamp", "") is None:
            del meta["creationTimestamp"]
        if meta.get("resourceVersion"):
            known = self._ranks.get(meta.get("uid"), {}).get(meta["resourceVersion"])
            meta["resourceVersion"] = f"<rv {known}>" if known and not loose else "<rv>"
        if meta.get("continue"):
            meta["continue"] = "<continue>"
        if isinstance(meta.get("managedFields"), list):  # ordered by times of one second
            meta["managedFields"] = sorted(meta["managedFields"], key=_manager)
        prefix, name = meta.get("generateName"), meta.get("name", "")
        if prefix and name.startswith(prefix) and re.fullmatch(r"[a-z0-9]{5}", name[len(prefix) :]):
            meta["name"] = prefix + "<random>"
        return meta

    def _text(self, text: str) -> str:
        text = text.replace(self._run, "${run}").replace(self._run.capitalize(), "${Run}")
        for value, name in self._saved:
            text = text.replace(value, name)
        for value, name in self._hashes.items():
            text = text.replace(value, name)
        text = _UUID.sub(lambda at: f"<uid {self._uids.setdefault(at[0], len(self._uids) + 1)}>", text)
        text = _TIME.sub(lambda at: "<microtime>" if at[1] else "<time>", text)
        if _VERSIONED.search(text) and " " in text:
            text = re.sub(
                r"\b\d+\b", lambda at: f"<rv {self._all[at[0]]}>" if at[0] in self._all else "<n>", text
            )
        return text


def _is_name(value: Any) -> bool:
    if not isinstance(value, str) or not 5 <= len(value) < 64 or value.isdigit():
        return False
    return not _UUID.search(value) and not _TIME.search(value)


def _is_list(node: dict[str, Any]) -> bool:
    return "items" in node or str(node.get("kind", "")).endswith("List") or node.get("kind") == "Table"


def _manager(entry: dict[str, Any]) -> list[str]:
    names = [str(entry.get(field, "")) for field in ("manager", "operation", "subresource", "apiVersion")]
    return [*names, str(sorted(entry.get("fieldsV1", {})))]


def _rank(values: Iterable[str]) -> dict[str, int]:
    ordered = sorted(values, key=lambda one: (0, int(one), "") if one.isdigit() else (1, 0, one))
    return {value: at for at, value in enumerate(ordered, 1)}


def _order_causes(status: dict[str, Any]) -> None:
    """Causes have no order; a message that lists several of them has none either."""
    causes = (status.get("details") or {}).get("causes")
    if causes:
        causes.sort(key=lambda one: json.dumps(one, sort_keys=True))
        if len(causes) > 1:
            message = status.get("message", "")
            status["message"] = re.sub(r"\[.*\]\s*$", "[<causes>]", message, flags=re.DOTALL)


def differing(run: Run) -> list[str]:
    """Returns what differs from the recording, step by step."""
    normaliser, sequence = Normaliser(run), run.sequence
    found = []
    for number, step in enumerate(sequence["steps"]):
        if "expect" not in step:
            continue
        raw = run.answers[number] if number < len(run.answers) else {"failed": "not reached"}
        got = normaliser.answer(raw, {**step, "ignore": sequence["ignore"] + step.get("ignore", [])})
        level = step.get("compare", "full")
        found += [
            f"step {number + 1}: {difference}"
            for difference in _differences(_reduced(step["expect"], level), _reduced(got, level))
        ]
    return found


def unexplained(found: Iterable[str], pattern: str | None) -> list[str]:
    """Returns the differences that the pattern does not speak of; all if there is none."""
    return [difference for difference in found if pattern is None or not re.search(pattern, difference)]


def _reduced(answer: Any, level: str) -> Any:
    """Returns the part of an answer that counts at this level."""
    if answer is None or level == "full":
        return answer
    out = {key: answer[key] for key in ("status", "failed", "note") if key in answer}
    if level == "reason":
        out["type"] = answer.get("type")
        if isinstance(answer.get("body"), dict):
            kept = ("kind", "apiVersion", "reason", "code")
            out["body"] = {key: answer["body"][key] for key in kept if key in answer["body"]}
        if "events" in answer:
            out["events"] = [event if isinstance(event, str) else event[0] for event in answer["events"]]
    return out


def _differences(want: Any, got: Any, path: str = "") -> Iterator[str]:
    if type(want) is type(got) is dict:
        for key in [*want, *(one for one in got if one not in want)]:
            at = f"{path}.{key}" if path else str(key)
            if key not in got:
                yield f"{at}: missing, expected {want[key]!r}"
            elif key not in want:
                yield f"{at}: not expected, got {got[key]!r}"
            else:
                yield from _differences(want[key], got[key], at)
    elif type(want) is type(got) is list:
        for at in range(max(len(want), len(got))):
            if at >= len(got) or at >= len(want):
                yield f"{path}: expected {len(want)} items, got {len(got)}"
                return
            yield from _differences(want[at], got[at], f"{path}[{at}]")
    elif want != got or isinstance(want, bool) != isinstance(got, bool):
        yield f"{path}: expected {want!r}, got {got!r}"


def apart(run: Run, other: Run) -> list[str]:
    """Returns what differs between two runs of one sequence, step by step, at the level of each step."""
    sequence = run.sequence
    ways = Normaliser(run), Normaliser(other)
    found = []
    for number, step in enumerate(sequence["steps"]):
        compared = {**step, "ignore": sequence["ignore"] + step.get("ignore", [])}
        raw = [one.answers[number] if number < len(one.answers) else None for one in (run, other)]
        answers = [way.answer(answer, compared) for way, answer in zip(ways, raw, strict=True)]
        left, right = (_reduced(answer, step.get("compare", "full")) for answer in answers)
        found += [f"step {number + 1}: {difference}" for difference in _differences(left, right)]
    return found
