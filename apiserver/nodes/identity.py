"""Says in a front proxy's headers who the user of a request is.

Sources: k8s.io/client-go/transport (SetAuthProxyHeaders), golang.org/x/net/http/httpguts, 1.36.
"""

import re
from urllib.parse import quote

from kubeskew.apiserver.nodes.proxy import DialError, Headers
from kubeskew.apiserver.user import User

_CHANGED = re.compile(r"[\x00-\x1f\x7f]|^\s|\s$")  # what headers cannot carry, or lose


class UnnamedError(DialError):
    """Headers cannot say who the user is; the text is Go's."""


def identity(user: User) -> Headers:
    """Raises UnnamedError: with line breaks in a name, or spaces around it, a user would become another."""
    headers = [("X-Remote-User", user.name)]
    if user.uid:
        headers.append(("X-Remote-Uid", user.uid))
    headers += [("X-Remote-Group", group) for group in user.groups]
    for key, values in user.extra.items():
        headers += [(f"X-Remote-Extra-{quote(key.lower(), safe='')}", value) for value in values]
    for name, value in headers:
        if _CHANGED.search(value):
            raise UnnamedError(f'net/http: invalid header field value for "{name}"')
    return headers
