"""`python -m odradek.server --config server.properties`: what `odradek start` does, without the command
line's imports.
"""

import sys
from pathlib import Path

# --log-file: standard output and error are this file, opened to append; it is not to grow for ever.
OPTIONS = ("--config", "--stop-when-closed", "--log-file")


def main(arguments: list[str]) -> int:
    from odradek.model.errors import ConfigurationError
    from odradek.server.exit_codes import CONFIGURATION
    from odradek.server.main import read_configuration, run_broker

    options: dict[str, str] = {}
    position = 0
    while position < len(arguments):
        name, equals, value = arguments[position].partition("=")
        if name not in OPTIONS or (not equals and position + 1 == len(arguments)):
            print(
                f"odradek: {arguments[position]}: no such option, or its value is missing; "
                "--config FILE [--stop-when-closed DESCRIPTOR] [--log-file FILE] would do",
                file=sys.stderr,
            )
            return CONFIGURATION
        options[name] = value if equals else arguments[position + 1]
        position += 1 if equals else 2
    try:
        if "--config" not in options:
            raise ConfigurationError("--config is missing; name the properties file of this broker")
        settings = read_configuration(options["--config"])
    except ConfigurationError as error:
        print(f"odradek: {error}", file=sys.stderr)
        return CONFIGURATION
    descriptor, log_file = options.get("--stop-when-closed"), options.get("--log-file")
    return run_broker(
        settings,
        stop_when_closed=None if descriptor is None else int(descriptor),
        log_file=None if log_file is None else Path(log_file),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
