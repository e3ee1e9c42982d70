"""Of the store, the shell around the controller, and the data path."""

from tests.mutations.mutation import (
    Mutation,
)

OF_OTHER_ROOMS: tuple[Mutation, ...] = (
    # ------------------------------------------------------------------------------ other rooms: store, shell, data path
    Mutation(
        (1,),
        "a registration outlives its session",
        "store/transactions.py",
        "    return Create(path, ephemeral=True), Set(path, value, version=0)\n",
        "    return Create(path), Set(path, value, version=0)\n",
    ),
    Mutation(
        (5,),
        "the namespace is ignored",
        "store/chroot.py",
        "        return ChrootedStore(session, self._root)\n",
        "        return session\n",
    ),
    Mutation(
        (42,),
        "a broker named as leader follows",
        "broker/replica_manager.py",
        "        if leadership.leader == self.broker:\n",
        "        if leadership.leader == -99:\n",
    ),
    Mutation(
        (79,),
        "nobody is told while another has not answered",
        "server/outboxes.py",
        "                if found is not None:\n                    found[1].send(request, encoded.get(id(request)))\n",
        "                if found is not None and not any(box.unanswered for _, box in self._boxes.values()):\n"
        "                    found[1].send(request, encoded.get(id(request)))\n",
    ),
    Mutation(
        (152,),
        "what was not answered is not sent again",
        "server/outboxes.py",
        "        self._waiting.extendleft(reversed(self._sent))\n",
        "",
    ),
    Mutation(
        (127,),
        "a follower appends what it is sent",
        "replication/partition.py",
        "        if not self.is_leader:\n            raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER)\n        if acks == -1",
        "        if acks == -1",
    ),
    Mutation(
        (130, 133, 134),
        "the high watermark is the leader's log end",
        "replication/high_watermark.py",
        "    return mark\n",
        "    return leader_end\n",
    ),
    Mutation(
        (131,),
        "nobody leaves the ISR for its lag",
        "replication/partition.py",
        "        if leaving:\n",
        "        if leaving and now_ms < 0:\n",
    ),
    Mutation(
        (132,),
        "a follower joins before it has caught up",
        "replication/partition.py",
        "            and follower.log_end_offset >= self.high_watermark\n            and",
        "            and",
    ),
    Mutation(
        (136,),
        "the checkpointed high watermark is forgotten",
        "replication/replica.py",
        "        self.high_watermark = max(min(high_watermark, log.log_end_offset), log.log_start_offset)\n",
        "        self.high_watermark = log.log_start_offset\n",
    ),
    Mutation(
        (157,),
        "min.insync.replicas asks for nobody",
        "replication/isr.py",
        "    return count if min_insync_replicas is None else min(min_insync_replicas, count)\n",
        "    return 0\n",
    ),
    Mutation(
        (158,),
        "who waits is not told that the ISR is too small",
        "replication/partition.py",
        "            self.commit_line.settle(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)\n\n    def forget",
        "            pass\n\n    def forget",
    ),
    Mutation(
        (128,),
        "a request waits for nothing",
        "replication/waiting.py",
        "            line.append((required_offset, waiter, slot))\n",
        "            line.append((0, waiter, slot))\n",
    ),
    Mutation(
        (129,),
        "the last request in line is answered first",
        "replication/waiting.py",
        "            _, waiter, slot = line.popleft()\n",
        "            _, waiter, slot = line.pop()\n",
    ),
    Mutation(
        (148,),
        "a late StopReplica deletes",
        "broker/replica_manager.py",
        "            and stop.leader_epoch < partition.leader_epoch\n",
        "            and stop.leader_epoch < -9\n",
    ),
)
