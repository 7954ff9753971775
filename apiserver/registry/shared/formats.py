"""Domain names, names that begin with one, and semantic versions have these formats.

Versions are as github.com/blang/semver/v4 reads them.

Source: k8s.io/apimachinery pkg/util/validation/validation.go, 1.36.
"""

import re
from collections.abc import Iterator
from typing import Final

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, duplicate, index, invalid, required

_NUMBER = r"(?:0|[1-9]\d*)"
_PART = rf"(?:{_NUMBER}|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD = "[0-9a-zA-Z-]+"

# Its groups are the three numbers and what comes before the release.
SEMVER: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_PART}(?:\.{_PART})*))?(?:\+{_BUILD}(?:\.{_BUILD})*)?",
    re.ASCII,
)
NOT_SEMVER: Final = "must be a string compatible with semver.org spec 2.0.0"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_WILDCARD = rf"\*\.{_LABEL}(\.{_LABEL})*"
_WILDCARD_TEXT = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must "
    "consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
)
_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"


def wildcard_subdomain(name: str) -> list[str]:
    texts = []
    if len(name.encode()) > names.MAX_SUBDOMAIN:
        texts.append(names.too_long_text(names.MAX_SUBDOMAIN))
    if not re.fullmatch(_WILDCARD, name):
        texts.append(names.regex_text(_WILDCARD_TEXT, _WILDCARD, "*.example.com"))
    return texts


def prefixed_path_errors(path: str, value: str) -> Iterator[FieldError]:
    """`value` is a domain, a slash, and the path of a URL."""
    if not value:
        yield required(path)
        return
    domain, _, rest = value.partition("/")
    if not domain or not rest:
        yield invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    yield from (invalid(path, domain, text) for text in names.dns1123_subdomain(domain))
    if not re.fullmatch(_PATH, rest):
        yield invalid(path, rest, names.regex_text("Invalid path", _PATH))


def domain_name_errors(path: str, value: str) -> Iterator[FieldError]:
    """The name has at least two labels, perhaps with a dot at its end."""
    if not value:
        yield required(path)
        return
    name = value.removesuffix(".")
    texts = names.dns1123_subdomain(name)
    if texts:
        yield invalid(path, name, ",".join(texts))
    elif "." not in name:
        yield invalid(path, name, "should be a domain with at least two segments separated by dots")
    else:
        for label in name.split("."):
            if texts := names.dns1123_label(label):
                yield invalid(path, label, ",".join(texts))
                return


def distinct_subdomain_errors(listed: list[str], path: str) -> Iterator[FieldError]:
    """Each item is a DNS-1123 subdomain, and there once."""
    seen: set[str] = set()
    for position, name in enumerate(listed):
        at = index(path, position)
        if name in seen:
            yield duplicate(at, name)
        else:
            yield from (invalid(at, name, text) for text in names.dns1123_subdomain(name))
        seen.add(name)
