"""Dead letters on their way into a topic, in the driver, which alone knows which letters a batch has.

Of a job into topics they are in the transaction of its rows (`odradek.spark.topic_sink`). A commit of a table and a transaction
cannot be one step, so the letters of a job into a table are a batch of their own, before the table's:

    crash before the transaction ends     nothing is read of it; the batch comes again and sends its letters
    crash between it and the table        the batch comes again, finds its transaction committed, and sends nothing
    crash after the table's commit        the table has the batch: nothing is sent
"""

from collections.abc import Sequence

from odradek.spark.dead_letters import TakenByAnother, in_files
from odradek.spark.letter_records import letter_records
from odradek.spark.parquet import TableFile
from odradek.spark.shape import KEPT_LETTERS
from odradek.spark.topic_commit import commit
from odradek.spark.topic_options import TopicOptions
from odradek.spark.topic_writing import Staged, discard, stage


def stage_letters(place: str, files: Sequence[TableFile], options: TopicOptions, *, batch_id: int) -> Staged:
    """The letters of these files of the table of letters at `place`, for the topic of the options."""
    letters = in_files(place, [file.name for file in files], KEPT_LETTERS)
    try:
        return stage(map(letter_records, letters), options, batch_id=batch_id)
    except FileNotFoundError:
        raise TakenByAnother(options.app_id, batch_id) from None


def send_letters(place: str, files: Sequence[TableFile], options: TopicOptions, *, batch_id: int) -> None:
    """In a transaction of their own, unless the batch has been sent."""
    staged = stage_letters(place, files, options, batch_id=batch_id)
    try:
        commit(options, [staged], batch_id)
    except BaseException:
        discard(options, [staged])
        raise
