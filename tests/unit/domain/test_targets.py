"""Which URLs and addresses requests may go to: the guard's rules, as tables."""

from ipaddress import ip_address

import pytest

from mainspring.domain.errors import InvalidValue, TargetRefused
from mainspring.domain.targets import (
    Target,
    TargetRules,
    address_problem,
    parse_allowed,
    parse_target,
    redirected,
)

ACCEPTED = {
    "http://example.com": Target("http", "example.com", 80, "/"),
    "HTTPS://Example.COM./a?b=c#d": Target("https", "example.com", 443, "/a?b=c"),
    "https://example.com:8443/x": Target("https", "example.com", 8443, "/x"),
    "http://b\u00fccher.example/": Target("http", "xn--bcher-kva.example", 80, "/"),
    "http://[2606:4700::1111]/": Target("http", "2606:4700::1111", 80, "/"),
    "http://1.1.1.1": Target("http", "1.1.1.1", 80, "/"),
    "http://\uff11.1.1.1": Target("http", "1.1.1.1", 80, "/"),
    "http://my_host.example?q=1": Target("http", "my_host.example", 80, "/?q=1"),
}

REFUSED = [
    None,
    7,
    "",
    "example.com",
    "//example.com",
    "gopher://example.com/",
    "file:///etc/passwd",
    "unix:/run/x",
    "ftp://example.com/",
    "javascript:alert(1)",
    "http:///path",
    "http://user@127.0.0.1/",
    "http://user:secret@example.com/",
    "http://example.com@127.0.0.1/",
    "http://127.1/",
    "http://0x7f.1/",
    "http://0x7f000001/",
    "http://2130706433/",
    "http://0177.0.0.1/",
    "http://127.0.0.1.1/",
    "http://1.1.1.0x1/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[::1/",
    "http://[v1.x]/",
    "http://[1.2.3.4]/",
    "http://exa%6dple.com/",
    "http://example.com:0/",
    "http://example.com:65536/",
    "http://example.com:x/",
    "http://example..com/",
    "http://.example.com/",
    "http://-a.example/",
    "http://example.com/ x",
    "http://example.com/\r\nHost: a",
    "http://example.com\\@a.example/",
    "http://stra\u00dfe.example/",
    "http://example.com/\u00e9",
    "http://" + "a" * 64 + ".example/",
    "http://example.com/" + "a" * 2048,
]

CLOSED = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:8.8.8.8",
    "::ffff:127.0.0.1",
    "::7f00:1",
    "64:ff9b::808:808",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:10::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "5f00::1",
    "4000::1",
]

OPEN = ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1"]


@pytest.mark.parametrize("url", ACCEPTED)
def test_a_url_is_written_in_one_way(url: str) -> None:
    assert parse_target(url) == ACCEPTED[url]


@pytest.mark.parametrize("url", REFUSED, ids=ascii)
def test_what_is_no_plain_url_is_refused_by_name(url: object) -> None:
    with pytest.raises(TargetRefused, match=r"^payload\.url ") as refused:
        parse_target(url, "payload.url")
    assert "secret" not in refused.value.message
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("text", CLOSED)
def test_addresses_that_are_not_public(text: str) -> None:
    assert address_problem(ip_address(text)) is not None


@pytest.mark.parametrize("text", OPEN)
def test_public_addresses(text: str) -> None:
    assert address_problem(ip_address(text)) is None


def test_one_closed_address_among_many_is_enough() -> None:
    target = parse_target("https://example.com/")
    rules = TargetRules()
    rules.check_addresses(target, [ip_address("1.1.1.1")])
    with pytest.raises(TargetRefused, match=r"loopback.*http_allow"):
        rules.check_addresses(target, [ip_address("1.1.1.1"), ip_address("127.0.0.1")])


@pytest.mark.parametrize(
    "url",
    [
        "http://postgres/",
        "http://redis:8080/",
        "http://localhost/",
        "http://a.localhost/",
        "http://metadata.google.internal/",
        "http://printer.local/",
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://example.com:5432/",
        "http://example.com:22/",
    ],
)
def test_what_needs_no_look_up_is_refused_without_one(url: str) -> None:
    with pytest.raises(TargetRefused, match="http_allow"):
        TargetRules().check_host(parse_target(url))


@pytest.mark.parametrize(
    ("entry", "url", "address", "fits"),
    [
        ("billing.internal", "http://billing.internal/", "10.0.0.1", True),
        ("Billing.Internal.", "http://billing.internal:8080/", "10.0.0.1", True),
        ("billing.internal", "http://billing.internal:9000/", "10.0.0.1", False),
        ("billing.internal:9000", "http://billing.internal:9000/", "10.0.0.1", True),
        ("billing.internal:9000", "http://billing.internal/", "10.0.0.1", False),
        ("10.1.0.0/16", "http://a.example/", "10.1.2.3", True),
        ("10.1.0.0/16", "http://a.example/", "10.2.0.1", False),
        ("10.1.0.0/16", "http://a.example:9000/", "10.1.2.3", False),
        ("10.1.0.0/16:9000", "http://a.example:9000/", "10.1.2.3", True),
        ("10.1.0.0/16:9000", "http://a.example:9000/", "1.1.1.1", False),
        ("127.0.0.1:9000", "http://127.0.0.1:9000/", "127.0.0.1", True),
        ("127.0.0.1:9000", "http://127.0.0.1:9001/", "127.0.0.1", False),
        ("[fd00::/8]:9000", "http://[fd00::1]:9000/", "fd00::1", True),
        ("fd00::/8", "http://a.example/", "fd00::1", True),
        ("fd00::1", "http://[fd00::1]/", "fd00::1", True),
        ("10.0.0.0/8", "http://postgres/", "10.0.0.5", True),
        ("10.0.0.0/8", "http://localhost/", "127.0.0.1", False),
    ],
)
def test_the_operator_allows_hosts_and_networks(
    entry: str, url: str, address: str, fits: bool
) -> None:
    rules = TargetRules(allowed=(parse_allowed(entry),))
    target = parse_target(url)

    def check() -> None:
        if not rules.check_host(target):
            rules.check_addresses(target, [ip_address(address)])

    if fits:
        check()
    else:
        with pytest.raises(TargetRefused):
            check()


@pytest.mark.parametrize("text", ["", "a b", "http://x", "10.0.0.0/33", "host:0", "host:99999"])
def test_an_entry_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="http_allow has"):
        parse_allowed(text)


def test_a_redirect_is_a_url_like_any_other() -> None:
    here = parse_target("https://example.com/a/b")
    assert redirected(here, "c").path == "/a/c"
    assert redirected(here, "//other.example/x").host == "other.example"
    for location in (
        "http://example.com/",
        "file:///etc/passwd",
        "https://u@a.example/",
        "//127.1",
    ):
        with pytest.raises(TargetRefused, match="Location"):
            redirected(here, location)
