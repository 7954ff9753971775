"""Authenticates client certificates: the common name is the user, the organizations are the groups."""

import math

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.authentication.authorities import Authorities, Authority
from kubeskew.apiserver.caching.generations import TwoGenerationCache
from kubeskew.apiserver.http.request import Peer, Request
from kubeskew.apiserver.user import User, authenticated

_CREDENTIAL = "authentication.kubernetes.io/credential-id"
_REMEMBERED = 5_000


class CertificateAuthenticator:
    """Authenticates by certificates that the transport has verified against the client CA, while they are
    valid.

    The transport verifies once, when the connection begins; a connection may outlive its certificate.
    """

    def __init__(
        self, clock: Clock, authorities: Authorities | None = None, *, tells_id: bool = False
    ) -> None:
        """`tells_id`: users have the id of their certificate, as from 1.32 on."""
        self._clock = clock
        self._authorities = authorities or Authorities()
        self._tells_id = tells_id
        self._users: TwoGenerationCache[Peer, User] = TwoGenerationCache(_REMEMBERED)

    def authenticate(self, request: Request) -> User | None:
        peer = request.peer
        if (
            peer is None
            or not peer.common_name
            or (peer.until < math.inf and self._clock.now().timestamp() > peer.until)
            or Authority.CLIENTS not in self._authorities.of(peer)
        ):
            return None
        user = self._users.get(peer)
        if user is None:
            extra = {}
            if self._tells_id and peer.fingerprint:
                extra[_CREDENTIAL] = (f"X509SHA256={peer.fingerprint}",)
            user = User(peer.common_name, groups=authenticated(peer.organizations), extra=extra)
            self._users.put(peer, user)
        return user
