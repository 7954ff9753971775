"""Keeps the config map by which extension servers learn the authorities of clients and front proxies.

Source: k8s.io/kubernetes/pkg/controlplane/controller/clusterauthenticationtrust, 1.36.
"""

import json
import re
from pathlib import Path

from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import features_of
from kubeskew.apiserver.options import ServerOptions

NAME = "extension-apiserver-authentication"
_CLIENTS, _PROXIES = "client-ca-file", "requestheader-client-ca-file"
_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


def data_of(options: ServerOptions, environment: Environment) -> dict[str, str]:
    """Returns the server's own part of the ConfigMap; the lists are JSON."""
    data = {}
    if options.client_ca_file:
        data[_CLIENTS] = Path(options.client_ca_file).read_text()
    if options.requestheader_client_ca_file:
        data[_PROXIES] = Path(options.requestheader_client_ca_file).read_text()
        lists = {
            "requestheader-username-headers": options.requestheader_username_headers,
            "requestheader-group-headers": options.requestheader_group_headers,
            "requestheader-extra-headers-prefix": options.requestheader_extra_headers_prefix,
            "requestheader-allowed-names": options.requestheader_allowed_names,
        }
        if features_of(environment.gates).accounts.request_header_uid:
            lists["requestheader-uid-headers"] = options.requestheader_uid_headers
        data |= {name: json.dumps(list(values), separators=(",", ":")) for name, values in lists.items()}
    return data


def combined(expected: Object, stored: Object) -> Object | None:
    """Returns the stored map with what this server knows; None if that is nothing new.

    Authorities of other servers stay, and what they said of headers counts where this one says nothing.
    """
    old, new = stored.get("data") or {}, expected["data"]
    data = {**old, **new}
    for name in (_CLIENTS, _PROXIES):
        blocks = _BLOCK.findall(old.get(name, ""))
        missing = [block for block in _BLOCK.findall(new.get(name, "")) if block not in blocks]
        if name in old:
            data[name] = old[name] if not missing else "".join(f"{block}\n" for block in [*blocks, *missing])
    for name in sorted(set(old) & set(new) - {_CLIENTS, _PROXIES}):
        before = _list(old[name])
        values = [*before, *(value for value in _list(new[name]) if value not in before)]
        data[name] = json.dumps(values, separators=(",", ":"))
    return {**stored, "data": data} if data != old else None


def _list(text: str) -> list[str]:
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return found if isinstance(found, list) else []
