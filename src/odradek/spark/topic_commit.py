"""Topics that take each batch of an application exactly once, whole.

    tasks    leave record batches in files that nobody knows of
    driver   one transaction: all of these, and a record that says which batch they are (`odradek.spark.topic_progress`)

One producer, one transaction, one decision: the coordinator's. There is no moment at which a part of a batch is committed, so
nothing has to be remembered of how rows were dealt out to tasks, and a batch that comes again need not have the same rows:

    crash before the transaction ends     nothing is read of it; the next driver's begin aborts it, else the coordinator after
                                          its time; the batch is sent again
    crash after it has ended              the record says so: nothing is sent
    another checkpoint under the same id  the record says of which query its batch is: that is no batch that comes again
    a checkpoint that was put back, or    the record says where its batch ends in what the query reads: one of its number that was planned
    a copy of it                          anew is no batch that comes again, either
    two drivers at the same time          the later one's begin fences the other, which can neither send nor end any more;
                                          then it looks which batches are there
    the coordinator loses patience        it aborts all of it, and who comes back is fenced
"""

from collections.abc import Sequence
from contextlib import suppress

from odradek.client.sync import SyncClient
from odradek.client.sync_transaction import BatchInFile, Transaction
from odradek.model.errors import OdradekError
from odradek.model.ids import TopicId, TopicPartition, topic_id_to_text
from odradek.spark import batch_notes, topic_progress
from odradek.spark.checkpoints import ENDS, QUERY_ID, ends_of_batch, says_otherwise
from odradek.spark.data_loss import LOST
from odradek.spark.fingerprint import EMPTY, Fingerprint
from odradek.spark.open_files import OpenFiles
from odradek.spark.topic_options import TopicOptions
from odradek.spark.topic_progress import Note
from odradek.spark.topic_writing import Staged, forget, staged_batches

# How long the coordinator waits for a transaction: a minute, and what slow brokers take for its bytes; not above
# transaction.max.timeout.ms, which is 15 minutes where nobody changed it.
_TIMEOUT_MS, _MOST_TIMEOUT_MS = 60_000, 900_000
_BYTES_A_MS = 2_000


class AheadOfCheckpoint(OdradekError):
    """The topics are ahead of the checkpoint, or what tells of them is gone: a batch could not be told from another."""


def commit(
    options: TopicOptions, staged: Sequence[Staged], batch_id: int, *, letters: int = 0, lost: int = 0
) -> bool:
    """Appends what tasks staged in one transaction, unless the batch is there already; True if it was appended now.

    `letters` and `lost` are noted: how many records became none of the rows, and how many offsets were to be read and were gone.
    """
    switch = options.kill_switch
    switch.at("before-commit", batch_id)
    with _client(options) as client:
        transaction = _begun(client, options, staged)
        if options.is_named and _is_there(client, options, batch_id, _query_of(staged)):
            forget(options, batch_id)
            return False
        switch.at("after-begin", batch_id)
        try:
            note = _sent(client, transaction, options, staged, batch_id, letters, lost)
            switch.at("before-end", batch_id)
            transaction.commit()
        except (Exception, KeyboardInterrupt):
            # So that readers need not wait for the coordinator's patience. It may be fenced, or out of reach: it aborts then
            # by itself; or have committed it, and only the answer was lost: then it refuses.
            with suppress(OdradekError):
                transaction.abort()
            raise
    switch.at("after-commit", batch_id)
    if options.is_named:
        keep(options, note)
    forget(options, batch_id)
    return True


def check(options: TopicOptions, staged: Sequence[Staged], batch_id: int) -> bool:
    """Whether the batch is there; AheadOfCheckpoint where `commit` would refuse it, before anything of it is anywhere. Others are
    fenced."""
    if not options.is_named:
        return False
    with _client(options) as client:
        _begun(client, options, staged)
        return _is_there(client, options, batch_id, _query_of(staged))


def _client(options: TopicOptions) -> SyncClient:
    connection = options.connection
    return SyncClient(
        connection.bootstrap,
        client_id=connection.client_id,
        request_timeout_s=connection.request_timeout_s,
    )


def _begun(client: SyncClient, options: TopicOptions, staged: Sequence[Staged]) -> Transaction:
    if options.is_named:
        topic_progress.ensure(client, options.progress_topic)
    timeout_ms = options.timeout_ms or _timeout_ms(sum(one.size_bytes for one in staged))
    transaction = Transaction(client, options.transactional_id, timeout_ms=timeout_ms)
    transaction.begin()
    return transaction


