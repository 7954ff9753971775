"""URLs of logs."""

from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from kubeskew.apiserver.storage.interfaces import StorageError

SQLITE, POSTGRESQL = "sqlite", "postgresql"
HIDDEN = "***"
_SEARCH_PATH = "-csearch_path="
_USUAL_PORT = ":5432"
_BACKENDS = {SQLITE: SQLITE, POSTGRESQL: POSTGRESQL, "postgres": POSTGRESQL}


def backend_of(url: str) -> str:
    """The result is SQLITE or POSTGRESQL. Raises StorageError for other URLs."""
    scheme, separator, _ = url.partition("://")
    backend = _BACKENDS.get(scheme.partition("+")[0])
    if not separator or backend is None:
        raise StorageError(
            f"{without_password(url)} is no URL of a log: "
            "that is sqlite:///PATH, or postgresql://USER@HOST/DATABASE"
        )
    return backend


def without_password(url: str) -> str:
    """Hides passwords; only the scheme is left of a URL that is not encoded as it should be."""
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
    """An @ outside of its place means that user or password have one of the characters / ? # and @ that is
    not percent-encoded.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "@" in url
    rest = parts.netloc.rpartition("@")[0] + parts.path + parts.query + parts.fragment
    return "@" in rest


def database_of(url: str) -> str:
    """URLs of the same database have the same result: it leaves out password, schema, driver and PostgreSQL's
    usual port.
    """
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    query = [pair for pair in parse_qsl(parts.query, True) if pair[0] in ("host", "port", "user", "dbname")]
    netloc = f"{user.partition(':')[0]}{at}{host.removesuffix(_USUAL_PORT)}"
    return urlunsplit(parts._replace(scheme=backend_of(url), netloc=netloc, query=_encoded(query)))


def with_schema(url: str, schema: str) -> str:
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, True))
    query.pop("search_path", None)  # which would count before that of the options
    others = [option for option in query.get("options", "").split() if not option.startswith(_SEARCH_PATH)]
    query["options"] = " ".join([*others, f"{_SEARCH_PATH}{schema}"])
    return urlunsplit(parts._replace(query=_encoded(list(query.items()))))


def _encoded(query: list[tuple[str, str]]) -> str:
    return urlencode(query, safe="/*=", quote_via=quote)
