"""Bearer tokens from a file of lines `token,user,uid,"group1,group2"`.

Source: k8s.io/apiserver/pkg/authentication/token/tokenfile/tokenfile.go, 1.36.
"""

import csv
from collections.abc import Iterable

from apiserver.request import Request
from apiserver.user import AUTHENTICATED_GROUP, User

_COLUMNS = 3


class TokenFileError(ValueError):
    """The token file is not what it should be."""


class TokenAuthenticator:
    """Knows the tokens of a file; `lines` are its lines."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._users = dict(_read(lines))

    def authenticate(self, request: Request) -> User | None:
        token = bearer_token(request)
        return self._users.get(token) if token else None


def bearer_token(request: Request) -> str:
    """The token of the Authorization header, empty if there is none."""
    scheme, _, token = request.headers.get("authorization", "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _read(lines: Iterable[str]) -> Iterable[tuple[str, User]]:
    for row in csv.reader(lines):
        if not row:
            continue
        if len(row) < _COLUMNS:
            raise TokenFileError(
                f"token file must have at least 3 columns (token, user name, user uid), found {len(row)}"
            )
        token, name, uid = (column.strip() for column in row[:_COLUMNS])
        if not token:
            raise TokenFileError("empty token has been found in token file")
        groups = tuple(group.strip() for group in row[_COLUMNS].split(",")) if len(row) > _COLUMNS else ()
        yield token, User(name, uid, (*(group for group in groups if group), AUTHENTICATED_GROUP))
