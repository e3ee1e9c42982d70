"""Names of users, clients and addresses as parts of a path, as Kafka's Sanitizer writes them.

Java's URLEncoder, with a space as %20 and `*` as %2A.
"""

_UNESCAPED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


def escape_entity(name: str) -> str:
    if _UNESCAPED.issuperset(name):
        return name
    from urllib.parse import quote  # only a name like that pays for it

    return quote(name, safe="").replace("~", "%7E")


def unescape_entity(name: str) -> str:
    from urllib.parse import unquote  # only who describes quotas pays for it

    return unquote(name)
