"""Client certificates: the common name is the user, the organizations are the groups."""

from apiserver.request import Peer, Request
from apiserver.user import AUTHENTICATED_GROUP, User


class CertificateAuthenticator:
    """Trusts what the transport has verified against the client CA."""

    def __init__(self) -> None:
        self._users: dict[Peer, User] = {}

    def authenticate(self, request: Request) -> User | None:
        peer = request.peer
        if peer is None:
            return None
        user = self._users.get(peer)
        if user is None:
            user = User(peer.common_name, groups=(*peer.organizations, AUTHENTICATED_GROUP))
            self._users[peer] = user
        return user
