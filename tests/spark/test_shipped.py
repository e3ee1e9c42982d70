"""Our package is installed nowhere and travels by `--py-files`: a stream starts, too, though Spark plans it elsewhere."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.client.sync import SyncClient
from odradek.spark.pack import pack_pure
from odradek.spark.session import find_java
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.conftest import fill
from tests.support import SHORT_LIVED_JAVA

JOB = """
import os
import sys
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .getOrCreate()
)
import odradek
from odradek.spark.sink import register
from odradek.spark.tables import open_table

register(spark)
bootstrap, topic, table = sys.argv[1:]
(
    spark.readStream.format("odradek")
    .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"})
    .load()
    .writeStream.format("odradek-delta")
    .options(table=table, appId="shipped", checkpointLocation=table + "-checkpoint")
    .trigger(availableNow=True)
    .start()
    .awaitTermination()
)
print("from", odradek.__file__)
print("rows", open_table(table).to_pyarrow_table().num_rows, flush=True)
spark.stop()
# A daemon thread of Spark's that writes while the interpreter ends aborts it (134), once in a few runs.
os._exit(0)
"""


@pytest.mark.spark
def test_a_stream_starts_where_the_package_is_shipped_and_not_installed(
    cluster: ProcessCluster, client: SyncClient, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    import pyspark

    topic = make_topic()
    fill(client, topic, 0, [b"%d" % n for n in range(10)])
    packed = tmp_path / "odradek.zip"
    pack_pure(packed)
    # Without `site` an editable installation is not seen; the libraries beside it are.
    python = tmp_path / "python"
    libraries = {sysconfig.get_path("purelib"), str(Path(pyspark.__file__).parents[1])}
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{":".join(libraries)}" exec "{sys.executable}" -S "$@"\n'
    )
    python.chmod(0o755)
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    assert subprocess.run(
        [python, "-c", "import odradek"], capture_output=True, check=False, cwd=tmp_path, env=own
    ).returncode
    job = tmp_path / "job.py"
    job.write_text(JOB)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"

    answer = subprocess.run(
        [
            submit,
            "--master",
            "local[1]",
            "--py-files",
            packed,
            job,
            cluster.bootstrap,
            topic,
            tmp_path / "table",
        ],
        env={
            **own,
            **SHORT_LIVED_JAVA,
            "JAVA_HOME": str(find_java().home),
            "PYSPARK_PYTHON": str(python),
            "PYSPARK_DRIVER_PYTHON": str(python),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=300,
    )

    assert answer.returncode == 0, answer.stderr[-3_000:]
    assert "odradek.zip/odradek/__init__.py" in answer.stdout
    assert "rows 10" in answer.stdout
