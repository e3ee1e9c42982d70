"""Why a broker ended, as a number for scripts. The sentence that goes with it is on standard error."""

from odradek.log.errors import DirectoryInUse, DiskFull, DiskReadOnly, StorageError, WrongDirectory
from odradek.model.errors import ConfigurationError
from odradek.server.listener import CannotListen, PortInUse
from odradek.server.registration import BrokerIdInUse
from odradek.store.api import StoreError

STOPPED_IN_ORDER = 0
FAILED = 1
CONFIGURATION = 2
PORT = 3
LOG_DIRECTORY = 4
DISK = 5
STORE = 6
BROKER_ID = 7

# First match counts.
_CODES: tuple[tuple[type[Exception], int], ...] = (
    (ConfigurationError, CONFIGURATION),
    (PortInUse, PORT),
    (CannotListen, PORT),
    (DirectoryInUse, LOG_DIRECTORY),
    (WrongDirectory, LOG_DIRECTORY),
    (DiskFull, DISK),
    (DiskReadOnly, DISK),
    (StorageError, DISK),
    (BrokerIdInUse, BROKER_ID),
    (StoreError, STORE),
)


def exit_code_of(error: BaseException) -> int | None:
    """None: nothing we foresaw, so the trace is wanted."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return None
