"""A server forgets the watches of a connection that is lost. Whoever comes back arms them again, is told what differs
from when they were armed, and never hears of what came and went in between (`store.zookeeper.watches`, whose rule
this uses)."""

from typing import NamedTuple

from odradek.store.api import NoNode, Stat, WatchEvent
from odradek.store.memory import Tree
from odradek.store.memory_session import MemorySession
from odradek.store.zookeeper.watches import missed


class Armed(NamedTuple):
    """What a session had armed when it lost touch, and what it had not heard yet of what fired before."""

    data: dict[str, Stat | None]
    children: dict[str, Stat]
    unheard: tuple[WatchEvent, ...]


def armed(tree: Tree, session: MemorySession) -> Armed:
    me = session.session_id
    known = tree.sessions[me]
    children = {path: tree.exists(me, path) for path in known.children_watches}
    return Armed(
        {path: tree.exists(me, path) for path in known.data_watches},
        {path: stat for path, stat in children.items() if stat is not None},
        session.unheard(),
    )


def arm_again(tree: Tree, session: MemorySession, then: Armed) -> None:
    me = session.session_id
    news = list(
        missed(
            then.data,
            then.children,
            {path: tree.exists(me, path) for path in then.data},
            {path: tree.exists(me, path) for path in then.children},
        )
    )
    told = {event.path for event in news}
    for path in then.data:
        if path not in told:
            tree.exists(me, path, watch=True)
    for path in then.children:
        if path not in told:
            try:
                tree.children(me, path, watch=True)
            except NoNode as error:  # then its end is among the news
                raise AssertionError(f"{path} is gone, and nobody is told") from error
    session.hear_instead((*then.unheard, *news))
