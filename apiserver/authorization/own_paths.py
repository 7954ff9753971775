"""Our own paths, which no upstream role knows: whoever is authenticated may read the time line there."""

from apiserver.authorization import NO_OPINION, Decision, Rules
from apiserver.request_info import RequestInfo
from apiserver.user import AUTHENTICATED_GROUP, User

_PREFIX = "/kubeskew/"


class OwnPaths:
    """Allows authenticated users what is below /kubeskew."""

    def authorize(self, user: User, info: RequestInfo) -> Decision:
        own = not info.is_resource and info.path.startswith(_PREFIX)
        return Decision(True) if own and AUTHENTICATED_GROUP in user.groups else NO_OPINION

    def rules(self, _user: User, _namespace: str) -> Rules:
        """None that is told."""
        return Rules()
