"""A Quix Streams application: what is read from one topic is written to another, exactly once.

Arguments: BOOTSTRAP SOURCE TARGET GROUP NAME, as of the loops in tests/clients/transforms.
"""

import sys

from quixstreams import Application


def application(bootstrap: str, source: str, target: str, group: str, name: str) -> Application:
    app = Application(
        broker_address=bootstrap,
        consumer_group=group,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=0.1,
        consumer_extra_config={"group.instance.id": name},
    )
    read = app.topic(source, value_deserializer="bytes")
    written = app.topic(target, value_serializer="bytes")
    app.dataframe(read).to_topic(written)
    return app


if __name__ == "__main__":
    application(*sys.argv[1:]).run()
