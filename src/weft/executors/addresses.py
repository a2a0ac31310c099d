"""Which network addresses are public, by the special-purpose registries of IANA.

Not `ipaddress.is_global`: its tables differ between Python versions. What is not known to be public is not.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

LOCAL = frozenset({"loopback", "private", "shared"})
"""Kinds that `allow_private` lets through. The others stay refused: link-local is where clouds hand out the
machine's credentials, and nothing answers at the rest."""

_IPV4 = [
    (IPv4Network(network), kind)
    for network, kind in [
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared"),  # carrier-grade NAT
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "reserved"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "reserved"),
        ("198.51.100.0/24", "reserved"),
        ("203.0.113.0/24", "reserved"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    ]
]

_IPV6 = [
    (IPv6Network(network), kind)
    for network, kind in [
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
        ("2001::/23", "reserved"),  # Teredo, benchmarks, ORCHID ...
        ("2001:db8::/32", "reserved"),
        ("3fff::/20", "reserved"),
    ]
]

_GLOBAL_UNICAST = IPv6Network("2000::/3")

# IPv4 addresses inside IPv6 ones: the network, and how far right the 32 bits are.
_EMBEDDING = [
    (IPv6Network("::ffff:0:0/96"), 0),  # mapped
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("2002::/16"), 80),  # 6to4
]


def special_kind(address: Address) -> str | None:
    """What keeps an address from being public, or None when it is public."""
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _IPV4 if address in network), None)
    # Without its zone (fe80::1%eth0), which networks do not compare.
    plain = IPv6Address(int(address))
    for network, shift in _EMBEDDING:
        if plain in network:
            return special_kind(IPv4Address(int(plain) >> shift & 0xFFFFFFFF))
    for network, kind in _IPV6:
        if plain in network:
            return kind
    return None if plain in _GLOBAL_UNICAST else "reserved"


def is_allowed(address: Address, *, allow_private: bool) -> bool:
    """Whether the address is public, or local and local ones are allowed."""
    kind = special_kind(address)
    return kind is None or (allow_private and kind in LOCAL)


def read_address(text: str) -> Address:
    """The address a resolver gave."""
    return ip_address(text)
