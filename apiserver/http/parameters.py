"""Query parameters as options, field selectors among them, parsed as Go does and checked as upstream does.

Sources: k8s.io/apimachinery/pkg/fields/selector.go, 1.36;
k8s.io/apimachinery/pkg/apis/meta/internalversion/validation and meta/v1/validation, 1.36.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kubeskew.apimachinery import errors, field
from kubeskew.apimachinery.errors import GroupKind
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.go_formats import parse_int
from kubeskew.apimachinery.memo import remembered
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.labels import LabelSelector, SelectorError
from kubeskew.apiserver.http.request import Request
from kubeskew.apiserver.object_meta import manager_character_errors
from kubeskew.apiserver.unreadable import UNSAFE

_TERM = re.compile(r"(?P<field>.*?)(?P<operator>!=|==|=)(?P<value>.*)", re.DOTALL)
_SPECIAL = {"\\": "\\\\", ",": "\\,", "=": "\\="}
_META = "meta.k8s.io"
_MAX_MANAGER = 128
EXACT, NOT_OLDER_THAN = "Exact", "NotOlderThan"


def parse_int32s(texts: Sequence[str]) -> list[int]:
    """Values may be lists with commas. Raises 400."""
    try:
        return [parse_int(word) for text in texts for word in text.split(",")]
    except ValueError as error:
        raise errors.bad_request(str(error)) from None


@dataclass(frozen=True, slots=True)
class Term:
    """The field has the value, or (`negated`) has not. An absent field is empty."""

    field: str
    value: str
    negated: bool = False

    def __str__(self) -> str:
        escaped = "".join(_SPECIAL.get(char, char) for char in self.value)
        return f"{self.field}{'!=' if self.negated else '='}{escaped}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All terms must hold."""

    terms: tuple[Term, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "FieldSelector":
        """Raises SelectorError."""
        return _parse(text)

    def matches(self, fields: Mapping[str, str]) -> bool:
        for term in self.terms:  # noqa: SIM110 - lists ask all objects, and a generator each takes twice as long
            if (fields.get(term.field, "") == term.value) is term.negated:
                return False
        return True

    def is_empty(self) -> bool:
        return not self.terms

    def exact_match(self, field: str) -> str | None:
        """None if no term on `field` requires a value; else the first one counts."""
        for term in self.terms:
            if term.field == field and not term.negated:
                return term.value
        return None

    def transformed(self, convert: Callable[[str, str], tuple[str, str]]) -> "FieldSelector":
        """Maps each field and value by `convert` (aliases; it raises for unknown labels)."""
        return FieldSelector(
            tuple(Term(*convert(term.field, term.value), term.negated) for term in self.terms)
        )

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))


EVERYTHING = FieldSelector()


@remembered(1024)
def _parse(text: str) -> FieldSelector:
    terms = []
    for part in sorted(_parts(text)):
        if not part:
            continue
        found = _TERM.fullmatch(part)
        if found is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        field, value = found["field"], _unescaped(found["value"])
        if field or value:
            terms.append(Term(field, value, found["operator"] == "!="))
    return FieldSelector(tuple(terms))


def _parts(text: str) -> Iterator[str]:
    """Splits at commas that no backslash escapes."""
    start, escaped = 0, False
    for position, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == ",":
            yield text[start:position]
            start = position + 1
    yield text[start:]


def _unescaped(value: str) -> str:
    chars, escaped = [], False
    for char in value:
        if escaped:
            if char not in _SPECIAL:
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{char}")
            escaped = False
        elif char == "\\":
            escaped = True
            continue
        elif char in _SPECIAL:
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        chars.append(char)
    if escaped:
        raise SelectorError("invalid field selector: invalid escape sequence: \\")
    return "".join(chars)


def integer(request: Request, name: str) -> int | None:
    """None if it is not given; raises 400, for an empty one too."""
    if name not in request.query:
        return None
    try:
        return parse_int(request.param(name))
    except ValueError as error:
        raise errors.bad_request(str(error)) from None


def boolean(request: Request, name: str) -> bool | None:
    """None if it is not given: all but `false` and `0` is true."""
    if name not in request.query:
        return None
    return request.query[name][0].lower() not in {"false", "0"}


