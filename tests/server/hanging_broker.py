"""A broker whose event loop stands still for as long as a file is there: `hanging_broker.py PROPERTIES FILE`.

Its threads go on. The loop waits in a callback of its own, as it would in a call that does not return.
"""

import asyncio
import sys
import threading
from pathlib import Path

from odradek.server.main import read_configuration, run_broker


def main() -> int:
    properties, file = sys.argv[1], Path(sys.argv[2])
    hangs = threading.Event()

    def look() -> None:
        while file.exists():  # the loop does not come round
            hangs.wait(0.01)
        asyncio.get_running_loop().call_later(0.01, look)

    return run_broker(read_configuration(properties), on_ready=lambda runtime: look())


if __name__ == "__main__":
    sys.exit(main())
