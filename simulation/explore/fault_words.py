"""Checks which faults an entry of known findings names: `KIND`, or `KIND: WORDS` with words of its line.

The words begin with a component, a call, or both, as the line of a fault has them:

    crash: kubelet/                                     of any kubelet
    late-events: scheduler:
    error: update resourcequotas/status
    stale-watch: scheduler: DELETED event of pods
    crash: NodePrepareResources                         a call of a driver

A misspelt word is found in no line, and nobody would notice the entry that never tells of anything. What
resembles nothing known is let be: the resource of a definition of the user's, or words of an effect.
"""

import re
from collections.abc import Collection
from difflib import get_close_matches

from kubeskew.apimachinery.faults.calls import PLUGIN_CALLS, VERBS
from kubeskew.apimachinery.faults.names import plurals
from kubeskew.apimachinery.faults.reading import EVENTS, KINDS_OF_COMPONENTS
from kubeskew.apimachinery.suggestions import did_you_mean
from kubeskew.conformance.errors import ScenarioError
from kubeskew.simulation.faults.plan import Kind

_NEAR = 0.8  # so much alike are a word and a misspelt one
_COMPONENT = re.compile(r"(?P<kind>[a-z-]+)(?:-\d+)?(?:/[^\s:]*)?(?:: ?(?P<call>.*))?")
_EVENT = re.compile(r"(?P<what>\S+) event of (?P<resource>[^\s,/]*)")
_REQUEST = re.compile(r"(?P<what>any(?= write| verb)|[^\s,]+)(?: (?:write |verb )?(?P<resource>[^\s,/]*))?")


def check_fault(text: str, where: str) -> None:
    """Raises ScenarioError unless there are faults of this kind whose line may have these words."""
    kind, _, words = text.partition(": ")
    _check_kind(kind, where)
    component = _COMPONENT.fullmatch(words)
    if component:
        _check(component["kind"], (*KINDS_OF_COMPONENTS, *VERBS), "component or verb", where)
    call = (component["call"] or "") if component else words
    if event := _EVENT.match(call):
        _check(event["what"], EVENTS, "event", where)
        _check_resource(event["resource"], where)
    elif request := _REQUEST.match(call):
        for verb in request["what"].split("/"):
            _check(verb, (*VERBS, *PLUGIN_CALLS), "verb", where)
        _check_resource(request["resource"] or "", where)


def _check_kind(kind: str, where: str) -> None:
    """Raises ScenarioError unless there are faults of this kind."""
    known = [each.value for each in Kind]
    if kind not in known:
        hint = did_you_mean(kind, known)
        raise ScenarioError(f"{where}: there is no kind of fault {kind}; there are {', '.join(known)}{hint}")


def _check_resource(name: str, where: str) -> None:
    """Checks a resource against the API's, unless it is one of another group, which its name then says."""
    if "." not in name:
        _check(name, plurals(), "resource", where)


def _check(word: str, known: Collection[str], what: str, where: str) -> None:
    near = get_close_matches(word, sorted(known), n=1, cutoff=_NEAR)
    if word not in known and near:
        raise ScenarioError(f"{where}: there is no {what} {word}; did you mean {near[0]}?")
