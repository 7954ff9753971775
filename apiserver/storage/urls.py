"""Reads the URLs that logs are named by."""

from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from kubeskew.apiserver.storage.failures import StorageError

SQLITE, POSTGRESQL = "sqlite", "postgresql"
HIDDEN = "***"
_BACKENDS = {SQLITE: SQLITE, POSTGRESQL: POSTGRESQL, "postgres": POSTGRESQL}


def backend_of(url: str) -> str:
    """Returns SQLITE or POSTGRESQL. Raises StorageError for what is no URL of either."""
    scheme, separator, _ = url.partition("://")
    backend = _BACKENDS.get(scheme.partition("+")[0])
    if not separator or backend is None:
        raise StorageError(
            f"{without_password(url)} is no URL of a log: "
            "that is sqlite:///PATH, or postgresql://USER@HOST/DATABASE"
        )
    return backend


def without_password(url: str) -> str:
    """Returns a URL as it may be shown."""
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:  # no URL: what looks like a password in it is none
        return url
    user, at, host = parts.netloc.rpartition("@")
    if password is not None:
        user = f"{user.partition(':')[0]}:{HIDDEN}"
    query = [(name, HIDDEN if name == "password" else value) for name, value in parse_qsl(parts.query, True)]
    if password is None and (HIDDEN not in dict(query).values()):
        return url
    return urlunsplit(parts._replace(netloc=f"{user}{at}{host}", query=_encoded(query)))


def with_options(url: str, options: str) -> str:
    """Returns a URL of PostgreSQL with more options of the session, which count before those it has."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, True))
    query["options"] = " ".join(filter(None, (query.get("options"), options)))
    return urlunsplit(parts._replace(query=_encoded(list(query.items()))))


def _encoded(query: list[tuple[str, str]]) -> str:
    return urlencode(query, safe="/*=", quote_via=quote)
