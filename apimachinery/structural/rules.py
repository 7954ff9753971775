"""What of schemas depends on the release and its gates."""

from dataclasses import dataclass
from typing import Final

from apimachinery.gates import FeatureGates
from apimachinery.versions import DEFAULT_VERSION

_NEW_FORMATS_SINCE: Final = 34


@dataclass(frozen=True, slots=True)
class Rules:
    """Chosen once per server; `minor` selects the CEL environment."""

    minor: int
    ratcheting: bool
    name_formats: bool  # k8s-short-name, k8s-long-name

    @classmethod
    def of(cls, gates: FeatureGates) -> "Rules":
        """The rules of a server with these gates."""
        minor = gates.version.minor
        return cls(minor, gates.enabled("CRDValidationRatcheting"), minor >= _NEW_FORMATS_SINCE)


NEWEST: Final = Rules.of(FeatureGates(DEFAULT_VERSION))