def refuse(kind: str, problems: Sequence[FieldError]) -> None:
    """Raises 422 for options of `kind` if there are problems."""
    if problems:
        raise errors.invalid(GroupKind(_META, kind), "", problems)


class ListOptions(NamedTuple):
    label_selector: str
    field_selector: str
    watch: bool
    bookmarks: bool
    resource_version: str
    match: str
    timeout_seconds: int | None
    limit: int
    continue_token: str
    send_initial_events: bool | None

    @property
    def begins_in_log(self) -> bool:
        """True if a watch begins exactly at a revision, however old, that the log has kept.

        Upstream, whose watch cache forgets, refuses this match of a watch; here it reads the history.


        """
        exact = self.watch and self.match == EXACT and self.resource_version.strip("0").isdecimal()
        return exact and self.send_initial_events is None and not self.continue_token


_PLAIN_LIST = ListOptions("", "", False, False, "", "", None, 0, "", None)


def list_options(request: Request, *, watch: bool, watch_list: bool) -> ListOptions:
    """`watch_list` is the gate WatchList. Raises 400 and 422.

    With the gate, a watch that begins with the existing objects asks for initial events, so that a bookmark
    marks their end (internalversion/defaults.go, SetListOptionsDefaults).
    """
    if not watch and not request.query:
        return _PLAIN_LIST
    options = ListOptions(
        request.param("labelSelector"),
        request.param("fieldSelector"),
        watch,
        bool(boolean(request, "allowWatchBookmarks")),
        request.param("resourceVersion"),
        request.param("resourceVersionMatch"),
        integer(request, "timeoutSeconds"),
        max(0, integer(request, "limit") or 0),
        request.param("continue"),
        boolean(request, "sendInitialEvents"),
    )
    is_legacy = watch and options.resource_version in {"", "0"} and options.send_initial_events is None
    if watch_list and is_legacy and not options.match:
        options = options._replace(send_initial_events=True, match=NOT_OLDER_THAN)
    problems = _watch_problems(options, watch_list) if watch else _list_problems(options)
    if problems:
        selectors(options)  # they are read before
    refuse("ListOptions", problems)
    return options


def selectors(options: ListOptions) -> tuple[LabelSelector, FieldSelector]:
    """Raises 400."""
    try:
        return LabelSelector.parse(options.label_selector), FieldSelector.parse(options.field_selector)
    except SelectorError as error:
        raise errors.bad_request(str(error)) from None


