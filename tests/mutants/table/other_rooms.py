"""Of the store, the shell around the controller, and the data path."""

from tests.mutants.edit import Edit
from tests.mutants.mutant import Mutant

OF_OTHER_ROOMS: tuple[Mutant, ...] = (
    Mutant(
        "behaviour 1",
        "a registration outlives its session",
        (Edit("store.transactions:register_broker", "Create(path, ephemeral=True)", "Create(path)"),),
        rows=(1,),
    ),
    Mutant(
        "behaviour 5",
        "the namespace is ignored",
        (Edit("store.chroot:ChrootedStores.open_session", "ChrootedStore(session, self._root)", "session"),),
        rows=(5,),
    ),
    Mutant(
        "behaviour 42",
        "a broker named as leader follows",
        (
            Edit(
                "broker.replica_manager:ReplicaManager._commit_one",
                "leadership.leader == self.broker",
                "leadership.leader == -99",
            ),
        ),
        rows=(42,),
    ),
    Mutant(
        "behaviour 79",
        "nobody is told while another has not answered",
        (
            Edit(
                "server.outboxes:Outboxes.send",
                "found is not None",
                "found is not None and (not any((box.unanswered for _, box in self._boxes.values())))",
            ),
        ),
        rows=(79,),
    ),
    Mutant(
        "behaviour 152",
        "what was not answered is not sent again",
        (Edit("server.outboxes:Outbox._unsend", "self._waiting.extendleft(reversed(self._sent))", "pass"),),
        rows=(152,),
    ),
    Mutant(
        "behaviour 127",
        "a follower appends what it is sent",
        (
            Edit(
                "replication.partition:Partition.append",
                ("if not self.is_leader:\n    raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER)"),
                "pass",
            ),
        ),
        rows=(127,),
    ),
    Mutant(
        "behaviour 130",
        "the high watermark is the leader's log end",
        (Edit("replication.high_watermark:high_watermark", "return mark", "return leader_end"),),
        rows=(130, 133, 134),
    ),
    Mutant(
        "behaviour 131",
        "nobody leaves the ISR for its lag",
        (
            Edit(
                "replication.partition:Partition.shrink_if_lagging",
                "if leaving: ...",
                "if leaving and now_ms < 0: ...",
            ),
        ),
        rows=(131,),
    ),
    Mutant(
        "behaviour 132",
        "a follower joins before it has caught up",
        (
            Edit(
                "replication.partition:Partition.is_in_sync",
                "follower.log_end_offset >= self.high_watermark",
                "True",
            ),
        ),
        rows=(132,),
    ),
    Mutant(
        "behaviour 136",
        "the checkpointed high watermark is forgotten",
        (
            Edit(
                "replication.replica:Replica.__init__",
                "max(min(high_watermark, log.log_end_offset), log.log_start_offset)",
                "log.log_start_offset",
            ),
        ),
        rows=(136,),
    ),
    Mutant(
        "behaviour 157",
        "min.insync.replicas asks for nobody",
        (
            Edit(
                "replication.isr:effective_min_isr",
                "count if min_insync_replicas is None else min(min_insync_replicas, count)",
                "0",
            ),
        ),
        rows=(157,),
    ),
    Mutant(
        "behaviour 158",
        "who waits is not told that the ISR is too small",
        (
            Edit(
                "replication.partition:Partition._answer_if_under_min_isr",
                "self.commit_waiters.complete(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)",
                "pass",
            ),
        ),
        rows=(158,),
    ),
    Mutant(
        "behaviour 128",
        "a request waits for nothing",
        (
            Edit(
                "replication.waiting:AckQueue.add",
                "line.append((required_offset, waiter, slot))",
                "line.append((0, waiter, slot))",
            ),
        ),
        rows=(128,),
    ),
    Mutant(
        "behaviour 129",
        "the last request in line is answered first",
        (Edit("replication.waiting:AckQueue.complete", "line.popleft", "line.pop"),),
        rows=(129,),
    ),
    Mutant(
        "behaviour 148",
        "a late StopReplica deletes",
        (Edit("broker.replica_manager:ReplicaManager._stop_one", "partition.leader_epoch", "-9"),),
        rows=(148,),
    ),
)
