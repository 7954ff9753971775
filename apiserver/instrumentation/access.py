"""Counts who asks and what they are allowed (k8s.io/apiserver/pkg/endpoints/filters/metrics.go, 1.36)."""

from kubeskew.apimachinery.metrics.series import Families, HistogramSeries, NumberSeries

_KNOWN = frozenset({"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"})


class _Results:
    """A histogram with the label `result`, and a counter of the same, which is filled when somebody looks."""

    def __init__(self, counters: tuple[str, str], seconds: tuple[str, str], families: Families) -> None:
        self._counters = families.counters(*counters)
        self._seconds = families.histograms(*seconds)
        self._series: dict[str, HistogramSeries] = {}

    def timed(self, result: str) -> HistogramSeries:
        """Returns what times those that end so."""
        found = self._series.get(result)
        if found is None:
            found = self._series[result] = self._seconds.at(result=result)
        return found

    def look(self) -> None:
        for result, series in self._series.items():
            self._counters.at(result=result).value = series.count


class AccessMetrics:
    """Counts attempts at authentication and authorization."""

    def __init__(self, families: Families) -> None:
        self._users = families.counters("authenticated_user_requests", "Authenticated requests by user.")
        self._expiration = families.histograms(
            "apiserver_client_certificate_expiration_seconds", "Seconds until certificates of clients expire."
        ).at()
        self._of_user: dict[str, NumberSeries] = {}
        self._authentication = _Results(
            ("authentication_attempts", "Attempts at authentication by result."),
            ("authentication_duration_seconds", "Seconds of authentication by result."),
            families,
        )
        self._authorization = _Results(
            ("authorization_attempts_total", "Attempts at authorization by result."),
            ("authorization_duration_seconds", "Seconds of authorization by result."),
            families,
        )

    def authenticated(self, user: str, seconds: float) -> None:
        """Counts a request of somebody; names that are not well known are counted together."""
        label = user if user in _KNOWN else "email_id" if "@" in user else "other"
        series = self._of_user.get(label)
        if series is None:
            series = self._of_user[label] = self._users.at(username=label)
        series.value += 1
        self._authentication.timed("success").observe(seconds)

    def look(self) -> None:
        """Counts the attempts, which were only timed."""
        self._authentication.look()
        self._authorization.look()

    def certified(self, seconds: float) -> None:
        """Counts a request with a certificate that is valid for so long."""
        self._expiration.observe(seconds)

    def unauthenticated(self, seconds: float) -> None:
        """Counts a request of nobody known."""
        self._authentication.timed("failure").observe(seconds)

    def authorized(self, seconds: float, *, allowed: bool) -> None:
        """Counts a decision; nobody here denies what another may still allow."""
        self._authorization.timed("allowed" if allowed else "no-opinion").observe(seconds)


class TokenMetrics:
    """Counts tokens of service accounts (pkg/serviceaccount/metrics.go, 1.36)."""

    def __init__(self, families: Families) -> None:
        def counter(name: str, text: str) -> NumberSeries:
            return families.counters(f"serviceaccount_{name}_total", text).at()

        self.legacy = counter("legacy_tokens", "Tokens in Secrets that were used.")
        self.stale = counter("stale_tokens", "Tokens used though they were to be renewed.")
        self.valid = counter("valid_tokens", "Tokens used before they were to be renewed.")
        self.manual = counter("legacy_manual_token_uses", "Uses of tokens in Secrets that somebody made.")
        self.automatic = counter("legacy_auto_token_uses", "Uses of tokens in Secrets that accounts list.")
        self.invalidated = counter(
            "invalid_legacy_auto_token_uses", "Uses of tokens in Secrets that were marked as invalid."
        )
