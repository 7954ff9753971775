"""Handles POST of a review: decoded as any new object, answered, and forgotten.

Source: k8s.io/apiserver/pkg/endpoints/handlers/create.go, 1.36.
"""

from kubeskew.apimachinery.golang.roundtrip import normalise
from kubeskew.apiserver.http import parameters
from kubeskew.apiserver.http.media_types import WITHOUT_TABLES
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.registry.requests import bodies, rendering
from kubeskew.apiserver.registry.requests.admission import admit_posted
from kubeskew.apiserver.registry.requests.scope import Scope
from kubeskew.apiserver.registry.requests.writes import managed, write_of
from kubeskew.apiserver.registry.reviews.answers import REVIEWS, Reviewer


async def review(request: Request, scope: Scope) -> Response:
    """Answers 201 with the review, its status filled in."""
    form = rendering.form_of(request, WITHOUT_TABLES)
    options = parameters.write_options(request, "CreateOptions")
    question = await bodies.read_object(request, scope, options.field_validation)
    bodies.check_namespace(question, scope, request.info.namespace)
    bodies.wipe_system_metadata(question)
    write = write_of(request, scope, dry_run=options.dry_run)
    question = managed(request, scope, None, question, write, options.field_manager)
    await admit_posted(request, scope, question, dry_run=options.dry_run)
    services = scope.services
    reviewer = Reviewer(request.user, services.authenticator, services.authorizer, services.environment.clock)
    answer = REVIEWS[scope.resource.storage_resource](question, reviewer)
    return rendering.render(request, scope, normalise(answer, scope.resource.schema), form, 201)
