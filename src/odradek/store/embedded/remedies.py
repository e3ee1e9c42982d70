"""What to do where the system refuses something: a want that passes asks for something else than a file of another user."""

import errno
import os

from odradek.model.remedies import MORE_DESCRIPTORS

NO_DESCRIPTOR = f"No file descriptor is left: {MORE_DESCRIPTORS}"
_REMEDIES = {
    errno.EMFILE: NO_DESCRIPTOR,
    errno.ENFILE: NO_DESCRIPTOR,
    errno.ENOSPC: "On its disk, free space",
    errno.EDQUOT: "On its disk, free space or raise the quota",
    errno.ENOMEM: "The kernel has no memory for it: give the machine, or the container, more",
    errno.ENOLCK: "The kernel has no memory for a lock: give the machine, or the container, more",
}


def remedy_of(error: OSError, otherwise: str) -> str:
    """`otherwise`: of what does not pass by itself."""
    return _REMEDIES.get(error.errno or 0, otherwise)


def is_out_of_descriptors() -> bool:
    """For whoever was told only that a file cannot be opened."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return False
