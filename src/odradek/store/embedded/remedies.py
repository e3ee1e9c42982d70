"""What to do where the system refuses something: a want that passes asks for something else than a file of another user."""

import errno
import os
import resource

from odradek.model.remedies import LARGER_FILES, MORE_DESCRIPTORS

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


def small_files() -> str:
    """For whoever was told only that a file could not be written: of a limit, the first thing to look at; else nothing."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit == resource.RLIM_INFINITY:
        return ""
    return f"No file may become larger than {limit} bytes here: {LARGER_FILES}. Where none is as large: "
