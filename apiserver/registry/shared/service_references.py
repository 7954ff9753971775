"""Sets the default of the services that webhooks, conversions and extension servers are reached by.

Source: SetDefaults_ServiceReference in pkg/apis/{admissionregistration,apiextensions,apiregistration}, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import fill_null

_PORT = 443


def default_service_port(client: Object) -> None:
    """Fills in the port of `client`'s service, if it names one."""
    if client.get("service") is not None:
        fill_null(client["service"], port=_PORT)
