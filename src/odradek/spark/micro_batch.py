"""Which micro-batch a task works for."""


def current_batch_id() -> int:
    """The micro-batch this task belongs to, as Spark tells its tasks."""
    text = _told("streaming.sql.batchId")
    assert text, "a task of a stream knows its batch"
    return int(text)


def current_query_id() -> str:
    """The query this task belongs to, which its checkpoint keeps: the same after each start. "" outside of a stream."""
    return _told("sql.streaming.queryId")


def current_run_id() -> str:
    """The run of that query: another after each start. "" outside of a stream."""
    return _told("spark.jobGroup.id")


def _told(name: str) -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    return "" if context is None else context.getLocalProperty(name) or ""
