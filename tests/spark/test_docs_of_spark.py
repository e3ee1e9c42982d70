"""docs/spark.md says what the code knows: every option, and job files that are read as printed."""

import re
from pathlib import Path

from odradek.spark import options, topic_options
from odradek.spark.job_file import jobs_of

PAGE = Path("docs/spark.md").read_text(encoding="utf-8")


def test_every_option_of_the_source_stands_in_the_table_and_no_other() -> None:
    table = PAGE.split("## Options of the source")[1].split("\n\nThe columns are")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    of_kafka = set(re.findall(r"`(kafka\.[\w.]+)`", table))

    assert set(re.findall(r"`([\w.]+)`", " ".join(rows))) == {*options._USED, *options._ACCEPTED}
    assert of_kafka == set(options._KAFKA_USED)


def test_every_option_of_the_sink_into_topics_stands_in_its_table_and_no_other() -> None:
    table = PAGE.split("| option of the sink |")[1].split("\n\n")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]

    known = {*topic_options._USED, *topic_options._KAFKA_USED} - {"killSwitch", "kafka.security.protocol"}
    assert set(re.findall(r"`([\w.]+)`", " ".join(rows))) == known


def test_the_job_file_is_read_as_printed(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    file = tmp_path / "job.toml"
    file.write_text(text)

    assert [(job.topics, job.format, job.trigger) for job in jobs_of(file)] == [
        (("orders",), "json", "10s"),
        (("clicks",), "raw", "1m"),
    ]
