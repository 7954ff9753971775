"""Reads the URLs that logs are named by."""

from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from kubeskew.apiserver.storage.interfaces import StorageError

SQLITE, POSTGRESQL = "sqlite", "postgresql"
HIDDEN = "***"
_SEARCH_PATH = "-csearch_path="
_USUAL_PORT = ":5432"
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
    """Returns a URL as it may be shown: of one that is not encoded as it should be, its scheme alone."""
    if is_malformed(url):
        return f"{url.partition('://')[0]}://{HIDDEN}"
    parts = urlsplit(url)
    password = parts.password
    user, at, host = parts.netloc.rpartition("@")
    if password is not None:
        user = f"{user.partition(':')[0]}:{HIDDEN}"
    query = [
        (name, HIDDEN if name.endswith("password") else value) for name, value in parse_qsl(parts.query, True)
    ]
    if password is None and (HIDDEN not in dict(query).values()):
        return url
    return urlunsplit(parts._replace(netloc=f"{user}{at}{host}", query=_encoded(query)))


def is_malformed(url: str) -> bool:
    """Returns whether a URL has an @ where none may be: its user or password has characters, of / ? # and @,
    that are not percent-encoded."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "@" in url
    rest = parts.netloc.rpartition("@")[0] + parts.path + parts.query + parts.fragment
    return "@" in rest


def database_of(url: str) -> str:
    """Returns a URL without what does not tell one database from another: password, schema, driver."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    query = [pair for pair in parse_qsl(parts.query, True) if pair[0] in ("host", "port", "user", "dbname")]
    netloc = f"{user.partition(':')[0]}{at}{host.removesuffix(_USUAL_PORT)}"
    return urlunsplit(parts._replace(scheme=backend_of(url), netloc=netloc, query=_encoded(query)))


def with_schema(url: str, schema: str) -> str:
    """Returns a URL of PostgreSQL for another schema of the same database."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, True))
    query.pop("search_path", None)  # which would count before that of the options
    others = [option for option in query.get("options", "").split() if not option.startswith(_SEARCH_PATH)]
    query["options"] = " ".join([*others, f"{_SEARCH_PATH}{schema}"])
    return urlunsplit(parts._replace(query=_encoded(list(query.items()))))


def _encoded(query: list[tuple[str, str]]) -> str:
    return urlencode(query, safe="/*=", quote_via=quote)
