"""The `log_dirs` of a reassignment: which replicas go to which directory of their broker (KIP-113).

Asked of each broker before the reassignment starts, as Apache's tool does: a replica that is there is copied to the
directory at once, one that is still to come is made in it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from odradek.client.sync import SyncClient
    from odradek.model.ids import TopicPartition

    Directories = Mapping[tuple[TopicPartition, int], str]


def ask(client: "SyncClient", wanted: "Directories") -> "dict[tuple[TopicPartition, int], str]":
    """What a broker refused, and why."""
    from odradek.client.sync import code_of
    from odradek.model.error_codes import ErrorCode
    from odradek.model.ids import TopicPartition
    from odradek.protocol.messages.alter_replica_log_dirs import (
        AlterReplicaLogDir,
        AlterReplicaLogDirsRequest,
        AlterReplicaLogDirTopic,
    )

    refused: dict[tuple[TopicPartition, int], str] = {}
    for broker in sorted({broker for _, broker in wanted}):
        rows = [
            AlterReplicaLogDir(
                path=path, topics=[AlterReplicaLogDirTopic(name=where.topic, partitions=[where.partition])]
            )
            for (where, at), path in sorted(wanted.items())
            if at == broker
        ]
        answer = client.call(broker, AlterReplicaLogDirsRequest(dirs=rows))
        for topic in answer.results:
            for row in topic.partitions:
                if row.error_code not in (ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE):
                    where = TopicPartition(topic.topic_name, row.partition_index)
                    refused[where, broker] = code_of(row.error_code).name
    return refused


def still_coming(client: "SyncClient", wanted: "Directories") -> "list[tuple[TopicPartition, int]]":
    """Replicas that are not in their directory yet. OdradekError for a directory that has failed: nobody waits for it."""
    from odradek.cli.log_dirs import directories_of
    from odradek.model.errors import OdradekError

    found = [row for broker in {broker for _, broker in wanted} for row in directories_of(client, broker)]
    for row in found:
        if row["error"] and (row["broker"], row["directory"]) in {
            (at, path) for (_, at), path in wanted.items()
        }:
            # No `Failed`, which whoever polls takes for something that passes.
            raise OdradekError(
                f"{row['directory']} of broker {row['broker']} is offline ({row['error']}): nothing arrives there"
            )
    there = {
        (replica["partition"], row["broker"], row["directory"])
        for row in found
        for replica in row["replicas"]
        if not replica["is_future"]
    }
    return [key for key, path in sorted(wanted.items()) if (str(key[0]), key[1], path) not in there]
