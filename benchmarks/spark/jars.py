"""What ours is compared with, from Maven Central by `mvn`: Spark's Kafka connector, and delta-spark."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

# The newest the connector was published for (it runs on pyspark 4.3 too), and all that it needs. Named one by
# one: Spark's own POM would send Maven to a mirror that not every network reaches.
CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",  # 4.2.0 of it is not served
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
)
DELTA = ("io.delta:delta-spark_4.2_2.13:4.4.0", "io.delta:delta-storage:4.4.0")  # of 4.4.1 there is none here
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>x</groupId><artifactId>x</artifactId><version>1</version><dependencies>{}</dependencies></project>"""
_DEPENDENCY = """<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version><exclusions>
<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"""


class NoJars(Exception):
    """The message says why."""


def fetched(wanted: Sequence[str], directory: Path) -> list[str]:
    """The jars `group:artifact:version`, and nothing that they ask for; those that are there already are not asked for again."""
    names = ["{1}-{2}.jar".format(*jar.split(":")) for jar in wanted]
    paths = [directory / "jars" / name for name in names]
    if not all(path.exists() for path in paths):
        if not shutil.which("mvn"):
            raise NoJars("no mvn on this machine to fetch its jars")
        directory.mkdir(parents=True, exist_ok=True)
        dependencies = "".join(_DEPENDENCY.format(*jar.split(":")) for jar in wanted)
        (directory / "pom.xml").write_text(_POM.format(dependencies), encoding="utf-8")
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stdout + done.stderr).strip().splitlines()[:1]
            raise NoJars(f"Maven does not serve its jars here ({' '.join(said)[:160]})")
    return [str(path) for path in paths]
