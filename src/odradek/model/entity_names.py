"""Names of users, clients and addresses as parts of a path, as Kafka's Sanitizer writes them.

Java's URLEncoder, with a space as %20 and `*` as %2A.
"""

_UNESCAPED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


def escape_entity(name: str) -> str:
    return "".join(c if c in _UNESCAPED else "".join(f"%{byte:02X}" for byte in c.encode()) for c in name)


def unescape_entity(name: str) -> str:
    from urllib.parse import unquote  # only who describes quotas pays for it

    return unquote(name)
