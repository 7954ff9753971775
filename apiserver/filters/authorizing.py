"""Ask whether the user may do this."""

from apimachinery import errors
from apimachinery.errors import GroupResource
from apiserver.authorization import Authorizer, denial
from apiserver.request import Handler, Request, Response


def with_authorization(handler: Handler, authorizer: Authorizer) -> Handler:
    """Answer 403 to what the authorizer does not allow."""

    async def authorize(request: Request) -> Response:
        info = request.info
        decision = authorizer.authorize(request.user, info)
        if not decision.allowed:
            why = denial(request.user, info, decision.reason)
            raise errors.forbidden(GroupResource(info.group, info.resource), info.name, why)
        return await handler(request)

    return authorize
