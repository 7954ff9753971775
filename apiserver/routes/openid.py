"""Makes the OpenID documents with which others check this cluster's service account tokens.

Source: k8s.io/kubernetes/pkg/serviceaccount/openidmetadata.go and pkg/routes/openidmetadata.go, 1.36.
"""

from kubeskew.apiserver.http.request import Response
from kubeskew.apiserver.serviceaccount.keys import AccountKeys
from kubeskew.apiserver.storage.encoding import dumps

CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
KEYS_TYPE = "application/jwk-set+json"
_CACHE = [("Cache-Control", "public, max-age=3600")]


def configuration(keys: AccountKeys, address: str) -> Response:
    """Returns the discovery document. `address` is host and port of this server."""
    document = {
        "issuer": keys.issuer,
        "jwks_uri": f"https://{address}{KEYS}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": sorted({key.algorithm for key in keys.verifying}),
    }
    return Response(200, dumps(document), "application/json", list(_CACHE))


def key_set(keys: AccountKeys) -> Response:
    """Returns the public keys."""
    document = {"keys": [key.as_jwk() for key in keys.verifying]}
    return Response(200, dumps(document), KEYS_TYPE, list(_CACHE))
