"""Environments: the names and functions of expressions, by Kubernetes version.

New expressions may use a feature one minor after it came, stored ones at once. So after a rollback no
expression uses a feature that the server does not know.

Source: k8s.io/apiserver/pkg/cel/environment (base.go, environment.go), 1.36.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from kubeskew.apimachinery.cel import mutations, types
from kubeskew.apimachinery.cel.authorizer import AUTHORIZER, AUTHORIZER_SELECTORS
from kubeskew.apimachinery.cel.declarations import Declared, declared_of
from kubeskew.apimachinery.cel.estimator import Overrides
from kubeskew.apimachinery.cel.features import LanguageFeatures
from kubeskew.apimachinery.cel.library import kubernetes, lists
from kubeskew.apimachinery.cel.library.kubernetes import FORMATS
from kubeskew.apimachinery.cel.library.network import MISSING_INNER_NETWORKS, NETWORKS
from kubeskew.apimachinery.cel.library.standard import STANDARD
from kubeskew.apimachinery.cel.library.strings import REGEX, SPACED_FORMAT, STRICT_OFFSETS, strings
from kubeskew.apimachinery.cel.overloads import Functions, Overload
from kubeskew.apimachinery.cel.parser import macros
from kubeskew.apimachinery.cel.parser.macros import Macros
from kubeskew.apimachinery.cel.release import Release
from kubeskew.apimachinery.cel.types import Type
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version, is_between

LIMIT = 1_000_000  # per call, unless the caller says otherwise


@dataclass(frozen=True, slots=True)
class Library:
    """Functions and macros of the minors from `since` up to, but without, `until`."""

    since: int
    functions: tuple[Overload, ...] = ()
    macros: Macros = field(default_factory=dict)
    until: int | None = None


LIBRARIES = (
    Library(0, STANDARD, macros.STANDARD),
    Library(0, (*kubernetes.URLS, *REGEX, *lists.LISTS)),
    Library(0, strings(0), until=29),
    Library(27, AUTHORIZER),
    Library(28, (*lists.OPTIONALS, *kubernetes.QUANTITIES), macros.OPTIONALS),
    Library(29, (*strings(2), *lists.SETS)),
    Library(30, NETWORKS),
    Library(31, (*FORMATS, *AUTHORIZER_SELECTORS)),
    Library(32, lists.TWO_VARIABLES, macros.TWO_VARIABLES),
    Library(33, kubernetes.SEMVERS),
    Library(34, lists.EXTENDED_LISTS, macros.EXTENDED_LISTS),
)
BINDINGS = Library(0, (), macros.BINDINGS)
JSON_PATCH = Library(0, kubernetes.JSON_PATCH)
_CROSS_TYPE = tuple(
    f"{word}_{left}_{other}"
    for word in ("less", "less_equals", "greater", "greater_equals")
    for left in ("int64", "uint64", "double")
    for other in ("int64", "uint64", "double")
)


@dataclass(frozen=True, eq=False)
class Environment:
    """The variables, types and functions that expressions may use.

    Compared by identity: make one and keep it.
    """

    minor: int
    variables: Mapping[str, Declared]
    named: Mapping[str, Type]
    functions: Functions
    macros: Macros
    overrides: Overrides = field(default_factory=dict)
    programs: dict[str, Any] = field(default_factory=dict)  # compiled in it, by expression

    def named_type(self, name: str) -> Type | None:
        return self.named.get(name) or mutations.nested(name, self.named)

    @cached_property
    def language(self) -> LanguageFeatures:
        return LanguageFeatures.of(FeatureGates(Version(self.minor)))

    def extended(
        self,
        variables: Mapping[str, Type | Declared] | None = None,
        *,
        named: Mapping[str, Type] | None = None,
        libraries: tuple[Library, ...] = (),
        overrides: Overrides | None = None,
    ) -> "Environment":
        """Adds variables, object types that expressions can make, and libraries; this environment stays as it
        is."""
        functions = self.functions
        added: dict[Any, Any] = dict(self.macros)
        if libraries:
            more = [function for library in libraries for function in library.functions]
            functions = Functions((*functions.all(), *more))
            for library in libraries:
                added.update(library.macros)
        declared = {name: declared_of(kind) for name, kind in (variables or {}).items()}
        return Environment(
            self.minor,
            {**self.variables, **declared},
            {**self.named, **(named or {})},
            functions,
            added,
            {**self.overrides, **(overrides or {})},
        )


def environment(
    release: Release | int, *, stored: bool, variables: Mapping[str, Type | Declared] | None = None
) -> Environment:
    """A bare minor stands for a release without its bugs; the package's docstring explains `stored`."""
    known = Release(release) if isinstance(release, int) else release
    base = _base(known if stored else known._replace(minor=known.minor - 1), known.minor, stored)
    return base.extended(variables) if variables else base


@lru_cache(maxsize=64)
def _base(release: Release, server: int, stored: bool) -> Environment:
    """`server` is the minor whose code runs, whatever the expressions may use."""
    minor, code = release.minor, LanguageFeatures.of(FeatureGates(Version(server)))
    functions: list[Overload] = []
    known: dict[Any, Any] = {}
    for library in LIBRARIES:
        # what a stored expression may use was never removed from it by a later library
        if is_between(minor, library.since, None if library.until is None else library.until - 1):
            functions += library.functions
            known.update(library.macros)
    if release.misses_inner_networks:
        functions = [MISSING_INNER_NETWORKS.get(function.identity, function) for function in functions]
    if code.early_formats and not stored:
        functions += FORMATS
    if not code.searches_beyond:
        functions = [STRICT_OFFSETS.get(function.identity, function) for function in functions]
    if not code.optional_lists:
        functions = [function for function in functions if function not in lists.OPTIONAL_LISTS]
    if code.spaced_powers:
        functions = [SPACED_FORMAT.get(function.identity, function) for function in functions]
    if not LanguageFeatures.of(FeatureGates(Version(minor))).compares_types:
        functions = [function for function in functions if function.identity not in _CROSS_TYPE]
    return Environment(minor, {}, _NAMED, Functions(functions), known)


_NAMED: Mapping[str, Type] = {
    **{name: kind for name, kind in types.NAMED.items() if kind != types.DYN},  # which is a function alone
    "kubernetes.Quantity": types.object_type("kubernetes.Quantity", {}),
    "kubernetes.Semver": types.object_type("kubernetes.Semver", {}),
    "kubernetes.URL": types.object_type("kubernetes.URL", {}),
    "net.IP": types.opaque("net.IP"),
    "net.CIDR": types.opaque("net.CIDR"),
}
