"""Runs the named checks of health, liveness and readiness, and reports them.

Source: k8s.io/apiserver/pkg/server/healthz/healthz.go, 1.36.
"""

from collections.abc import Callable, Iterator, Mapping

from kubeskew.apiserver.http.request import Response, text

Check = Callable[[], bool]
PROBES = ("healthz", "livez", "readyz")


class HealthChecks:
    """The checks of a server, by probe; a check gives whether all is well."""

    def __init__(self) -> None:
        self._checks: Mapping[str, dict[str, Check]] = {probe: {} for probe in PROBES}

    def add(self, name: str, check: Check, probes: tuple[str, ...] = PROBES) -> None:
        for probe in probes:
            self._checks[probe][name] = check

    def probe(self, probe: str, *, verbose: bool, exclude: list[str]) -> Response:
        """`ok`, or the checks one by one if one fails or `verbose` asks for them."""
        lines, good = [], True
        for name, check in self._checks[probe].items():
            if name in exclude:
                lines.append(f"[+]{name} excluded: ok")
            elif check():
                lines.append(f"[+]{name} ok")
            else:
                good = False
                lines.append(f"[-]{name} failed: reason withheld")
        if good and not verbose:
            return text(200, "ok")
        unknown = sorted({name for name in exclude if name and name not in self._checks[probe]})
        if unknown:
            names = ",".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        lines.append(f"{probe} check {'passed' if good else 'failed'}")
        return text(200 if good else 500, "\n".join(lines) + "\n")

    def names(self, probe: str) -> list[str]:
        """Returns the checks that have a path of their own."""
        return list(self._checks[probe])

    def results(self) -> Iterator[tuple[str, str, bool]]:
        """(check, probe, whether all is well) of every one."""
        for probe, checks in self._checks.items():
            for name, check in checks.items():
                yield name, probe, check()

    def single(self, probe: str, name: str) -> Response | None:
        """Runs one check by its path, None if there is none of that name."""
        check = self._checks[probe].get(name)
        if check is None:
            return None
        return text(200, "ok") if check() else text(500, "internal server error: reason withheld\n")
