"""Work in children of this process, some at a time: what they need is imported and warm here, and what they make ends with them."""

import gc
import os
import pickle
import selectors
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, NoReturn

PIECE_BYTES = 1 << 20


class Child(NamedTuple):
    process_id: int
    told: bytearray


def in_children(works: Iterable[Callable[[], object]], at_once: int) -> Iterator[bytes]:
    """What each of `works` returns, pickled, in the order in which they end. The next one is asked for when a child may begin with it."""
    waiting = iter(works)
    with selectors.DefaultSelector() as selector:
        while True:
            while len(selector.get_map()) < at_once and (work := next(waiting, None)) is not None:
                _begin(work, selector)
            if not selector.get_map():
                return
            for key, _ in selector.select():
                pipe, child = key.fd, key.data
                piece = os.read(pipe, PIECE_BYTES)
                child.told.extend(piece)
                if not piece:
                    selector.unregister(pipe)
                    os.close(pipe)
                    yield _told_by(child)


def _begin(work: Callable[[], object], selector: selectors.BaseSelector) -> None:
    reading, writing = os.pipe()
    process_id = os.fork()
    if not process_id:
        _be_a_child(work, writing)
    os.close(writing)
    selector.register(reading, selectors.EVENT_READ, Child(process_id, bytearray()))


def _told_by(child: Child) -> bytes:
    _, status = os.waitpid(child.process_id, 0)
    if status:
        raise ChildProcessError(f"a world ended its process: exit code {os.waitstatus_to_exitcode(status)}")
    return bytes(child.told)


def _be_a_child(work: Callable[[], object], writing: int) -> NoReturn:
    """Collects nothing, and nothing of it is let go of one by one."""
    code = 1
    try:
        gc.disable()
        told = pickle.dumps(work())
        with open(writing, "wb") as pipe:
            pipe.write(told)
        code = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)
