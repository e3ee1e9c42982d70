"""How a session is kept safe: TLS, who we say we are (SASL), and who may touch what we make (ACLs).

The settings are Apache's, save one: Java reads a client's name and password from a JAAS file that a system property
names, and there is no such thing here, so `odradek.zookeeper.sasl.jaas.config` holds the text itself.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from odradek.model.errors import ConfigurationError
from odradek.model.settings import BrokerSettings
from odradek.store.zookeeper.requests import AccessControl, encode_acl

OPEN = encode_acl([AccessControl(AccessControl.ALL, "world", "anyone")])
_OURS_ALONE = AccessControl(AccessControl.ALL, "auth", "")
_READ_BY_ALL = AccessControl(AccessControl.READ, "world", "anyone")
OURS_READ_BY_ALL = encode_acl([_OURS_ALONE, _READ_BY_ALL])
OURS_ALONE = encode_acl([_OURS_ALONE])

# As Apache's: what is below these can hold passwords; consumers of old wrote below `/consumers` themselves.
_SECRET = ("/config/users", "/config/brokers", "/delegation_token/tokens")
_OPEN_TO_ALL = "/consumers"

_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_JAAS = re.compile(r'\s*(?P<module>[\w.$]+)\s+\w+\s+(?P<options>(?:\w+\s*=\s*(?:"[^"]*"|[^\s";]+)\s*)*);?\s*')
_JAAS_OPTION = re.compile(r'(\w+)\s*=\s*(?:"([^"]*)"|([^\s";]+))')
_DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"


class Security:
    """Without arguments: a plain connection that says nothing about itself, and nodes for everybody."""

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        user: tuple[str, str] | None = None,
        sets_acl: bool = False,
    ) -> None:
        if user is not None and find_spec("puresasl") is None:
            raise ConfigurationError(
                "odradek.zookeeper.sasl.jaas.config needs pure-sasl: pip install 'odradek[zookeeper]'"
            )
        self.tls = tls
        self.user = user
        self.sets_acl = sets_acl

    @classmethod
    def of(cls, settings: BrokerSettings) -> Security:
        jaas = settings.odradek_zookeeper_sasl_jaas_config
        return cls(
            tls=_tls(settings) if settings.zookeeper_ssl_client_enable else None,
            user=None if jaas is None else user_of(jaas),
            sets_acl=settings.zookeeper_set_acl,
        )

    def sasl_options(self) -> dict[str, Any] | None:
        """kazoo adds to what it is given, so each connection gets its own."""
        if self.user is None:
            return None
        name, password = self.user
        return {"mechanism": "DIGEST-MD5", "username": name, "password": password}

    def acl_of(self, chroot: str) -> Callable[[str], bytes]:
        """The ACL of a new node; the path is the whole one."""
        if not self.sets_acl:
            return lambda path: OPEN
        skipped = 0 if chroot == "/" else len(chroot)

        def acl(path: str) -> bytes:
            inner = path[skipped:]
            if inner == _OPEN_TO_ALL:
                return OPEN
            return OURS_ALONE if inner.startswith(_SECRET) else OURS_READ_BY_ALL

        return acl


def user_of(jaas: str) -> tuple[str, str]:
    """`...DigestLoginModule required username="u" password="p";`, as in the Client section of a JAAS file."""
    match = _JAAS.fullmatch(jaas)
    options = {
        n: quoted or bare for n, quoted, bare in _JAAS_OPTION.findall(match["options"] if match else "")
    }
    if match is None or match["module"] != _DIGEST or not options.keys() >= {"username", "password"}:
        # Not a word of what was found: it holds a password.
        raise ConfigurationError(
            f'odradek.zookeeper.sasl.jaas.config: expected {_DIGEST} required username="..." password="...";'
        )
    return options["username"], options["password"]


# ---- TLS


def _tls(settings: BrokerSettings) -> ssl.SSLContext:
    if settings.zookeeper_ssl_ocsp_enable:
        raise ConfigurationError(
            "zookeeper.ssl.ocsp.enable=true: Python cannot ask for revocation online. Use lists of revoked "
            "certificates (zookeeper.ssl.crl.enable), in the trust store's file"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(settings.zookeeper_ssl_endpoint_identification_algorithm)
    _set_versions(context, settings)
    if settings.zookeeper_ssl_cipher_suites:
        names = [openssl_name(suite) for suite in settings.zookeeper_ssl_cipher_suites]
        try:
            context.set_ciphers(":".join(names))
        except ssl.SSLError as error:
            raise ConfigurationError(
                f"zookeeper.ssl.cipher.suites: OpenSSL knows none of {', '.join(names)}"
            ) from error
    trust = _pem(
        "truststore", settings.zookeeper_ssl_truststore_location, settings.zookeeper_ssl_truststore_type
    )
    if trust is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _load("truststore", trust, lambda: context.load_verify_locations(trust))
    if settings.zookeeper_ssl_crl_enable:
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
    keys = _pem("keystore", settings.zookeeper_ssl_keystore_location, settings.zookeeper_ssl_keystore_type)
    if keys is not None:
        # Empty rather than none: with none OpenSSL would ask at the terminal.
        password = settings.zookeeper_ssl_keystore_password or ""
        _load("keystore", keys, lambda: context.load_cert_chain(keys, password=password))
    return context


def _set_versions(context: ssl.SSLContext, settings: BrokerSettings) -> None:
    """`enabled.protocols` as listed, from the oldest to the newest; without it, `protocol` and newer."""
    enabled: Sequence[str] | None = settings.zookeeper_ssl_enabled_protocols
    named = list(enabled) if enabled else [settings.zookeeper_ssl_protocol]
    unknown = [name for name in named if name not in _VERSIONS]
    if unknown:
        setting = "zookeeper.ssl.enabled.protocols" if enabled else "zookeeper.ssl.protocol"
        raise ConfigurationError(f"{setting}: no version {unknown[0]}; known: {', '.join(_VERSIONS)}")
    versions = sorted(_VERSIONS[name] for name in named)
    context.minimum_version = versions[0]
    if enabled:
        context.maximum_version = versions[-1]


def _pem(store: str, location: str | None, kind: str | None) -> str | None:
    """The store's file, if there is one and Python can read it."""
    if location is None:
        return None
    name = f"zookeeper.ssl.{store}"
    try:
        begin = Path(location).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{name}.location={location}: {error.strerror}") from error
    if b"-----BEGIN " in begin:
        return location
    kind = kind or Path(location).suffix.lstrip(".") or "Java"
    raise ConfigurationError(
        f"{name}.location={location} is no PEM file but a {kind.upper()} key store, which Python cannot read. "
        f"Convert it: keytool -importkeystore -srckeystore {location} -destkeystore store.p12 -deststoretype "
        f"PKCS12; openssl pkcs12 -in store.p12 -out store.pem; then {name}.location=store.pem and {name}.type=PEM"
    )


def _load(store: str, location: str, load: Callable[[], None]) -> None:
    try:
        load()
    except ssl.SSLError as error:
        wants = (
            "certificates of authorities"
            if store == "truststore"
            else "a private key and its certificates, the password in zookeeper.ssl.keystore.password"
        )
        raise ConfigurationError(
            f"zookeeper.ssl.{store}.location={location} cannot be used ({error.reason or error}); expected {wants}"
        ) from error


def openssl_name(suite: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, as Java has it: ECDHE-RSA-AES256-GCM-SHA384, as OpenSSL has it."""
    if "_WITH_" not in suite:  # TLS 1.3's have one name; so has what is written as OpenSSL wants it
        return suite
    exchange, cipher = suite.removeprefix("TLS_").split("_WITH_")
    cipher = re.sub(r"(AES|CAMELLIA)_(\d+)", r"\1\2", cipher).replace("_CBC", "")
    name = cipher if exchange == "RSA" else f"{exchange}_{cipher}"
    return name.replace("_", "-")