def _list_problems(options: ListOptions) -> list[FieldError]:
    problems, match = [], options.match
    path = "resourceVersionMatch"
    if match:
        if not options.resource_version:
            why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            problems.append(field.forbidden(path, why))
        if options.continue_token:
            why = "resourceVersionMatch is forbidden when continue is provided"
            problems.append(field.forbidden(path, why))
        if match not in {EXACT, NOT_OLDER_THAN}:
            problems.append(field.not_supported(path, match, (EXACT, NOT_OLDER_THAN, "")))
        if match == EXACT and options.resource_version == "0":
            why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            problems.append(field.forbidden(path, why))
    if options.send_initial_events is not None:
        problems.append(field.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return problems


def _watch_problems(options: ListOptions, watch_list: bool) -> list[FieldError]:
    problems, match = [], options.match
    path = "resourceVersionMatch"
    if options.begins_in_log:
        return []
    if options.send_initial_events is not None:
        if match != NOT_OLDER_THAN:
            why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            problems.append(field.forbidden(path, why))
        if not watch_list:
            why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
            problems.append(field.forbidden("sendInitialEvents", why))
    if match:
        if options.send_initial_events is None:
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            problems.append(field.forbidden(path, why))
        if match != NOT_OLDER_THAN:
            problems.append(field.not_supported(path, match, (NOT_OLDER_THAN,)))
    if options.continue_token and match:
        why = "resourceVersionMatch is forbidden when continue is provided"
        problems.append(field.forbidden(path, why))
    return problems


class WriteOptions(NamedTuple):
    dry_run: bool
    field_manager: str
    field_validation: str
    force: bool | None = None


def write_options(request: Request, kind: str, default_validation: str = "Warn") -> WriteOptions:
    """`kind` is CreateOptions or UpdateOptions. Raises 422."""
    return _checked_options(request, kind, default_validation, [])


def patch_options(request: Request, *, apply: bool) -> WriteOptions:
    """Raises 422."""
    problems = []
    if apply and not request.param("fieldManager"):
        problems.append(field.required("fieldManager", "is required for apply patch"))
    if not apply and "force" in request.query:
        problems.append(field.forbidden("force", "may not be specified for non-apply patch"))
    return _checked_options(request, "PatchOptions", "Warn", problems)


def _checked_options(
    request: Request, kind: str, default_validation: str, problems: list[FieldError]
) -> WriteOptions:
    if not request.query and not problems:  # nearly always
        return WriteOptions(False, "", default_validation)
    dry_run = request.query.get("dryRun") or []
    manager, validation = request.param("fieldManager"), request.param("fieldValidation")
    problems += dry_run_problems(dry_run)
    if len(manager.encode()) > _MAX_MANAGER:
        problems.append(field.too_long("fieldManager", _MAX_MANAGER))
    problems += manager_character_errors(manager, "fieldManager")
    if validation not in {"", "Ignore", "Warn", "Strict"}:
        problems.append(field.not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
    refuse(kind, problems)
    return WriteOptions(bool(dry_run), manager, validation or default_validation, boolean(request, "force"))


def given_options(request: Request) -> Object:
    """Admission sees the options of a create, update or patch as the client gave them."""
    given: Object = {}
    if dry_run := request.query.get("dryRun"):
        given["dryRun"] = list(dry_run)
    for name in ("fieldManager", "fieldValidation"):
        if value := request.param(name):
            given[name] = value
    return given


def dry_run_problems(values: Sequence[str]) -> list[FieldError]:
    """A dry run is asked for by exactly `All`."""
    if all(value == "All" for value in values):
        return []
    return [field.not_supported("dryRun", list(values), ("All",))]


def _unsafe_problems(options: Object, *, dry_runs: bool) -> list[FieldError]:
    """The option to delete unreadable objects stands alone: each other one is an error."""
    others = ["propagationPolicy", "orphanDependents", "gracePeriodSeconds", "preconditions"]
    if not dry_runs:
        others.insert(0, "dryRun")
    given = (name for name in others if options.get(name) not in (None, []))
    return [field.invalid(UNSAFE, True, f"cannot be set together with .{name}") for name in given]


def _preconditions(request: Request) -> Object | None:
    given = {name: next(iter(request.query.get(name) or ()), "") for name in ("uid", "resourceVersion")}
    return {name: value for name, value in given.items() if value} or None


def delete_options(
    request: Request, body: Object | None, *, unsafe: bool = False, unsafe_dry_runs: bool = False
) -> Object:
    """Takes the DeleteOptions of the body, or of the query if there is none. Raises 400 and 422.

    The option to delete unreadable objects is only known if `unsafe`, for dry runs if `unsafe_dry_runs`.


    """
    if body is not None:
        options = {name: value for name, value in body.items() if name not in {"kind", "apiVersion"}}
    else:
        options = {
            "gracePeriodSeconds": integer(request, "gracePeriodSeconds"),
            "orphanDependents": boolean(request, "orphanDependents"),
            "propagationPolicy": next(iter(request.query.get("propagationPolicy") or ()), None),
            "dryRun": request.query.get("dryRun"),
            "preconditions": _preconditions(request),
            UNSAFE: boolean(request, UNSAFE) or None,
        }
        options = {name: value for name, value in options.items() if value is not None}
    if not unsafe:
        options.pop(UNSAFE, None)
    problems = []
    policy = options.get("propagationPolicy")
    if policy is not None and options.get("orphanDependents") is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        problems.append(field.invalid("propagationPolicy", policy, why))
    if policy not in {None, "Background", "Foreground", "Orphan"}:
        known = ("Foreground", "Background", "Orphan", "nil")
        problems.append(field.not_supported("propagationPolicy", policy, known))
    problems += dry_run_problems(options.get("dryRun") or [])
    if options.get(UNSAFE):
        problems += _unsafe_problems(options, dry_runs=unsafe_dry_runs)
    refuse("DeleteOptions", problems)
    return options