def keep(options: TopicOptions, note: Note) -> None:
    """A copy of what the batch noted, for `verify`: the topic of progress keeps the last one only."""
    batch_notes.keep(options.directory, options.progress_topic, note)


def _sent(
    client: SyncClient,
    transaction: Transaction,
    options: TopicOptions,
    staged: Sequence[Staged],
    batch_id: int,
    letters: int,
    lost: int,
) -> Note:
    batches: dict[TopicPartition, list[BatchInFile]] = {}
    proofs: dict[TopicPartition, Fingerprint] = {}
    with OpenFiles() as files:
        for one in staged:
            for partition, batch in staged_batches(options, one, files):
                batches.setdefault(partition, []).append(batch)
            for partition, proof in one.places:
                proofs[partition] = proofs.get(partition, EMPTY) + proof
        first_offsets = transaction.send(batches)
    options.kill_switch.at("after-send", batch_id)
    topics = {
        name: topic_id_to_text(TopicId(client.topic(name).topic_id)) for name in {p.topic for p in proofs}
    }
    note: Note = {
        "appId": options.app_id,
        "batchId": batch_id,
        "producer": [transaction.producer_id, transaction.producer_epoch],
        "records": sum(proof.count for p, proof in proofs.items() if p.topic != options.letters_topic),
        "letters": letters,
        "topics": topics,
        "parts": [[*p, first_offsets[p], proof.count, proof.hex] for p, proof in sorted(proofs.items())],
    }
    if lost:
        note[LOST] = lost
    if query_id := _query_of(staged):
        note[QUERY_ID] = query_id
    if ends := ends_of_batch(options.checkpoint, batch_id):
        note[ENDS] = ends
    if options.is_named:
        progress = TopicPartition(options.progress_topic, 0)
        offsets = transaction.send({progress: [topic_progress.record(options.app_id, note)]})
        note["offset"] = offsets[progress]
    return note


def _query_of(staged: Sequence[Staged]) -> str:
    """What tells one checkpoint from another; "" where nobody knows."""
    return max((one.query_id for one in staged), default="")


def _is_there(client: SyncClient, options: TopicOptions, batch_id: int, query_id: str) -> bool:
    before = batch_notes.find(options.directory, options.progress_topic, options.app_id, batch_id - 1)
    start = 0 if before is None else before["offset"]
    note, offset = topic_progress.last(client, options.progress_topic, options.app_id, start=start)
    done = -1 if note is None else note["batchId"]
    advice = (
        "give the application another id (rows of batches that come again would then be in the topics twice)"
    )
    if done > batch_id:
        raise AheadOfCheckpoint(
            f"application {options.app_id!r} has written batch {done} into its topics, but this checkpoint is only at batch "
            f"{batch_id}: it is not the one they were written from, or another driver goes on with it; restore the one that belongs "
            f"to them, or {advice}"
        )
    if note is not None and says_otherwise(note, QUERY_ID, query_id):
        raise AheadOfCheckpoint(
            f"application {options.app_id!r} has written batch {done} into its topics from a query of another checkpoint, and two "
            f"cannot share an id: each would take batches of the other for its own; restore the checkpoint that belongs to the "
            f"topics, or {advice}"
        )
    if before is not None and done < batch_id - 1:
        raise AheadOfCheckpoint(
            f"application {options.app_id!r} has written batch {batch_id - 1}, but topic {options.progress_topic} of these "
            f"brokers does not tell of it: it was deleted or cut, or this is another cluster; {advice}"
        )
    if note is not None and says_otherwise(note, ENDS, ends_of_batch(options.checkpoint, done)):
        raise AheadOfCheckpoint(
            f"application {options.app_id!r} has written batch {done} into its topics from other records: it ends elsewhere in what "
            f"the query reads, so the checkpoint was put back to before that batch, or is a copy; restore the one that belongs to the "
            f"topics, or {advice}"
        )
    if note is None or done < batch_id:
        return False
    keep(options, {**note, "offset": offset})
    return True


def _timeout_ms(size_bytes: int) -> int:
    return min(_TIMEOUT_MS + size_bytes // _BYTES_A_MS, _MOST_TIMEOUT_MS)
