"""Named formats: `format.dns1123Label().validate(text)`.

Source: k8s.io/apiserver/pkg/cel/library/format.go and k8s.io/apimachinery/pkg/util/validation, 1.36.
"""

from collections.abc import Callable, Mapping

from kubeskew.apimachinery import names
from kubeskew.apimachinery.cel.errors import EvaluationError
from kubeskew.apimachinery.cel.library.text_formats import is_base64, is_date, is_date_time, is_uuid
from kubeskew.apimachinery.cel.library.urls import URL
from kubeskew.apimachinery.cel.overloads import Overload, overload
from kubeskew.apimachinery.cel.values import NONE, Optional
from kubeskew.apimachinery.names import NameCheck

Check = Callable[[str], list[str]]


class Format:
    """A named format; `regex_size` is what its check costs."""

    cel_type = "kubernetes.NamedFormat"

    def __init__(self, name: str, regex_size: int, check: Check) -> None:
        self.name = name
        self.regex_size = regex_size
        self._check = check

    def validate(self, text: str) -> Optional:
        """Returns the list of errors, or `optional.none()` if the text is valid."""
        problems = self._check(text)
        return Optional(problems, True) if problems else NONE


def _parsed(message: str, fits: Callable[[str], bool]) -> Check:
    return lambda text: [] if fits(text) else [message]


def _prefix(check: NameCheck) -> Check:
    """Returns the check of a generated name's prefix, which may end with a dash."""
    return lambda text: check(text, True)


def _uri(text: str) -> list[str]:
    try:
        URL.parse(text)
    except EvaluationError as error:
        return [str(error).partition("conversion from string: ")[2]]
    return []


_DATE_TIME_SIZE = 71  # length of upstream's pattern, as the others

FORMATS_BY_NAME: Mapping[str, Format] = {
    format_.name: format_
    for format_ in (
        Format("dns1123Label", 30, names.dns1123_label),
        Format("dns1123Subdomain", 60, names.dns1123_subdomain),
        Format("dns1035Label", 30, names.dns1035_label),
        Format("qualifiedName", 60, names.qualified_name),
        Format("dns1123LabelPrefix", 30, _prefix(names.dns1123_label)),
        Format("dns1123SubdomainPrefix", 60, _prefix(names.dns1123_subdomain)),
        Format("dns1035LabelPrefix", 30, _prefix(names.dns1035_label)),
        Format("labelValue", 40, names.label_value),
        Format("uri", 1103, _uri),
        Format("uuid", 70, _parsed("does not match the UUID format", is_uuid)),
        Format("byte", 84, _parsed("invalid base64", is_base64)),
        Format("date", _DATE_TIME_SIZE, _parsed("invalid date", is_date)),
        Format("datetime", _DATE_TIME_SIZE, _parsed("invalid datetime", is_date_time)),
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
