"""Checks names, keys and label values; each check returns the texts of errors, none if the value is valid.

Lengths are counted in bytes, as Go does.

Source: k8s.io/apimachinery pkg/util/validation and pkg/api/validate/content, about 1.36.
"""

import re
from collections.abc import Callable
from typing import Final

from kubeskew.apimachinery.go_formats import quoted
from kubeskew.apimachinery.memo import remembered

NameCheck = Callable[[str, bool], list[str]]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_UNDERSCORE = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_UNDERSCORE = rf"{_UNDERSCORE}(\.{_UNDERSCORE})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_QUALIFIED})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_C_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_ENV_NAME = "[-._a-zA-Z][-._a-zA-Z0-9]*"
_PRINTABLE_BUT_EQUALS = re.compile("[ -<>-~]+")
_PERCENT = "[0-9]+%"
_HTTP_HEADER = "[-A-Za-z0-9]+"

MAX_LABEL: Final = 63
MAX_SUBDOMAIN: Final = 253

_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character"
)
_SUBDOMAIN_UNDERSCORE_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and "
    "must start and end with an alphanumeric character"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character"
)
_NAME_PART_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character"
)
_CONFIG_KEY_TEXT = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
_C_IDENTIFIER_TEXT = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_'"
)
_ENV_NAME_TEXT = (
    "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and "
    "must not start with a digit"
)
_RELAXED_ENV_NAME_TEXT = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)
_HTTP_HEADER_TEXT = "a valid HTTP header must consist of alphanumeric characters or '-'"
_QUALIFIED_EXAMPLES = ("MyName", "my.name", "123-abc")

_COMPILED = {
    pattern: re.compile(pattern)
    for pattern in (
        _LABEL,
        _SUBDOMAIN,
        _SUBDOMAIN_UNDERSCORE,
        _LABEL_1035,
        _QUALIFIED,
        _LABEL_VALUE,
        _CONFIG_KEY,
        _C_IDENTIFIER,
        _ENV_NAME,
        _PERCENT,
        _HTTP_HEADER,
    )
}


def regex_text(message: str, pattern: str, *examples: str) -> str:
    """Shows the pattern and examples in the error for a value that does not match."""
    shown = "".join(f"'{example}', " if not n else f" or '{example}', " for n, example in enumerate(examples))
    return f"{message} ({'e.g. ' if examples else ''}{shown}regex used for validation is '{pattern}')"


def too_long_text(most: int, unit: str = "characters") -> str:
    return f"must be no more than {most} {unit}"


def range_text(least: int, most: int) -> str:
    return f"must be between {least} and {most}, inclusive"


def port(number: int) -> list[str]:
    return [] if 1 <= number <= 65535 else [range_text(1, 65535)]


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


@remembered(1 << 14)
def _matches(text: str, pattern: str) -> bool:
    """Results are remembered, because the same keys and values come again and again."""
    return _COMPILED[pattern].fullmatch(text) is not None


def _check(
    text: str, most: int, pattern: str, message: str, *examples: str, unit: str = "characters"
) -> list[str]:
    fits = _matches(text, pattern)
    if fits and (not most or len(text) <= most):  # a text that matches is ASCII
        return []
    errors = [too_long_text(most, unit)] if most and _size(text) > most else []
    if not fits:
        errors.append(regex_text(message, pattern, *examples))
    return errors


def _without_dash(name: str, prefix: bool) -> str:
    """Cuts the dash at the end of a generateName, which a suffix follows.

    As upstream, the character before it is not checked either.
    """
    return f"{name[:-2]}a" if prefix and len(name) > 1 and name.endswith("-") else name


# --- names of objects: (name, whether it is a generateName) ------------------------------------------------


def dns1123_label(name: str, prefix: bool = False) -> list[str]:
    name = _without_dash(name, prefix)
    if "." in name and _matches(name, _SUBDOMAIN):
        return [*([too_long_text(MAX_LABEL)] if len(name) > MAX_LABEL else []), "must not contain dots"]
    return _check(name, MAX_LABEL, _LABEL, _LABEL_TEXT, "my-name", "123-abc")


def dns1123_subdomain(name: str, prefix: bool = False) -> list[str]:
    return _subdomain(_without_dash(name, prefix), "characters")


def _subdomain(name: str, unit: str) -> list[str]:
    return _check(name, MAX_SUBDOMAIN, _SUBDOMAIN, _SUBDOMAIN_TEXT, "example.com", unit=unit)


def dns1123_subdomain_underscore(name: str) -> list[str]:
    """Checks a DNS search path, which may have underscores."""
    text = _SUBDOMAIN_UNDERSCORE_TEXT
    return _check(name, MAX_SUBDOMAIN, _SUBDOMAIN_UNDERSCORE, text, "example.com")


