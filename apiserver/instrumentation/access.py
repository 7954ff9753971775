"""Counts who asks and what they are allowed (k8s.io/apiserver/pkg/endpoints/filters/metrics.go, 1.36)."""

from kubeskew.apimachinery.metrics.series import Counters, Families, Histograms, NumberSeries

_KNOWN = frozenset({"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"})


class AccessMetrics:
    """Counts attempts at authentication and authorization.

    Both answer from memory and never wait, so they take no time by the clock of the server, which stands
    still meanwhile: only how many there were is noted.
    """

    def __init__(self, families: Families) -> None:
        self.allowed = self.not_allowed = self.unknown = 0  # requests; of the last nobody knows the user
        self._users = families.counters("authenticated_user_requests", "Authenticated requests by user.")
        self._expiration = families.histograms(
            "apiserver_client_certificate_expiration_seconds", "Seconds until certificates of clients expire."
        ).at()
        self._of_user: dict[str, int] = {}
        self._authentication = (
            families.counters("authentication_attempts", "Attempts at authentication by result."),
            families.histograms("authentication_duration_seconds", "Seconds of authentication by result."),
        )
        self._authorization = (
            families.counters("authorization_attempts_total", "Attempts at authorization by result."),
            families.histograms("authorization_duration_seconds", "Seconds of authorization by result."),
        )

    def authenticated(self, user: str) -> None:
        """Counts a request of somebody; names that are not well known are counted together."""
        label = user if user in _KNOWN else "email_id" if "@" in user else "other"
        self._of_user[label] = self._of_user.get(label, 0) + 1

    @property
    def known(self) -> int:
        """Returns how many requests were of somebody known."""
        return sum(self._of_user.values())

    def look(self) -> None:
        """Fills the families; nobody here denies what another may still allow."""
        for label, count in self._of_user.items():
            self._users.at(username=label).value = count
        _fill(self._authentication, {"success": self.known, "failure": self.unknown})
        _fill(self._authorization, {"allowed": self.allowed, "no-opinion": self.not_allowed})

    def certified(self, seconds: float) -> None:
        """Counts a request with a certificate that is valid for so long."""
        self._expiration.observe(seconds)


def _fill(families: tuple[Counters, Histograms], counts: dict[str, int]) -> None:
    attempts, seconds = families
    for result, count in counts.items():
        if count:
            attempts.at(result=result).value = count
            seconds.at(result=result).set_all(0, count)


class TokenMetrics:
    """Counts tokens of service accounts (pkg/serviceaccount/metrics.go, 1.36)."""

    def __init__(self, families: Families) -> None:
        def counter(name: str, text: str) -> NumberSeries:
            return families.counters(f"serviceaccount_{name}_total", text).at()

        cache = "authentication_token_cache"
        self._asked = (
            families.counters(f"{cache}_request_total", "Looks for a token that was verified before."),
            families.histograms(f"{cache}_request_duration_seconds", "Seconds of these."),
        )
        self._fetched = families.counters(f"{cache}_fetch_total", "Tokens verified as they were not found.")
        self._fetching = families.gauges(f"{cache}_active_fetch_count", "Tokens that are being verified.")
        self.hits = self.verified = self.wrong = 0  # tokens of accounts
        self.legacy = counter("legacy_tokens", "Tokens in Secrets that were used.")
        self.stale = counter("stale_tokens", "Tokens used though they were to be renewed.")
        self.valid = counter("valid_tokens", "Tokens used before they were to be renewed.")
        self.manual = counter("legacy_manual_token_uses", "Uses of tokens in Secrets that somebody made.")
        self.automatic = counter("legacy_auto_token_uses", "Uses of tokens in Secrets that accounts list.")
        self.invalidated = counter(
            "invalid_legacy_auto_token_uses", "Uses of tokens in Secrets that were marked as invalid."
        )

    def look(self) -> None:
        """Fills the families of the cache of verified tokens; nothing waits for a verification."""
        misses = self.verified + self.wrong
        if not self.hits and not misses:
            return
        for status, count in (("hit", self.hits), ("miss", misses)):
            if count:
                self._asked[0].at(status=status).value = count
                self._asked[1].at(status=status).set_all(0, count)
        for status, count in (("ok", self.verified), ("error", self.wrong)):
            if count:
                self._fetched.at(status=status).value = count
        for status in ("blocked", "in_flight"):
            self._fetching.at(status=status).value = 0
