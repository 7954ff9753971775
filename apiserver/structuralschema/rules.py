"""Holds the decisions about schemas that depend on the release and its gates."""

from dataclasses import dataclass
from typing import Final

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import DEFAULT_VERSION, Version

_NAME_FORMATS_SINCE: Final = 34
_NUMERIC_FORMATS_SINCE: Final = 36  # older releases ignore int32, int64, float and double
_FORMAT_WARNINGS_SINCE: Final = 34
_SCALARS_SHOWN_SINCE: Final = 35  # (from memory) older releases show the type where a rule failed


@dataclass(frozen=True, slots=True)
class Rules:
    """Chosen once per server."""

    version: Version
    ratcheting: bool
    name_formats: bool  # k8s-short-name, k8s-long-name
    numeric_formats: bool
    format_warnings: bool
    shows_scalars: bool  # a failed rule shows the value, if it is a scalar, instead of its type

    @property
    def minor(self) -> int:
        """Returns what selects the environment of CEL expressions."""
        return self.version.minor

    @classmethod
    def of(cls, gates: FeatureGates) -> "Rules":
        """Returns the rules of a server with these gates."""
        minor = gates.version.minor
        return cls(
            gates.version,
            gates.enabled("CRDValidationRatcheting"),
            name_formats=minor >= _NAME_FORMATS_SINCE,
            numeric_formats=minor >= _NUMERIC_FORMATS_SINCE,
            format_warnings=minor >= _FORMAT_WARNINGS_SINCE,
            shows_scalars=minor >= _SCALARS_SHOWN_SINCE,
        )


NEWEST: Final = Rules.of(FeatureGates(DEFAULT_VERSION))
