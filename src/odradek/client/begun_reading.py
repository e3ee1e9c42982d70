"""A transport that is told in `connection_made` to pause, and begins to read behind it all the same."""

import asyncio


def pause_begun(transport: asyncio.ReadTransport) -> None:
    """Called in the turn after `connection_made`, in which `transport.pause_reading()` was.

    uvloop's transports and asyncio's before Python 3.11.4 begin to read behind `connection_made`. The latter say that they do not
    read, and so hear only who lets them read first.
    """
    transport.resume_reading()
    transport.pause_reading()
