"""What a cluster of tests is asked for, looked at before anything is started."""

from collections.abc import Mapping

from odradek.model.errors import ConfigurationError


def checked_settings(brokers: int, settings: Mapping[str, str] | None) -> dict[str, str]:
    """A copy of them. ConfigurationError for a cluster without a broker, and for a value that is no text: settings are
    those of a properties file."""
    if brokers < 1:
        raise ConfigurationError(f"{brokers} brokers: a cluster has one at least")
    for name, value in (settings or {}).items():
        if not isinstance(value, str):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            raise ConfigurationError(f"{name}: {value!r} is no text; as in a file: {text!r}")
    return dict(settings or {})
