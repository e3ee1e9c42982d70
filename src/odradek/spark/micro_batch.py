"""Which micro-batch a task works for."""


def current_batch_id() -> int:
    """The micro-batch this task belongs to, as Spark tells its tasks."""
    from pyspark import TaskContext

    context = TaskContext.get()
    text = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    assert text is not None, "a task of a stream knows its batch"
    return int(text)
