# ruff: noqa: E501 - upstream's texts stand whole
"""Names and keys, in upstream's words."""

from typing import Any

import pytest

from kubeskew.apimachinery import names

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (names.dns1123_subdomain("a.b-c.1"), []),
        (names.dns1123_subdomain("Upper"), [SUBDOMAIN]),
        (names.dns1123_subdomain("a" * 254), ["must be no more than 253 characters"]),
        (names.dns1123_subdomain("web-", True), []),
        (names.dns1123_subdomain("web.-", True), []),
        (names.dns1123_label("--", True), []),
        (names.dns1123_label("-a-", True)[0][:30], "a lowercase RFC 1123 label mus"),
        (names.dns1123_label("a..b")[0][:30], "a lowercase RFC 1123 label mus"),
        (names.dns1123_label("a.b"), ["must not contain dots"]),
        (
            names.dns1123_label("a." * 40 + "b"),
            ["must be no more than 63 characters", "must not contain dots"],
        ),
        (names.label_value("a" * 64), ["must be no more than 63 bytes"]),
        (names.qualified_name("/x"), ["prefix part must be non-empty"]),
        (names.qualified_name("example.com/x"), []),
        (names.config_key(".."), ["must not be '..'"]),
        (names.port_name("a--b"), ["must not contain consecutive hyphens"]),
        (names.path_segment("a/b%c"), ["may not contain '/'", "may not contain '%'"]),
        (names.env_name("a b"), []),
        (names.env_name("1a", relaxed=False) != [], True),
        (names.port(0), ["must be between 1 and 65535, inclusive"]),
    ],
)
def test_checks_of_names(texts: Any, wanted: Any) -> None:
    """A check returns upstream's texts of what is wrong with a name, none if it is valid."""
    assert texts == wanted
