"""Which network addresses a fetch may reach: public ones, and what the operator allowed by name or network."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from tools.errors import ToolError

type Address = ipaddress.IPv4Address | ipaddress.IPv6Address
type Network = ipaddress.IPv4Network | ipaddress.IPv6Network

SETTING = "FETCH_ALLOW_PRIVATE"
# Networks without IPv4 reach all of it through these; what counts is the IPv4 address inside.
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class AddressRefused(ToolError):
    """The host is, or resolves to, an address that is not public and was not allowed by the operator."""

    def __init__(self, host: str, address: str) -> None:
        super().__init__(f"{host} is at {address}, which is not a public address.", code="address_refused")
        self.host = host
        self.address = address


def is_public(address: Address) -> bool:
    """True for an address that anybody on the Internet may use. Embedded IPv4 forms are not, but for NAT64."""
    if address in _NAT64:
        return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    if address.is_multicast or address.is_reserved or address.is_unspecified or not address.is_global:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return True
    return not (address.ipv4_mapped or address.sixtofour or address.teredo or address.is_site_local)


@dataclass(frozen=True)
class AddressPolicy:
    """What the operator allowed beyond the public Internet. hosts: lower case, without a final dot."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    @classmethod
    def from_setting(cls, text: str) -> Self:
        """Read "host, 10.1.0.0/16, ..."; what is no address and no network is a host name."""
        hosts: set[str] = set()
        networks: list[Network] = []
        for part in (part.strip() for part in text.split(",")):
            if not part:
                continue
            try:
                networks.append(ipaddress.ip_network(part))
            except ValueError:
                hosts.add(normal_host(part))
        return cls(frozenset(hosts), tuple(networks))

    def check(self, host: str, addresses: Iterable[str]) -> list[str]:
        """Return the addresses to connect to. Raises AddressRefused if any one is not allowed.

        Any one: a name that mixes public and private addresses is made to slip past a check.
        """
        found = list(addresses)
        for text in found:
            address = ipaddress.ip_address(text)
            is_named = any(address in network for network in self.networks if network.version == address.version)
            if not (is_public(address) or is_named or normal_host(host) in self.hosts):
                raise AddressRefused(host, text)
        return found


def normal_host(host: str) -> str:
    """Return a host name as it is compared: lower case, no final dot, no brackets."""
    return host.lower().rstrip(".").removeprefix("[").removesuffix("]")
