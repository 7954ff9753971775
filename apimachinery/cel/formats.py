"""Named formats: `format.dns1123Label().validate(text)`.

Source: k8s.io/apiserver/pkg/cel/library/format.go and k8s.io/apimachinery/pkg/util/validation, 1.36.
"""

import base64
import binascii
import re
import uuid
from collections.abc import Callable, Mapping

from apimachinery.cel.errors import EvaluationError
from apimachinery.cel.overloads import Overload, overload
from apimachinery.cel.times import timestamp
from apimachinery.cel.urls import URL
from apimachinery.cel.values import NONE, Optional

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character"
)
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character"
)
_DNS1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_DNS1035_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character"
)
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_QUALIFIED_MESSAGE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character"
)
_LABEL_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_LABEL_VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character"
)

Check = Callable[[str], list[str]]


class Format:
    """A named format; `regex_size` is what its check costs."""

    cel_type = "kubernetes.NamedFormat"

    def __init__(self, name: str, regex_size: int, check: Check) -> None:
        self.name = name
        self.regex_size = regex_size
        self._check = check

    def validate(self, text: str) -> Optional:
        """The list of what is wrong, or none."""
        problems = self._check(text)
        return Optional(problems, True) if problems else NONE


def _example(message: str, pattern: str, *examples: str) -> str:
    given = " or ".join(f"'{example}'" for example in examples)
    listed = given if len(examples) < 2 else given.replace(" or ", ",  or ", 0)
    return f"{message} (e.g. {listed}, regex used for validation is '{pattern}')"


def _label(text: str) -> list[str]:
    return _limited(text, 63, _LABEL, _example(_LABEL_MESSAGE, _LABEL, "my-name", "123-abc"))


def _subdomain(text: str) -> list[str]:
    return _limited(text, 253, _SUBDOMAIN, _example(_SUBDOMAIN_MESSAGE, _SUBDOMAIN, "example.com"))


def _dns1035(text: str) -> list[str]:
    return _limited(text, 63, _DNS1035, _example(_DNS1035_MESSAGE, _DNS1035, "my-name", "abc-123"))


def _label_value(text: str) -> list[str]:
    message = _example(_LABEL_VALUE_MESSAGE, _LABEL_VALUE, "MyValue", "my_value", "12345")
    return _limited(text, 63, _LABEL_VALUE, message, ", or ")


def _limited(text: str, limit: int, pattern: str, message: str, _joint: str = "") -> list[str]:
    problems = [f"must be no more than {limit} bytes"] if len(text.encode()) > limit else []
    if not re.fullmatch(pattern, text):
        problems.append(message)
    return problems


def _prefix(check: Check) -> Check:
    """A generated name's prefix may end with a dash."""
    return lambda text: check(text[:-1] + "a" if text.endswith("-") and len(text) > 1 else text)


def _qualified(text: str) -> list[str]:
    problems: list[str] = []
    prefix, slash, name = text.rpartition("/")
    if slash and prefix == "":
        problems.append("prefix part must be non-empty")
    elif slash:
        problems += [f"prefix part {problem}" for problem in _subdomain(prefix)]
    if text.count("/") > 1:
        message = _example(
            f"a valid label key {_QUALIFIED_MESSAGE}", _QUALIFIED, "MyName", "my.name", "123-abc"
        )
        return [f"{message} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    if name == "":
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not re.fullmatch(_QUALIFIED, name):
        problems.append(
            "name part " + _example(_QUALIFIED_MESSAGE, _QUALIFIED, "MyName", "my.name", "123-abc")
        )
    return problems


def _parsed(message: str, parse: Callable[[str], object]) -> Check:
    def check(text: str) -> list[str]:
        try:
            parse(text)
        except (ValueError, binascii.Error, EvaluationError):
            return [message]
        return []

    return check


def _uri(text: str) -> list[str]:
    try:
        URL.parse(text)
    except EvaluationError as error:
        return [str(error).partition("conversion from string: ")[2]]
    return []


def _byte(text: str) -> None:
    base64.b64decode(text, validate=True)


def _date(text: str) -> None:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        raise ValueError(text)
    timestamp(text + "T00:00:00Z")


def _uuid(text: str) -> None:
    if not re.fullmatch(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", text):
        raise ValueError(text)
    uuid.UUID(text)


FORMATS_BY_NAME: Mapping[str, Format] = {
    each.name: each
    for each in (
        Format("dns1123Label", 30, _label),
        Format("dns1123Subdomain", 60, _subdomain),
        Format("dns1035Label", 30, _dns1035),
        Format("qualifiedName", 60, _qualified),
        Format("dns1123LabelPrefix", 30, _prefix(_label)),
        Format("dns1123SubdomainPrefix", 60, _prefix(_subdomain)),
        Format("dns1035LabelPrefix", 30, _prefix(_dns1035)),
        Format("labelValue", 40, _label_value),
        Format("uri", 1241, _uri),
        Format("uuid", 71, _parsed("does not match the UUID format", _uuid)),
        Format("byte", 98, _parsed("invalid base64", _byte)),
        Format("date", 126, _parsed("invalid date", _date)),
        Format("datetime", 126, _parsed("invalid datetime", timestamp)),
    )
}


def _named(name: str) -> Optional:
    found = FORMATS_BY_NAME.get(name)
    return Optional(found, True) if found else NONE


def _constant(value: Format) -> Callable[[], Format]:
    return lambda: value


FORMATS: tuple[Overload, ...] = (
    overload("format.named(string) optional(kubernetes.NamedFormat)", _named),
    overload("kubernetes.NamedFormat.validate(string) optional(list(string))", Format.validate),
    *(
        overload(f"format.{name}() kubernetes.NamedFormat", _constant(value))
        for name, value in FORMATS_BY_NAME.items()
    ),
)
