"""Answers reviews: objects that are questions about users and their rights; never stored.

Sources: k8s.io/kubernetes/pkg/registry/{authentication,authorization}/*/rest.go,
pkg/apis/authorization/validation/validation.go, k8s.io/apiserver/pkg/endpoints/handlers/create.go, 1.36.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from kubeskew.apimachinery import field, names
from kubeskew.apimachinery.clock import Clock, timestamp
from kubeskew.apimachinery.errors import GroupKind, bad_request, invalid
from kubeskew.apimachinery.field import OMITTED, ErrorType, FieldError
from kubeskew.apimachinery.golang.roundtrip import normalise
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.label_requirements import SelectorError
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.apiserver.authentication import TokenError
from kubeskew.apiserver.authentication.authenticator import UnionAuthenticator
from kubeskew.apiserver.authorization import Authorizer
from kubeskew.apiserver.http import parameters
from kubeskew.apiserver.http.media_types import WITHOUT_TABLES
from kubeskew.apiserver.http.parameters import FieldSelector
from kubeskew.apiserver.http.request import Request, RequestInfo, Response
from kubeskew.apiserver.registry.requests import responses
from kubeskew.apiserver.registry.requests.scope import (
    Scope,
    admit_posted,
    check_namespace,
    managed,
    read_object,
    wipe_system_metadata,
    write_of,
)
from kubeskew.apiserver.user import User

_AUTHORIZATION = "authorization.k8s.io"
_SIGNS = {"In": "=", "NotIn": "!="}  # of what field selectors can say
_ATTRIBUTES = ("verb", "group", "version", "resource", "subresource", "namespace", "name")


@dataclass(frozen=True, slots=True)
class Reviewer:
    """`user` is the one who asks."""

    user: User
    tokens: UnionAuthenticator
    authorizer: Authorizer
    clock: Clock


def self_subject(review: Object, reviewer: Reviewer) -> Object:
    about = {name: review[name] for name in ("apiVersion", "kind")}
    created = {"creationTimestamp": timestamp(reviewer.clock.now())}
    return {**about, "metadata": created, "status": {"userInfo": _info(reviewer.user)}}


def token(review: Object, reviewer: Reviewer) -> Object:
    """Audiences are those that the token is for."""
    spec = review.get("spec") or {}
    if not spec.get("token"):
        raise bad_request("token is required for TokenReview in authentication")
    try:
        found = reviewer.tokens.identify(spec["token"], spec.get("audiences") or reviewer.tokens.audiences)
    except TokenError as error:
        given = review.get("status") or {}  # upstream leaves the rest of what was sent
        kept = {name: given[name] for name in ("user", "audiences") if given.get(name)}
        return {**review, "status": {"user": {}, **kept, "error": str(error)}}
    status = {"authenticated": True, "user": _info(found.user), "audiences": list(found.audiences)}
    return {**review, "status": status}


def subject_access(review: Object, reviewer: Reviewer) -> Object:
    spec = [*_spec_errors(review), *_subject_errors(review), *_attribute_errors(review)]
    _check([*spec, *_metadata_errors(review)])
    return _decided(review, _subject(review["spec"]), reviewer)


def local_subject_access(review: Object, reviewer: Reviewer) -> Object:
    spec = [*_spec_errors(review), *_subject_errors(review), *_attribute_errors(review)]
    _check([*spec, *_local_errors(review)])
    return _decided(review, _subject(review["spec"]), reviewer)


def self_subject_access(review: Object, reviewer: Reviewer) -> Object:
    _check([*_spec_errors(review), *_attribute_errors(review), *_metadata_errors(review)])
    return _decided(review, reviewer.user, reviewer)


def self_subject_rules(review: Object, reviewer: Reviewer) -> Object:
    namespace = (review.get("spec") or {}).get("namespace") or ""
    if not namespace:
        raise bad_request("no namespace on request")
    rules = reviewer.authorizer.rules(reviewer.user, namespace)
    status = {
        "resourceRules": list(rules.resources),
        "nonResourceRules": list(rules.paths),
        "incomplete": rules.incomplete,
    }
    if rules.error:
        status["evaluationError"] = rules.error
    about = {name: review[name] for name in ("apiVersion", "kind")}
    return {**about, "metadata": {}, "spec": {}, "status": status}


Review = Callable[[Object, Reviewer], Object]

REVIEWS: Mapping[str, Review] = {
    "selfsubjectreviews.authentication.k8s.io": self_subject,
    "tokenreviews.authentication.k8s.io": token,
    "subjectaccessreviews.authorization.k8s.io": subject_access,
    "localsubjectaccessreviews.authorization.k8s.io": local_subject_access,
    "selfsubjectaccessreviews.authorization.k8s.io": self_subject_access,
    "selfsubjectrulesreviews.authorization.k8s.io": self_subject_rules,
}


def _info(user: User) -> Object:
    info: Object = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    return {**info, "extra": {key: list(values) for key, values in user.extra.items()}}


def _subject(spec: Object) -> User:
    extra = {key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()), extra)


def _decided(review: Object, user: User, reviewer: Reviewer) -> Object:
    decision = reviewer.authorizer.authorize(user, _question(review["spec"]))
    status: Object = {"allowed": decision.allowed, "denied": decision.denied, "reason": decision.reason}
    if ignored := "; ".join(_ignored(review["spec"].get("resourceAttributes") or {})):
        status["evaluationError"] = ignored
    return {**review, "status": status}


def _ignored(asked: Object) -> Iterator[str]:
    """Names the selectors of which something cannot be read (BuildEvaluationError in
    pkg/registry/authorization/util/helpers.go)."""
    for name, is_readable in (("fieldSelector", _is_field_term), ("labelSelector", _is_label_term)):
        selector = asked.get(name) or {}
        requirements = selector.get("requirements") or ()
        readable = [is_readable(requirement) for requirement in requirements]
        if requirements and not all(readable):
            partially = "partially " if any(readable) else ""
            yield f"spec.resourceAttributes.{name} {partially}ignored due to parse error"
        elif selector.get("rawSelector") and not _is_text_readable(name, selector["rawSelector"]):
            yield f"spec.resourceAttributes.{name} ignored due to parse error"


def _is_text_readable(name: str, text: str) -> bool:
    try:
        FieldSelector.parse(text) if name == "fieldSelector" else LabelSelector.parse(text)
    except SelectorError:
        return False
    return True


def _is_field_term(requirement: Object) -> bool:
    return requirement.get("operator") in _SIGNS and len(requirement.get("values") or ()) == 1


def _is_label_term(requirement: Object) -> bool:
    try:
        LabelSelector.from_object({"matchExpressions": [requirement]})
    except SelectorError:
        return False
    return True


def _question(spec: Object) -> RequestInfo:
    plain = spec.get("nonResourceAttributes")
    if plain is not None:
        return RequestInfo(False, plain.get("path") or "", plain.get("verb") or "")
    asked = spec["resourceAttributes"]
    what: dict[str, str] = {name: asked.get(name) or "" for name in _ATTRIBUTES}
    for name in ("field", "label"):
        what[f"{name}_selector"] = _selector(asked.get(f"{name}Selector") or {})
    return RequestInfo(True, "", what.pop("verb"), parts=(), **what)


def _selector(selector: Object) -> str:
    """Clients would write the selector in this form; what cannot be said in it is left out."""
    if selector.get("rawSelector"):
        return str(selector["rawSelector"])
    return ",".join(
        f"{requirement.get('key', '')}{_SIGNS[requirement['operator']]}{requirement['values'][0]}"
        for requirement in selector.get("requirements") or ()
        if _is_field_term(requirement)
    )


def _check(problems: list[FieldError]) -> None:
    if problems:
        # The kind is empty upstream as well: internal objects have lost theirs.
        raise invalid(GroupKind(_AUTHORIZATION, ""), "", problems)


def _spec_errors(review: Object) -> Iterator[FieldError]:
    spec = review.get("spec") or {}
    resource, plain = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and plain is not None:
        why = "cannot be specified in combination with resourceAttributes"
        yield FieldError(ErrorType.INVALID, "spec.nonResourceAttributes", _internal(plain), why)
    if resource is None and plain is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield FieldError(ErrorType.INVALID, "spec.resourceAttributes", None, why)


def _attribute_errors(review: Object) -> Iterator[FieldError]:
    attributes = (review.get("spec") or {}).get("resourceAttributes") or {}
    for name in ("fieldSelector", "labelSelector"):
        selector, path = attributes.get(name), f"spec.resourceAttributes.{name}"
        if selector is None:
            continue
        raw, requirements = selector.get("rawSelector"), selector.get("requirements") or []
        if raw and requirements:
            why = "may not specified at the same time as requirements"
            yield FieldError(ErrorType.INVALID, f"{path}.rawSelector", raw, why)
        if not raw and not requirements:
            why = f"when {path} is specified, requirements or rawSelector is required"
            yield FieldError(ErrorType.REQUIRED, f"{path}.requirements", OMITTED, why)
        for position, requirement in enumerate(requirements):
            at = f"{path}.requirements[{position}]"
            if name == "fieldSelector":
                if not requirement.get("key"):
                    yield FieldError(ErrorType.REQUIRED, f"{at}.key", OMITTED, "must be specified")
                yield from _values_errors(requirement, at)
            else:
                yield from _values_errors(requirement, at)
                yield from _label_errors(requirement, at)


def _label_errors(requirement: Object, path: str) -> Iterator[FieldError]:
    key = requirement.get("key") or ""
    yield from (field.invalid(f"{path}.key", key, text) for text in names.qualified_name(key))
    for position, value in enumerate(requirement.get("values") or ()):
        at = f"{path}.values[{position}]"
        yield from (field.invalid(at, value, text) for text in names.label_value(value))


def _values_errors(requirement: Object, path: str) -> Iterator[FieldError]:
    """Unknown operators are let through: newer clients may know more."""
    operator, values = requirement.get("operator"), requirement.get("values") or []
    if operator in {"In", "NotIn"} and not values:
        why = "must be specified when `operator` is 'In' or 'NotIn'"
        yield FieldError(ErrorType.REQUIRED, f"{path}.values", OMITTED, why)
    if operator in {"Exists", "DoesNotExist"} and values:
        why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield FieldError(ErrorType.FORBIDDEN, f"{path}.values", OMITTED, why)


def _internal(plain: Object) -> Object:
    """Go prints the internal type, whose fields have no JSON names."""
    return {"Path": plain.get("path") or "", "Verb": plain.get("verb") or ""}


def _subject_errors(review: Object) -> Iterator[FieldError]:
    spec = review.get("spec") or {}
    if not spec.get("user") and not spec.get("groups"):
        why = "at least one of user or group must be specified"
        yield FieldError(ErrorType.INVALID, "spec.user", "", why)


def _metadata_errors(
    review: Object, why: str = "must be empty", allowed: tuple[str, ...] = ()
) -> Iterator[FieldError]:
    metadata = review["metadata"]
    if any(value and name not in {"managedFields", *allowed} for name, value in metadata.items()):
        yield FieldError(ErrorType.INVALID, "metadata", metadata, why)


def _local_errors(review: Object) -> Iterator[FieldError]:
    yield from _metadata_errors(review, "must be empty except for namespace", ("namespace",))
    spec = review.get("spec") or {}
    resource, plain = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    path, namespace = "spec.resourceAttributes.namespace", (resource or {}).get("namespace") or ""
    if resource is not None and namespace != review["metadata"].get("namespace", ""):
        yield FieldError(ErrorType.INVALID, path, namespace, "must match metadata.namespace")
    if plain is not None:
        why = "disallowed on this kind of request"
        yield FieldError(ErrorType.INVALID, "spec.nonResourceAttributes", _internal(plain), why)


def _drop_selectors(review: Object) -> None:
    attributes = (review.get("spec") or {}).get("resourceAttributes") or {}
    for name in ("fieldSelector", "labelSelector"):
        attributes.pop(name, None)


async def post_review(request: Request, scope: Scope) -> Response:
    """The review comes back with 201, its status filled in."""
    form = responses.form_of(request, WITHOUT_TABLES)
    options = parameters.write_options(request, "CreateOptions")
    question = await read_object(request, scope, options.field_validation)
    check_namespace(question, scope, request.info.namespace)
    wipe_system_metadata(question)
    write = write_of(request, scope, dry_run=options.dry_run)
    if not scope.services.features.requests.weighs_selectors:
        _drop_selectors(question)
    question = managed(request, scope, None, question, write, options.field_manager)
    await admit_posted(request, scope, question, dry_run=options.dry_run)
    services = scope.services
    reviewer = Reviewer(request.user, services.authenticator, services.authorizer, services.environment.clock)
    answer = REVIEWS[scope.resource.storage_resource](question, reviewer)
    return responses.render(request, scope, normalise(answer, scope.resource.schema), form, 201)
