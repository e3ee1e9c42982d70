"""What a cluster of tests is asked for, looked at before anything is started."""

from collections.abc import Mapping
from pathlib import Path

from odradek.model.counted import counted
from odradek.model.errors import ConfigurationError
from odradek.model.ids import LAST_PORT


def checked_settings(brokers: int, settings: Mapping[str, str] | None) -> dict[str, str]:
    """A copy of them. ConfigurationError for a cluster without a broker, and for a value that is no text: settings are
    those of a properties file."""
    if brokers < 1:
        raise ConfigurationError(f"{brokers} brokers: a cluster has one at least")
    return checked_texts(settings or {})


def checked_texts(settings: Mapping[str, str]) -> dict[str, str]:
    for name, value in settings.items():
        if not isinstance(value, str):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            raise ConfigurationError(f"{name}: {value!r} is no text; as in a file: {text!r}")
    return dict(settings)


def checked_ports(first: int, count: int, what: str = "first_port") -> list[int]:
    """ConfigurationError where there are not as many from `first` on."""
    if not 0 < first <= LAST_PORT - count + 1:
        raise ConfigurationError(
            f"{what} {first}: {counted(count, 'broker')} need ports from there on, of 1 to {LAST_PORT}"
        )
    return [first + number for number in range(count)]


def checked_directory(directory: Path) -> Path:
    """ConfigurationError where `log.dirs` could not name what is below it: brokers would write elsewhere."""
    name = str(directory)
    if "," in name:
        raise ConfigurationError(
            f"directory {name}: log.dirs has a comma between two directories; name one without"
        )
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"directory {name!r}: a file of settings is UTF-8, and this is not; name another"
        ) from None
    return directory
