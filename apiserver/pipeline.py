"""Filters of a request, in their order."""

from collections.abc import Callable

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apiserver.authentication import Authenticator
from kubeskew.apiserver.authorization import Authorizer
from kubeskew.apiserver.filters.audit import with_audit, with_audit_id
from kubeskew.apiserver.filters.authentication import with_authentication
from kubeskew.apiserver.filters.authorization import with_authorization
from kubeskew.apiserver.filters.deadlines import with_deadline
from kubeskew.apiserver.filters.fairness import Fairness, with_fairness
from kubeskew.apiserver.filters.impersonation import with_impersonation
from kubeskew.apiserver.filters.in_flight import with_max_in_flight
from kubeskew.apiserver.filters.recovery import with_panic_recovery
from kubeskew.apiserver.filters.request_infos import with_request_info
from kubeskew.apiserver.filters.warning_headers import with_warnings
from kubeskew.apiserver.http import statuses
from kubeskew.apiserver.http.request import Handler
from kubeskew.apiserver.metrics import RequestMetrics


def build(
    handler: Handler,
    *,
    authenticator: Authenticator,
    authorizer: Authorizer,
    metrics: RequestMetrics,
    clock: Clock,
    entropy: Entropy,
    max_reads: int,
    max_writes: int,
    constrained_impersonation: bool = False,
    missing_user_is_400: bool = False,
    fairness: Fairness | None = None,
    faults: Callable[[Handler], Handler] | None = None,
) -> Handler:
    """Puts all filters around `handler`: the first here is the innermost."""
    handler = statuses.with_status_errors(handler)  # its errors are answers from here on
    handler = with_authorization(handler, authorizer, metrics.access)
    if fairness is not None:
        handler = with_fairness(handler, fairness)
    else:
        handler = with_max_in_flight(handler, max_reads, max_writes)
    constrained, missing = constrained_impersonation, missing_user_is_400
    handler = with_impersonation(handler, authorizer, constrained=constrained, missing_user_is_400=missing)
    if faults is not None:
        handler = faults(handler)
    handler = with_audit(handler, metrics, clock)
    handler = with_authentication(handler, authenticator, metrics.access, clock)
    handler = with_warnings(handler)
    handler = with_deadline(handler)
    handler = with_request_info(handler)
    handler = with_panic_recovery(handler)
    return with_audit_id(handler, entropy)
