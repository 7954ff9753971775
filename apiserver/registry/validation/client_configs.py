"""Rules of where a webhook is: a url, or a service with a path.

Source: k8s.io/apiserver/pkg/util/webhook/validation.go, 1.36.
"""

from collections.abc import Iterator
from urllib.parse import urlsplit

from apimachinery.errors import Object
from apimachinery.field import FieldError, child, invalid, required
from apimachinery.validation import names

_FORM = "; desired format: https://host[/path]"


def url_errors(url: str, path: str) -> Iterator[FieldError]:
    """The url of a webhook: https, a host, and nothing but a path."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        yield required(path, f"url must be a valid URL: {error}{_FORM}")
        return
    if parts.scheme != "https":
        yield invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    user, _, host = parts.netloc.rpartition("@")
    if not host:
        yield invalid(path, host, f"host must be specified{_FORM}")
    if user:
        yield invalid(path, user, "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(path, parts.query, "query parameters are not permitted in the URL")


def service_errors(service: Object, path: str) -> Iterator[FieldError]:
    """The service of a webhook: namespace, name, port and path."""
    if not service.get("name"):
        yield required(child(path, "name"), "service name is required")
    if not service.get("namespace"):
        yield required(child(path, "namespace"), "service namespace is required")
    port = service.get("port") or 0
    wrong = names.port(port)
    if wrong:
        yield invalid(child(path, "port"), port, f"port is not valid: {','.join(wrong)}")
    yield from _path_errors(service.get("path") or "", child(path, "path"))


def _path_errors(value: str, path: str) -> Iterator[FieldError]:
    if value in {"", "/"}:
        return
    if value == "//":
        yield invalid(path, value, "segment[0] may not be empty")
        return
    if not value.startswith("/"):
        yield invalid(path, value, "must start with a '/'")
    for position, step in enumerate(value[1:].removesuffix("/").split("/")):
        if not step:
            yield invalid(path, value, f"segment[{position}] may not be empty")
        else:
            for text in names.dns1123_subdomain(step):
                yield invalid(path, value, f"segment[{position}]: {text}")
