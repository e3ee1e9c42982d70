"""A session over Spark Connect. Driver, JVM and tasks are the server's; this process needs neither Java nor Spark's jars.

The server's Python has to have this package, and its machines see the directories of tables, jobs and checkpoints. Core count
and memory are the server's own. Queries end with the session: with this process, or when the server has not heard from
it for as long as `spark.connect.session.manager.defaultSessionTimeout` says.
"""

import re
import socket
from contextlib import closing
from typing import TYPE_CHECKING, cast

from odradek.model.errors import OdradekError
from odradek.spark.session import NoSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_PORT = 15002
ANSWER_S = 10.0
# sc://HOST, sc://HOST:PORT, and Spark's own parameters behind it, as sc://HOST:PORT/;token=...
ADDRESS = re.compile(r"sc://(?P<host>[^/:;]+)(:(?P<port>\d+))?(/.*)?")


class NoServer(OdradekError):
    """Nobody listens where the Spark Connect server was said to be."""


def is_remote(master: str) -> bool:
    return master.startswith("sc://")


def shown(master: str) -> str:
    """Without Spark's own parameters, of which a token is one."""
    return "/".join(master.split("/", 3)[:3])


def remote_session(master: str) -> "SparkSession":
    """A new session of the server's. NoServer within ten seconds, where Spark itself tries for as many minutes."""
    found = ADDRESS.fullmatch(master)
    assert found is not None, "checked before"
    address = found["host"], int(found["port"] or DEFAULT_PORT)
    _check_listens(*address)
    try:
        import grpc
        from pyspark.sql.connect.client import DefaultChannelBuilder
        from pyspark.sql.connect.session import SparkSession as RemoteSession
    except ImportError as error:
        raise NoSpark(
            f"--master {shown(master)} needs what PySpark takes for Spark Connect; pip install 'odradek[connect]' brings it "
            f"({str(error).splitlines()[0]})"
        ) from None
    with closing(DefaultChannelBuilder(master).toChannel()) as channel:
        try:
            grpc.channel_ready_future(channel).result(ANSWER_S)
        except grpc.FutureTimeoutError:
            raise NoServer(f"what listens at {address[0]}:{address[1]} is no Spark Connect server") from None
    session = RemoteSession.builder.remote(master).create()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return cast("SparkSession", session)  # one interface, two classes


def _check_listens(host: str, port: int) -> None:
    try:
        with closing(socket.create_connection((host, port), ANSWER_S)):
            pass
    except OSError as error:
        raise NoServer(
            f"no Spark Connect server answers at {host}:{port}: {error.strerror or error}; it is started by "
            f"`spark-submit --class org.apache.spark.sql.connect.service.SparkConnectServer spark-internal`"
        ) from None
