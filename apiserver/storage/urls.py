"""Reads the URLs that logs are named by."""

from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from kubeskew.apiserver.storage.failures import StorageError

SQLITE, POSTGRESQL = "sqlite", "postgresql"
HIDDEN = "***"
_SEARCH_PATH = "-csearch_path="
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


def database_of(url: str) -> str:
    """Returns a URL without what does not tell one database from another: password, schema, driver."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    query = [pair for pair in parse_qsl(parts.query, True) if pair[0] in ("host", "port", "user", "dbname")]
    netloc = f"{user.partition(':')[0]}{at}{host}"
    return urlunsplit(parts._replace(scheme=backend_of(url), netloc=netloc, query=_encoded(query)))


def with_schema(url: str, schema: str) -> str:
    """Returns a URL of PostgreSQL for another schema of the same database."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, True))
    others = [option for option in query.get("options", "").split() if not option.startswith(_SEARCH_PATH)]
    query["options"] = " ".join([*others, f"{_SEARCH_PATH}{schema}"])
    return urlunsplit(parts._replace(query=_encoded(list(query.items()))))


def _encoded(query: list[tuple[str, str]]) -> str:
    return urlencode(query, safe="/*=", quote_via=quote)
