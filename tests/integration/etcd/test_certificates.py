"""An etcd that asks its clients for certificates, passwords or both, and changes what it asks."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from api.certificates import Authority
from fixtures.guarded_etcd import GuardedEtcd
from mainspring.adapters.etcd.coordination import EtcdCoordination
from mainspring.config import load
from mainspring.domain.errors import InvalidConfiguration, SetupError, Unavailable
from mainspring.wiring.checkup import findings
from mainspring.wiring.etcd import etcd_coordination, etcd_options

Opener = Callable[..., EtcdCoordination]


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Callable[..., GuardedEtcd]]:
    opened: list[GuardedEtcd] = []

    def start(*arguments: str) -> GuardedEtcd:
        opened.append(GuardedEtcd(tmp_path, arguments=arguments))
        opened[-1].server.until_ready()
        return opened[-1]

    yield start
    for each in opened:
        each.server.kill()


@pytest.fixture
async def meet(tmp_path: Path) -> AsyncIterator[Opener]:
    opened: list[EtcdCoordination] = []

    def coordination(settings: dict[str, object]) -> EtcdCoordination:
        opened.append(etcd_coordination(load(settings, directory=tmp_path)))
        return opened[-1]

    yield coordination
    for each in opened:
        await each.close()


async def test_who_shows_a_certificate_is_let_in(
    guarded: Callable[..., GuardedEtcd], meet: Opener, tmp_path: Path
) -> None:
    etcd = guarded()
    session = await meet(etcd.settings()).join("one", 5.0)
    assert await session.acquire({1, 2}) == {1, 2}
    assert (await session.view()).members == {"one"}

    with pytest.raises(Unavailable, match="believes the certificate"):
        await meet(etcd.settings(etcd_cert_file="", etcd_key_file="")).join("two", 5.0)
    (tmp_path / "other").mkdir()
    cert_file, key_file = Authority(tmp_path / "other", "stranger").certify("mainspring")
    stranger = etcd.settings(etcd_cert_file=str(cert_file), etcd_key_file=str(key_file))
    with pytest.raises(Unavailable):
        await meet(stranger).join("two", 5.0)
    assert (await session.view()).members == {"one"}
    found = [one async for one in findings(load(etcd.settings(), directory=tmp_path))]
    (of_etcd,) = (one.detail for one in found if one.check == "etcd")
    assert of_etcd.startswith("etcd 3.")


async def test_a_certificate_may_be_the_user_and_a_user_may_be_named_beside_it(
    guarded: Callable[..., GuardedEtcd], meet: Opener
) -> None:
    etcd = guarded()
    etcd.ask_for_users()
    for url in (etcd.server.url, f"https://mainspring:s3cret@{etcd.server.endpoint}"):
        session = await meet(etcd.settings(etcd_url=url)).join("one", 5.0)
        assert await session.acquire({1}) == {1}
        await session.leave()
        with pytest.raises(SetupError, match="rights"):
            await meet(etcd.settings(etcd_url=url, etcd_prefix="other")).join("one", 5.0)
    wrong = f"https://mainspring:wrong@{etcd.server.endpoint}"
    with pytest.raises(SetupError, match="user and password"):
        await meet(etcd.settings(etcd_url=wrong)).join("one", 5.0)


@pytest.mark.parametrize("token", ["simple", "jwt"])
async def test_a_session_outlives_changes_of_users_and_the_password_asked_for_later(
    guarded: Callable[..., GuardedEtcd], meet: Opener, tmp_path: Path, token: str
) -> None:
    how: tuple[str, ...] = ()
    if token == "jwt":
        cert_file, key_file = Authority(tmp_path, "signer").certify("signer")
        how = ("--auth-token", f"jwt,pub-key={cert_file},priv-key={key_file},sign-method=ES256")
    etcd = guarded(*how)
    url = f"https://mainspring:s3cret@{etcd.server.endpoint}"
    # Before it asks for anything; the certificate shown is of no user that it will know.
    cert_file, key_file = etcd.authority.certify("nobody")
    settings = etcd.settings(
        etcd_url=url, etcd_cert_file=str(cert_file), etcd_key_file=str(key_file)
    )
    session = await meet(settings).join("one", 30.0)
    etcd.ask_for_users()
    assert await session.renew()
    assert await session.acquire({1}) == {1}
    etcd.server.ctl("user", "add", "another:secret")
    assert await session.renew()
    etcd.server.ctl("user", "delete", "another")
    assert await session.acquire({2}) == {2}
    assert set((await session.view()).holders) == {1, 2}
    etcd.server.ctl("user", "revoke-role", "mainspring", "ours")
    with pytest.raises(SetupError, match="rights"):
        await session.acquire({3})


def test_certificates_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    cert_file, key_file = map(str, authority.certify("one"))
    _, other_key = map(str, authority.certify("two"))
    https = {"etcd_url": "https://a", "coordination": "etcd"}
    with pytest.raises(InvalidConfiguration, match="belong together"):
        load({**https, "etcd_cert_file": cert_file}, directory=tmp_path)
    with pytest.raises(InvalidConfiguration, match="over TLS"):
        load(
            {"etcd_url": "http://a", "etcd_cert_file": cert_file, "etcd_key_file": key_file},
            directory=tmp_path,
        )
    for cert, key, said in (
        (cert_file, "no.pem", r"etcd_key_file is .*no\.pem"),
        ("no.pem", key_file, r"etcd_cert_file is .*no\.pem"),
        (cert_file, other_key, "etcd_key_file .*two.key"),
        (key_file, key_file, "cannot be used"),
    ):
        settings = load({**https, "etcd_cert_file": cert, "etcd_key_file": key}, directory=tmp_path)
        with pytest.raises(InvalidConfiguration, match=said):
            etcd_options(settings)
