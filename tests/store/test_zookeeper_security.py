"""The settings of a connection: what they come to, and the sentence for what cannot be."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from odradek.model.errors import ConfigurationError
from odradek.model.settings import BrokerSettings
from odradek.store.zookeeper.security import (
    OPEN,
    OURS_ALONE,
    OURS_READ_BY_ALL,
    Security,
    openssl_name,
    user_of,
)

JAAS = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="broker" password="p w=;x";'


def settings(**given: str) -> BrokerSettings:
    return BrokerSettings({name.replace("_", "."): value for name, value in given.items()})


def tls(**given: str) -> ssl.SSLContext:
    context = Security.of(settings(zookeeper_ssl_client_enable="true", **given)).tls
    assert context is not None
    return context


def test_without_settings_nothing_is_encrypted_and_nothing_said() -> None:
    security = Security.of(settings())
    assert security.tls is None
    assert security.sasl_options() is None
    assert security.acl_of("/")("/brokers") == OPEN


def test_a_name_and_password_are_read_as_from_a_jaas_file() -> None:
    assert user_of(JAAS) == ("broker", "p w=;x")
    bare = "\n org.apache.zookeeper.server.auth.DigestLoginModule required\n username=u password=p\n;"
    assert user_of(bare) == ("u", "p")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "username=u password=secret",
        "org.apache.zookeeper.server.auth.DigestLoginModule required username=u;",
        'com.sun.security.auth.module.Krb5LoginModule required username="u" password="secret";',
    ],
)
def test_what_is_no_digest_login_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        user_of(text)
    assert str(caught.value).startswith("odradek.zookeeper.sasl.jaas.config: expected org.apache")
    assert "secret" not in str(caught.value)


def test_each_connection_gets_options_of_its_own() -> None:
    pytest.importorskip("puresasl", reason="pure-sasl is not installed")
    security = Security(user=("u", "p"))
    first = security.sasl_options()
    assert first == {"mechanism": "DIGEST-MD5", "username": "u", "password": "p"}
    first["service"] = "zookeeper"
    assert security.sasl_options() == {"mechanism": "DIGEST-MD5", "username": "u", "password": "p"}


@pytest.mark.parametrize("chroot", ["/", "/clusters/a"])
def test_acls_are_apaches(chroot: str) -> None:
    acl = Security(sets_acl=True).acl_of(chroot)
    root = "" if chroot == "/" else chroot
    for path in ("/brokers", "/brokers/topics/t", "/controller_epoch", "/config/topics/t"):
        assert acl(f"{root}{path}") == OURS_READ_BY_ALL, path
    for path in ("/config/users", "/config/users/u", "/config/brokers/1", "/delegation_token/tokens/x"):
        assert acl(f"{root}{path}") == OURS_ALONE, path
    assert acl(f"{root}/consumers") == OPEN


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256", "DHE-RSA-AES256-SHA256"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_suites_by_javas_name_or_openssls(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl
    names = [each["name"] for each in tls(zookeeper_ssl_cipher_suites=java).get_ciphers()]
    assert openssl in names
    # Those of TLS 1.3 are OpenSSL's to choose.
    assert {name for name in names if not name.startswith("TLS_")} == {openssl}


def test_versions() -> None:
    assert tls().minimum_version is ssl.TLSVersion.TLSv1_2
    assert tls().maximum_version is ssl.TLSVersion.MAXIMUM_SUPPORTED
    both = tls(zookeeper_ssl_enabled_protocols="TLSv1.3,TLSv1.2")
    assert (both.minimum_version, both.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    with pytest.raises(
        ConfigurationError, match=r"zookeeper\.ssl\.protocol: no version SSLv3; known: TLSv1,"
    ):
        tls(zookeeper_ssl_protocol="SSLv3")


def test_the_name_of_the_server_is_checked_unless_it_is_said_otherwise() -> None:
    assert tls().check_hostname
    assert not tls(zookeeper_ssl_endpoint_identification_algorithm="").check_hostname
    assert tls(zookeeper_ssl_endpoint_identification_algorithm="").verify_mode is ssl.CERT_REQUIRED


def test_revocation_lists_are_looked_at_when_asked_and_nobody_is_asked_online() -> None:
    assert not tls().verify_flags & ssl.VERIFY_CRL_CHECK_CHAIN
    assert tls(zookeeper_ssl_crl_enable="true").verify_flags & ssl.VERIFY_CRL_CHECK_CHAIN
    with pytest.raises(ConfigurationError, match="Python cannot ask for revocation online"):
        tls(zookeeper_ssl_ocsp_enable="true")


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("keys.jks", {}, "JKS"),
        ("keys.p12", {}, "P12"),
        ("keys", {"type": "PKCS12"}, "PKCS12"),
        ("keys", {}, "JAVA"),
    ],
)
@pytest.mark.parametrize("store", ["keystore", "truststore"])
def test_a_store_of_javas_is_refused_with_the_way_out(
    tmp_path: Path, store: str, name: str, kind: dict[str, str], said: str
) -> None:
    file = tmp_path / name
    file.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    given = {f"zookeeper_ssl_{store}_{option}": value for option, value in kind.items()}
    with pytest.raises(ConfigurationError) as caught:
        tls(**{f"zookeeper_ssl_{store}_location": str(file)}, **given)
    assert f"zookeeper.ssl.{store}.location={file} is no PEM file but a {said} key store" in str(caught.value)
    assert "keytool -importkeystore" in str(caught.value)
    assert "openssl pkcs12" in str(caught.value)


def test_files_that_are_not_there_or_hold_something_else(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.pem: No such file or directory"):
        tls(zookeeper_ssl_truststore_location=str(tmp_path / "none.pem"))
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("-----BEGIN NOTHING-----\n-----END NOTHING-----\n")
    with pytest.raises(ConfigurationError, match="expected certificates of authorities"):
        tls(zookeeper_ssl_truststore_location=str(wrong))
    with pytest.raises(
        ConfigurationError, match="expected a private key and its certificates, the password in"
    ):
        tls(zookeeper_ssl_keystore_location=str(wrong))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed: nobody makes the key")
def test_a_key_behind_a_password(tmp_path: Path) -> None:
    keys = tmp_path / "keys.pem"
    made = subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-days", "2", "-subj", "/CN=a"),
            *("-passout", "pass:secret", "-keyout", str(keys), "-out", str(tmp_path / "cert.pem")),
        ],
        capture_output=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    keys.write_bytes(keys.read_bytes() + (tmp_path / "cert.pem").read_bytes())
    tls(zookeeper_ssl_keystore_location=str(keys), zookeeper_ssl_keystore_password="secret")
    for password in ({}, {"zookeeper_ssl_keystore_password": "wrong"}):
        with pytest.raises(ConfigurationError, match=r"cannot be used .*the password in zookeeper\.ssl"):
            tls(zookeeper_ssl_keystore_location=str(keys), **password)
