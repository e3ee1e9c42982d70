"""What went wrong in a query, in the one sentence that says it, out of the two hundred lines that Spark makes of it."""

import re

_LAST_LINE = re.compile(r"(?P<where>[\w.]+): (?P<what>.+)")
_NOT_FOUND = re.compile(r"DATA_SOURCE_NOT_FOUND.*\bodradek")
# Of who comes second to note where a batch ends, or that it is done.
_TWO_DRIVERS = re.compile(r"CONCURRENT_STREAM_LOG_UPDATE.*?(\d+)\.")
# Of Hadoop, whose checksum of a/b is a/.b.crc.
_DAMAGED = re.compile(r"Checksum error: (?:file:)?(.+?) at \d+ exp: -?\d+ got: ")


def is_of_a_dead_jvm(error: BaseException) -> bool:
    """py4j asks the JVM over a socket."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, ConnectionError) or "Py4JNetworkError" in kinds


def is_of_a_lost_server(error: BaseException) -> bool:
    """Spark Connect's client asks for ten minutes before it gives up, and what it is told is of a class below this one."""
    return type(error).__name__ == "SparkConnectGrpcException"


def sentence_of(error: BaseException) -> str:
    """The last line of the Python traceback in Spark's message, ours if there is one of ours; else Spark's first line."""
    lines = str(error).splitlines()
    if is_of_a_dead_jvm(error):
        return "Spark's JVM has ended: it was killed, or had no memory left. The same command resumes"
    if _NOT_FOUND.search(str(error)):
        return (
            "the Python that Spark starts does not have this package; pip install 'odradek[spark]' there, or name one that "
            "has it by PYSPARK_PYTHON where Spark (or its Connect server) is started"
        )
    if two := _TWO_DRIVERS.search(str(error)):
        return (
            f"another driver goes on with the same checkpoint, and has come to batch {two[1]} meanwhile: nothing is lost or doubled; "
            f"let one of them run, and give the other a checkpoint and a name of its own where it is meant to be another job"
        )
    if damaged := _DAMAGED.search(str(error)):
        directory, _, name = damaged[1].rpartition("/")
        return (
            f"{damaged[1]} is not what its checksum {directory}/.{name}.crc was made of: it is damaged or edited, or two drivers have "
            f"written it at once. Put both back as they were; where the file itself is right, delete the checksum"
        )
    found: list[tuple[str, str]] = []
    is_in_traceback = False
    for line in lines:
        text = line.strip()
        if "Traceback (most recent call last):" in text:  # the first of them stands behind words of Spark's
            is_in_traceback = True
        elif is_in_traceback and not line.startswith((" ", "\t")):
            if match := _LAST_LINE.fullmatch(text):
                found.append((match["where"], match["what"]))
            is_in_traceback = False
    missing = [what for where, what in found if where == "ModuleNotFoundError"]
    if missing:
        return (
            f"a Python that Spark starts lacks a package: {missing[-1]}. It needs what pip install 'odradek[spark]' installs; "
            f"PYSPARK_PYTHON names another, and to workers of a cluster `odradek spark pack` brings it"
        )
    ours = [what for where, what in found if where.startswith("odradek.")]
    if ours:
        return ours[-1]
    if found:
        where, what = found[-1]
        return f"{where}: {what}"
    # The words of Spark's parser begin with an empty line; those of its analysis go on with the plan.
    return next((line.strip().rstrip(";") for line in lines if line.strip()), type(error).__name__)
