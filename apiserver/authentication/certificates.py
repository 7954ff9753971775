"""Client certificates: the common name is the user, the organizations are the groups."""

from apiserver.generations import Generations
from apiserver.request import Peer, Request
from apiserver.user import AUTHENTICATED_GROUP, User

_CREDENTIAL = "authentication.kubernetes.io/credential-id"
_REMEMBERED = 5_000


class CertificateAuthenticator:
    """Trusts what the transport has verified against the client CA."""

    def __init__(self, *, tells_id: bool = False) -> None:
        """`tells_id`: users have the id of their certificate, as from 1.32 on."""
        self._tells_id = tells_id
        self._users: Generations[Peer, User] = Generations(_REMEMBERED)

    def authenticate(self, request: Request) -> User | None:
        peer = request.peer
        if peer is None:
            return None
        user = self._users.get(peer)
        if user is None:
            extra = {}
            if self._tells_id and peer.fingerprint:
                extra[_CREDENTIAL] = (f"X509SHA256={peer.fingerprint}",)
            groups = (*peer.organizations, AUTHENTICATED_GROUP)
            user = User(peer.common_name, groups=groups, extra=extra)
            self._users.put(peer, user)
        return user