def dns1035_label(name: str, prefix: bool = False) -> list[str]:
    return _check(_without_dash(name, prefix), MAX_LABEL, _LABEL_1035, _LABEL_1035_TEXT, "my-name", "abc-123")


def path_segment(name: str, prefix: bool = False) -> list[str]:
    """Any single segment of a URL's path is valid (RBAC)."""
    if not prefix and name in {".", ".."}:
        return [f"may not be '{name}'"]
    return [f"may not contain '{bad}'" for bad in "/%" if bad in name]


def resource_name_error(name: str) -> str:
    """Returns what client-go says of a name that it cannot put into a path; empty if it can."""
    texts = path_segment(name)
    return f"invalid resource name {quoted(name)}: [{' '.join(texts)}]" if texts else ""


# --- keys and values --------------------------------------------------------------------------------------


@remembered(1 << 13)
def _is_label_value(value: str) -> bool:
    return len(value) <= MAX_LABEL and _COMPILED[_LABEL_VALUE].fullmatch(value) is not None


def label_value(value: str) -> list[str]:
    if _is_label_value(value):
        return []
    errors = [too_long_text(MAX_LABEL, "bytes")] if _size(value) > MAX_LABEL else []
    if not _matches(value, _LABEL_VALUE):
        errors.append(regex_text(_LABEL_VALUE_TEXT, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return errors


@remembered(1 << 13)
def _is_qualified(key: str) -> bool:
    return not _qualified_name(key)


def qualified_name(key: str) -> list[str]:
    """Checks `name` or `prefix/name`: label and annotation keys, finalizers, resource names."""
    return [] if _is_qualified(key) else _qualified_name(key)


def _qualified_name(key: str) -> list[str]:
    parts = key.split("/")
    if len(parts) > 2:
        text = regex_text(f"a valid label key {_NAME_PART_TEXT}", _QUALIFIED, *_QUALIFIED_EXAMPLES)
        return [f"{text} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    errors = []
    name = parts[-1]
    if len(parts) == 2:
        if not parts[0]:
            errors.append("prefix part must be non-empty")
        else:
            errors += [f"prefix part {text}" for text in _subdomain(parts[0], "bytes")]
    if not name:
        errors.append("name part must be non-empty")
    elif _size(name) > MAX_LABEL:
        errors.append(f"name part {too_long_text(MAX_LABEL, 'bytes')}")
    if not _matches(name, _QUALIFIED):
        errors.append("name part " + regex_text(_NAME_PART_TEXT, _QUALIFIED, *_QUALIFIED_EXAMPLES))
    return errors


def config_key(key: str) -> list[str]:
    errors = _check(key, MAX_SUBDOMAIN, _CONFIG_KEY, _CONFIG_KEY_TEXT, "key.name", "KEY_NAME", "key-name")
    if key == ".":
        return [*errors, "must not be '.'"]
    if key == "..":
        return [*errors, "must not be '..'"]
    if key.startswith(".."):
        return [*errors, "must not start with '..'"]
    return errors


def c_identifier(name: str) -> list[str]:
    return _check(name, 0, _C_IDENTIFIER, _C_IDENTIFIER_TEXT, "my_name", "MY_NAME", "MyName")


def env_name(name: str, relaxed: bool = True) -> list[str]:
    """Checks the name of an environment variable; `relaxed` since 1.32
    (RelaxedEnvironmentVariableValidation)."""
    if relaxed:
        return [] if _PRINTABLE_BUT_EQUALS.fullmatch(name) else [_RELAXED_ENV_NAME_TEXT]
    errors = _check(name, 0, _ENV_NAME, _ENV_NAME_TEXT, "my.env-name", "MY_ENV.NAME", "MyEnvName1")
    return errors + [text for text in config_key(name) if text.startswith("must not")]


def http_header(name: str) -> list[str]:
    return _check(name, 0, _HTTP_HEADER, _HTTP_HEADER_TEXT, "X-Header-Name")


def port_name(name: str) -> list[str]:
    errors = [too_long_text(15)] if _size(name) > 15 else []
    if not re.fullmatch("[-a-z0-9]+", name):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        errors.append("must contain at least one letter (a-z)")
    if "--" in name:
        errors.append("must not contain consecutive hyphens")
    if name and (name[0] == "-" or name[-1] == "-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def percent(value: str) -> list[str]:
    return _check(
        value,
        0,
        _PERCENT,
        "a valid percent string must be a numeric string followed by an ending '%'",
        "1%",
        "93%",
    )


def driver_name(name: str) -> list[str]:
    """Checks the name of a DRA driver: a lower-case subdomain of at most 63 characters."""
    return dns1123_subdomain(name)
