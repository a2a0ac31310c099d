"""Which addresses are public."""

from ipaddress import ip_address

import pytest

from tests.batches import batched
from weft.executors.http_client import is_allowed, special_kind

SPECIAL = [
    ("0.0.0.0", "unspecified"),  # noqa: S104 - refused, not bound
    ("10.0.0.1", "private"),
    ("100.64.0.1", "shared"),
    ("100.127.255.255", "shared"),
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback"),
    ("169.254.169.254", "link-local"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "private"),
    ("192.0.0.1", "reserved"),
    ("192.168.1.1", "private"),
    ("198.19.255.255", "reserved"),
    ("224.0.0.1", "multicast"),
    ("255.255.255.255", "reserved"),
    ("::", "unspecified"),
    ("::1", "loopback"),
    ("::7f00:1", "reserved"),
    ("::ffff:127.0.0.1", "loopback"),
    ("::ffff:10.0.0.1", "private"),
    ("::ffff:169.254.169.254", "link-local"),
    ("64:ff9b::7f00:1", "loopback"),
    ("64:ff9b::a00:1", "private"),
    ("64:ff9b:1::a00:1", "reserved"),
    ("2002:7f00:1::", "loopback"),
    ("2002:a00:1::1", "private"),
    ("2001::1", "reserved"),
    ("2001:db8::1", "reserved"),
    ("3fff::1", "reserved"),
    ("100::1", "reserved"),
    ("5f00::1", "reserved"),
    ("fc00::1", "private"),
    ("fd12:3456::1", "private"),
    ("fe80::1", "link-local"),
    ("fe80::1%eth0", "link-local"),
    ("fec0::1", "private"),
    ("ff02::1", "multicast"),
]

PUBLIC = [
    *("1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.15.255.255"),
    *("172.32.0.0", "192.0.1.0", "223.255.255.255", "2606:4700::1111", "2a00:1450::1"),
    *("::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1"),
]


@batched(("address", "kind"), SPECIAL)
def test_special_addresses_are_refused(address: str, kind: str) -> None:
    assert special_kind(ip_address(address)) == kind
    assert not is_allowed(ip_address(address), allow_private=False)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert is_allowed(ip_address(address), allow_private=False)


@batched(("address", "kind"), SPECIAL)
def test_allowing_private_addresses_allows_local_ones_only(address: str, kind: str) -> None:
    is_local = kind in {"loopback", "private", "shared"}

    assert is_allowed(ip_address(address), allow_private=True) is is_local
