"""What counts as one address where the requests, failures or connections of one are bounded."""

from __future__ import annotations

import ipaddress


def find_address_group(address: str) -> str:
    """Return what counts as one address: of IPv6, the network of 64 bits, in which a client may choose any."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)
