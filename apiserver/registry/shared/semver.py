"""Holds the pattern of semantic versions, as github.com/blang/semver/v4 reads them."""

import re
from typing import Final

_NUMBER = r"(?:0|[1-9]\d*)"
_PART = rf"(?:{_NUMBER}|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD = "[0-9a-zA-Z-]+"

# Its groups are the three numbers and what comes before the release.
SEMVER: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_PART}(?:\.{_PART})*))?(?:\+{_BUILD}(?:\.{_BUILD})*)?",
    re.ASCII,
)
NOT_SEMVER: Final = "must be a string compatible with semver.org spec 2.0.0"
