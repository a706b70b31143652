"""Which addresses are public, and what an operator may add."""

import pytest

from tools.builtin.addresses import AddressPolicy, AddressRefused


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "198.18.0.1",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "fec0::1",
        "ff02::1",
        "2001:db8::1",
        "::ffff:8.8.8.8",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    ],
)
def test_address_that_is_not_public_is_refused(address: str) -> None:
    with pytest.raises(AddressRefused):
        AddressPolicy().check("example.org", [address])


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::808:808"])
def test_public_address_passes(address: str) -> None:
    assert AddressPolicy().check("example.org", [address]) == [address]


def test_one_bad_address_spoils_the_name() -> None:
    with pytest.raises(AddressRefused):
        AddressPolicy().check("example.org", ["93.184.215.14", "127.0.0.1"])


def test_operator_allows_hosts_and_networks_and_nothing_else() -> None:
    policy = AddressPolicy.from_setting(" Intra.Example. , 10.1.0.0/16, ::1 ,127.0.0.1,")
    assert policy.check("intra.example", ["192.168.1.1"])
    assert policy.check("anything", ["10.1.9.9", "::1", "127.0.0.1"])
    for address in ("10.2.0.1", "127.0.0.2", "192.168.1.1"):
        with pytest.raises(AddressRefused):
            policy.check("anything", [address])
