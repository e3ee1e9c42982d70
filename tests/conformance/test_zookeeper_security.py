"""TLS, SASL and ACLs against a real server; a clear sentence for each way to be turned away."""

import asyncio
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from odradek.model.settings import BrokerSettings
from odradek.store.api import NotAllowed, SessionState, Store, StoreUnavailable
from odradek.store.zookeeper.stores import ZooKeeperStores
from odradek.testing.zookeeper import ZooKeeperServer, missing
from tests.conformance.worlds import LONG_MS, until

pytestmark = [pytest.mark.process, pytest.mark.slow]

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"
PASSWORD = "test-password"


def openssl(*arguments: object) -> None:
    made = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, check=False)
    assert made.returncode == 0, made.stderr.decode()


class Certificates:
    """An authority; a server that it names 127.0.0.1, a client, and a client of nobody's."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = directory / "authority.pem"
        key = directory / "authority.key"
        openssl(
            *(
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "2",
            ),
            *("-subj", "/CN=authority", "-keyout", key, "-out", self.authority),
        )
        self.server = self.signed("server", "subjectAltName=IP:127.0.0.1")
        self.client = self.signed("client", "subjectAltName=DNS:client")
        self.elsewhere = self.signed("elsewhere", "subjectAltName=DNS:elsewhere")

    def signed(self, name: str, extension: str) -> Path:
        """Key and certificate in one PEM file."""
        key, request, certificate = (self.directory / f"{name}.{kind}" for kind in ("key", "csr", "crt"))
        openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-subj", f"/CN={name}", "-keyout", key, "-out", request),
        )
        (self.directory / f"{name}.ext").write_text(extension)
        openssl(
            *(
                "x509",
                "-req",
                "-in",
                request,
                "-CA",
                self.authority,
                "-CAkey",
                self.directory / "authority.key",
            ),
            *("-days", "2", "-extfile", self.directory / f"{name}.ext", "-out", certificate),
        )
        both = self.directory / f"{name}.pem"
        both.write_bytes(key.read_bytes() + certificate.read_bytes())
        return both


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not on the path")
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secure(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A port for TLS, on which a client shows its certificate, and a plain one, where it may give a password."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("secure")
    jaas = directory / "jaas.conf"
    jaas.write_text(f'Server {{ {DIGEST} required user_broker="{PASSWORD}" user_other="other"; }};\n')
    from odradek.testing.process_cluster import free_ports

    plain, tls = free_ports(2)
    server = ZooKeeperServer(
        directory,
        port=plain,
        settings={
            "secureClientPort": str(tls),
            "secureClientPortAddress": "127.0.0.1",
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": str(certificates.server),
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": str(certificates.authority),
            "ssl.trustStore.type": "PEM",
            "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        },
        properties={"java.security.auth.login.config": str(jaas)},
    )
    server.tls_address = f"127.0.0.1:{tls}"  # type: ignore[attr-defined]
    try:
        yield server.start()
    finally:
        server.kill()


def by_tls(server: ZooKeeperServer, certificates: Certificates, **more: str) -> ZooKeeperStores:
    given = {
        "zookeeper_connect": server.tls_address,  # type: ignore[attr-defined]
        "zookeeper_ssl_client_enable": "true",
        "zookeeper_ssl_truststore_location": str(certificates.authority),
        "zookeeper_ssl_keystore_location": str(certificates.client),
        "zookeeper_connection_timeout_ms": "60000",
        **more,
    }
    return stores(given)


def by_password(server: ZooKeeperServer, user: str, password: str, **more: str) -> ZooKeeperStores:
    jaas = f'{DIGEST} required username="{user}" password="{password}";'
    return stores(
        {
            "zookeeper_connect": server.address,
            "odradek_zookeeper_sasl_jaas_config": jaas,
            "zookeeper_connection_timeout_ms": "60000",
            **more,
        }
    )


def stores(given: dict[str, str]) -> ZooKeeperStores:
    return ZooKeeperStores.of(
        BrokerSettings({name.replace("_", "."): value for name, value in given.items()})
    )


def session_of(made: ZooKeeperStores, scenario: Callable[[Store], Awaitable[None]]) -> None:
    async def run() -> None:
        session = await made.open_session(LONG_MS)
        try:
            await scenario(session)
        finally:
            await session.close()

    asyncio.run(run())


def refusal_of(made: ZooKeeperStores) -> str:
    async def open_and_close() -> None:
        await (await made.open_session(LONG_MS)).close()

    with pytest.raises(StoreUnavailable) as caught:
        asyncio.run(open_and_close())
    return str(caught.value)


def refuses(words: str, made: Callable[[str], ZooKeeperStores]) -> None:
    """Only the end of `zookeeper.connection.timeout.ms` tells, for a server may come up. On a busy machine a short one
    may end before the first attempt."""
    said = ""
    for patience_ms in (500, 2_000, 20_000):
        said = refusal_of(made(str(patience_ms)))
        if words in said:
            return
    raise AssertionError(f"{words!r} is not in {said!r}")


def test_a_session_over_tls(secure: ZooKeeperServer, certificates: Certificates) -> None:
    async def scenario(session: Store) -> None:
        await session.create("/tls", b"0")
        heard = []
        session.listen(on_watch=heard.append)
        await session.get_many(["/tls", "/none"], watch=True)
        # Many small answers in one TLS record: what is decrypted already must not wait for more to come.
        await asyncio.gather(*[session.set("/tls", b"x" * 100) for _ in range(300)])
        await asyncio.gather(*[session.get("/tls") for _ in range(300)])
        large = b"y" * 900_000
        await session.set("/tls", large)
        assert (await session.get("/tls")).data == large
        await until(lambda: heard)
        await session.delete("/tls")

    session_of(by_tls(secure, certificates), scenario)


def test_over_tls_strangers_are_turned_away_with_the_reason(
    secure: ZooKeeperServer, certificates: Certificates
) -> None:
    # We do not trust the server.
    other = certificates.directory / "other-authority.pem"
    openssl(*("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=o"),
            *("-keyout", certificates.directory / "o.key", "-out", other))  # fmt: skip

    def over_tls(patience_ms: str, **more: str) -> ZooKeeperStores:
        return by_tls(secure, certificates, zookeeper_connection_timeout_ms=patience_ms, **more)

    refuses(
        "certificate verify failed",
        lambda patience_ms: over_tls(patience_ms, zookeeper_ssl_truststore_location=str(other)),
    )
    # It is not whom its certificate names.
    tls = secure.tls_address  # type: ignore[attr-defined]
    localhost = tls.replace("127.0.0.1", "localhost")
    refuses("Hostname mismatch", lambda patience_ms: over_tls(patience_ms, zookeeper_connect=localhost))
    # The two sides do not speak of the same thing.
    refuses(
        "do both sides speak without TLS?",
        lambda patience_ms: stores(
            {"zookeeper_connect": tls, "zookeeper_connection_timeout_ms": patience_ms}
        ),
    )
    refuses(
        "do both sides speak TLS?",
        lambda patience_ms: over_tls(patience_ms, zookeeper_connect=secure.address),
    )


def test_with_acls_what_we_make_is_ours(secure: ZooKeeperServer) -> None:
    ours = by_password(secure, "broker", PASSWORD, zookeeper_set_acl="true")

    async def scenario(session: Store) -> None:
        await session.create("/brokers", b"0")
        for path in ("/config", "/config/users"):
            await session.create(path, b"0")
        await session.create("/consumers")
        others = [
            await by_password(secure, "other", "other").open_session(LONG_MS),
            await stores({"zookeeper_connect": secure.address}).open_session(LONG_MS),
        ]
        for other in others:
            assert (await other.get("/brokers")).data == b"0"
            with pytest.raises(
                NotAllowed, match="does not let this broker at /brokers: the node's ACL names others"
            ):
                await other.set("/brokers", b"1")
            with pytest.raises(NotAllowed):
                await other.create("/brokers/ids")
            with pytest.raises(NotAllowed):
                await other.get("/config/users")
            await other.set("/consumers", b"1")
            assert other.state is SessionState.CONNECTED
            await other.close()
        await session.set("/config/users", b"2")
        for path in ("/config/users", "/config", "/brokers", "/consumers"):
            await session.delete(path)

    session_of(ours, scenario)


def test_an_acl_of_nobody_is_refused(secure: ZooKeeperServer) -> None:
    async def scenario(session: Store) -> None:
        with pytest.raises(
            NotAllowed, match=r"zookeeper\.set\.acl=true wants a connection that says who it is"
        ):
            await session.create("/brokers")

    session_of(stores({"zookeeper_connect": secure.address, "zookeeper_set_acl": "true"}), scenario)


def test_a_certificate_says_who_we_are_too(secure: ZooKeeperServer, certificates: Certificates) -> None:
    async def scenario(session: Store) -> None:
        await session.create("/mine", b"0")
        other = await by_password(secure, "broker", PASSWORD).open_session(LONG_MS)
        with pytest.raises(NotAllowed):
            await other.set("/mine", b"1")
        await other.close()
        await session.delete("/mine")

    session_of(by_tls(secure, certificates, zookeeper_set_acl="true"), scenario)


def test_a_wrong_password_is_said_at_once(secure: ZooKeeperServer) -> None:
    refusal = refusal_of(by_password(secure, "broker", "wrong"))
    # The second, where the connection has ended before the refusal was heard.
    assert "ZooKeeper refuses this broker's credentials" in refusal or "are its credentials right?" in refusal
