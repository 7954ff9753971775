"""Serves GET of a pod's log, from the pod's node.

Source: pkg/registry/core/pod/rest/log.go, pkg/registry/core/pod/strategy.go (LogLocation),
pkg/apis/core/validation/validation.go (ValidatePodLogOptions) and
k8s.io/apiserver/pkg/registry/generic/rest/response_checker.go, 1.36.
"""

from dataclasses import dataclass
from urllib.parse import urlencode

from kubeskew.apimachinery import errors, field
from kubeskew.apimachinery.clock import parse_timestamp, timestamp
from kubeskew.apimachinery.errors import GroupKind, StatusError
from kubeskew.apimachinery.field import FieldError
from kubeskew.apiserver.http import parameters
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.nodes.connections import container_of, pod_of
from kubeskew.apiserver.nodes.proxy import BackendResponse, DialError, send, streamed
from kubeskew.apiserver.registry.requests import websockets
from kubeskew.apiserver.registry.requests.scope import Scope

_STREAMS = ("All", "Stderr", "Stdout")
_TEXT_LIMIT = 50_000


@dataclass(frozen=True, slots=True)
class LogOptions:
    container: str
    follow: bool
    previous: bool
    timestamps: bool
    insecure: bool
    since_seconds: int | None
    since_time: str
    tail: int | None
    limit: int | None
    stream: str | None

    def query(self) -> str:
        pairs = {
            "follow": "true" if self.follow else None,
            "limitBytes": self.limit,
            "previous": "true" if self.previous else None,
            "sinceSeconds": self.since_seconds,
            "sinceTime": self.since_time or None,
            "stream": self.stream if self.stream not in {None, "All"} else None,
            "tailLines": self.tail,
            "timestamps": "true" if self.timestamps else None,
        }
        return urlencode({name: value for name, value in pairs.items() if value is not None})


async def log(request: Request, scope: Scope) -> Response:
    """The log is plain text, and empty for a pod without a node."""
    services, info = scope.services, request.info
    options = _options(request)
    splits = services.features.pods.split_log_streams
    problems = _problems(options, splits=splits)
    if problems:
        raise errors.invalid(GroupKind("", "PodLogOptions"), info.name, problems)
    pod = await pod_of(services, info.namespace, info.name)
    container = container_of(pod, options.container)
    node = pod["spec"].get("nodeName")
    if not node:
        return Response(204, b"", "")
    address = services.nodes.address(services, node, insecure=options.insecure, asked="pods")
    query = options.query()
    target = f"/containerLogs/{info.namespace}/{info.name}/{container}{f'?{query}' if query else ''}"
    try:
        answer = await send(address, "GET", target, [("Connection", "close")])
    except DialError as error:
        raise StatusError(500, "", f'Get "{address.scheme}://{address}{target}": {error}') from None
    if not 200 <= answer.status <= 206:
        raise await _failure(answer, info.name)
    plain = streamed(answer, content_type="text/plain")
    response = websockets.log_response(request, plain)
    if response is not plain and response.status != 101:
        answer.close()  # nobody reads it
    return response


async def _failure(answer: BackendResponse, name: str) -> StatusError:
    text = await answer.text(_TEXT_LIMIT)
    if answer.status == 500:
        return errors.internal(text)
    if answer.status == 400:
        return errors.bad_request(text)
    reason, message = _GENERIC.get(answer.status, ("", ""))
    if answer.status == 403:
        message = text
    if not message:
        message = (
            f"the server responded with the status code {answer.status} but did not return more information"
        )
    details = {"name": name, "kind": "pods/log"}
    return StatusError(answer.status, reason, f"{message} ( pods/log {name})", details)


_GENERIC = {
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    403: ("Forbidden", ""),
    404: ("NotFound", "the server could not find the requested resource"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
}


def _options(request: Request) -> LogOptions:
    since = request.param("sinceTime")
    if since:
        try:
            since = timestamp(parse_timestamp(since))
        except ValueError:
            text = f'parsing time "{since}" as "2006-01-02T15:04:05Z07:00": cannot parse "{since}" as "2006"'
            raise errors.bad_request(text) from None
    return LogOptions(
        container=request.param("container"),
        follow=bool(parameters.boolean(request, "follow")),
        previous=bool(parameters.boolean(request, "previous")),
        timestamps=bool(parameters.boolean(request, "timestamps")),
        insecure=bool(parameters.boolean(request, "insecureSkipTLSVerifyBackend")),
        since_seconds=parameters.integer(request, "sinceSeconds"),
        since_time=since,
        tail=parameters.integer(request, "tailLines"),
        limit=parameters.integer(request, "limitBytes"),
        stream=request.param("stream") or None,
    )


def _problems(options: LogOptions, *, splits: bool) -> list[FieldError]:
    problems = []
    if options.tail is not None and options.tail < 0:
        problems.append(field.invalid("tailLines", options.tail, "must be greater than or equal to 0"))
    if options.limit is not None and options.limit < 1:
        problems.append(field.invalid("limitBytes", options.limit, "must be greater than 0"))
    if options.since_seconds is not None and options.since_time:
        why = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        problems.append(field.forbidden(field.ROOT, why))
    elif options.since_seconds is not None and options.since_seconds < 1:
        problems.append(field.invalid("sinceSeconds", options.since_seconds, "must be greater than 0"))
    if not splits:
        if options.stream is not None:
            problems.append(field.forbidden("stream", "may not be specified"))
        return problems
    stream = options.stream or "All"
    if stream not in _STREAMS:
        problems.append(field.not_supported("stream", stream, _STREAMS))
    if stream != "All" and options.tail is not None:
        why = "`tailLines` and specific `stream` are mutually exclusive for now"
        problems.append(field.forbidden(field.ROOT, why))
    return problems
