"""Bugs of our own that the simulator, a story or the exhaustive search found; docs/simulator.md tells how each showed.

Where a seed found one, it stands under that seed's number, though what the seed does has shifted since with the code.
"""

from odradek.broker.control_order import ControlOrder
from odradek.broker.fetch_sessions import FetchSession
from odradek.broker.handlers.fetch import FetchWait
from odradek.broker.replica_manager import ReplicaManager
from odradek.controller import eligible, lives, reassignment_start, stop_answers
from odradek.controller.plan import Plan
from odradek.log import namesakes
from odradek.log.log_directory import LogDirectory
from odradek.log.log_manager import LogManager
from odradek.log.memory_files import MemoryDirectory
from odradek.replication.follower import FollowerFetcher
from odradek.replication.partition import Partition
from odradek.server.controller_runtime import ControllerRuntime
from odradek.server.outboxes import Outboxes
from odradek.server.store_sessions import StoreSessions
from odradek.sim.museum.exhibit import Exhibit
from odradek.sim.museum.mutation import Change

EXHIBITS = (
    Exhibit(
        "same epoch",
        "b7f1e0f",
        "a leader that restarts before any controller has seen its death leads on in the same leader epoch",
        (
            Change(
                lives,
                "_was_restarted",
                "return stored.isr_broker_epochs[stored.leader_and_isr.isr.index(member)] != epoch",
                "return False",
            ),
            Change(
                ReplicaManager,
                "_is_of_a_former_life",
                "return log.latest_epoch >= leadership.leader_epoch",
                "return False",
            ),
        ),
    ),
    Exhibit(
        "idle follower",
        "b7f1e0f",
        "a follower of an idle partition that was cut is never told the high watermark again",
        (
            Change(FetchWait, "_look", "wanted.is_refused = True", "pass"),
            Change(
                FollowerFetcher,
                "_partition_fetched",
                "if error == 0 and leader_high_watermark > followed.heard_mark:",
                "if error == 0 and diverging is None and leader_high_watermark > followed.heard_mark:",
            ),
        ),
    ),
    Exhibit(
        "cut off",
        "b7f1e0f",
        "a controller resigns while it is cut off, its session outlives that, and /controller is held by nobody",
        (Change(ControllerRuntime, "_end_term", "self._vacant.set()", "pass"),),
    ),
    Exhibit(
        "checkpoints",
        "b7f1e0f",
        "a topic that is made again is judged by the checkpoints of the deleted one",
        (Change(LogManager, "get_or_create", "directory.forget_former(topic_partition)", "pass"),),
    ),
    Exhibit(
        "seed 360",
        "be41b02",
        "who comes back while a topic goes is told who leads it, and makes what it has deleted again",
        (
            Change(
                eligible,
                "plan_lost",
                " or topic_partition.topic in plan.context.topics_to_delete",
                "",
            ),
            Change(Plan, "tell_leader_and_isr", "if state in DELETED:", "if False:"),
        ),
    ),
    Exhibit(
        "new registration",
        "ac5d83d",
        "a broker that registers anew is never taken into the ISR of an idle partition",
        (Change(FollowerFetcher, "_fetch", "if broker_epoch != self._session_broker_epoch:", "if False:"),),
    ),
    Exhibit(
        "store away",
        "ac5d83d",
        "the store goes away between a new session and the registration in it, and the broker stops",
        (
            Change(
                StoreSessions,
                "live",
                "except api.StoreUnavailable as error:",
                "except ZeroDivisionError as error:",
            ),
        ),
    ),
    Exhibit(
        "H1",
        "b7f1e0f",
        "a proposal that is sent again names the newest life of a follower that has come back empty",
        (
            Change(
                Partition,
                "proposal",
                "**self._proposed_epochs",
                "**{f.broker: f.broker_epoch for f in self._followers}",
            ),
        ),
    ),
    Exhibit(
        "seed 596",
        "37086b9",
        "who leaves because the partition moves away stays eligible, though it deletes its copy",
        (
            Change(Plan, "forget_eligible", "if drafted is not None and (", "if False and ("),
            Change(
                Plan,
                "eligible_outside",
                "return tuple([b for b in eligible if b in assigned]), tuple([b for b in known if b in assigned])",
                "return eligible, known",
            ),
        ),
    ),
    Exhibit(
        "seed 475",
        "37086b9",
        "an eligible replica returns without its records and is elected by what was stored of its former life",
        (Change(Plan, "eligible", "return stored if drafted is None else", "return stored if True else"),),
    ),
    Exhibit(
        "seed 343",
        "37086b9",
        "at the end of a move the new leader commits without those that leave while they are still in the ISR",
        (Change(Partition, "_advance_high_watermark", " or self._has_strangers_in_isr", ""),),
    ),
    Exhibit(
        "seed 633",
        "37086b9",
        "the partition moves while a follower's flush is under way, and nobody wakes the fetcher that waited for it",
        (Change(ReplicaManager, "_stop_fetching", "self._wake(leader)", "pass"),),
    ),
    Exhibit(
        "seed 116",
        "37086b9",
        "a follower that begins a leader epoch drops what was under way, and is not told the high watermark again",
        (Change(FetchSession, "want", "wanted.sent_high_watermark = wanted.sent_log_start = -1", "pass"),),
    ),
    Exhibit(
        "seed 258",
        "ff0aed2",
        "a deletion is answered before it is on the disk, and a power cut brings the log back",
        (Change(ReplicaManager, "sync_stops", "self.logs.sync_deletions()", "{}"),),
    ),
    Exhibit(
        "seed 1823",
        "ad82716",
        "who is controller is heard while the store is away, and the former one is asked for ever",
        (
            Change(
                StoreSessions,
                "_session",
                "undelivered.extend(await facts.take())",
                "undelivered = deque(await facts.take())",
            ),
        ),
    ),
    Exhibit(
        "seed 376",
        "570418d",
        "added and taken away twice while its broker cannot be reached, a replica is told so once, and stays",
        (
            Change(
                reassignment_start,
                "_plan_wanted_again",
                "if broker not in before and state in",
                "if False and",
            ),
        ),
    ),
    Exhibit(
        "seed 1696",
        "570418d",
        "the answer to one StopReplica is taken for that to the next, behind which the replica was made anew",
        (Change(stop_answers, "commit_stop_answered", "if event.number is None:", "if True:"),),
    ),
    Exhibit(
        "seed 538",
        "570418d",
        "a replica that was told to delete, or has, is told of the new epoch by the next reassignment",
        (Change(Plan, "tell_leader_and_isr", "if state in DELETED:", "if False:"),),
    ),
    Exhibit(
        "dead leaver",
        "1ed6fe7",
        "a leaver on a dead broker that the next reassignment finds in the topic node is told nothing when it returns",
        (
            Change(
                reassignment_start,
                "_plan_not_stray_any_more",
                "and broker in wished[tp].target_replicas",
                "and broker in wished[tp].replicas",
            ),
        ),
    ),
    Exhibit(
        "seed 327",
        "f84272c",
        "a control request is read after newer ones of its term, and obeyed",
        (Change(ControlOrder, "why_late", "and not _is_after(correlation_id, self._last)", "and False"),),
    ),
    Exhibit(
        "unclean together",
        "570418d",
        "of two that return together, both perhaps without their records, the eligible one leads if its id is the larger",
        (Change(eligible, "successor", "if b not in lost and ", "if "),),
        searched="judged_one_by_one",
    ),
    Exhibit(
        "next controller",
        "de7b99c",
        "an eligible replica returns empty while no controller is elected: the next one never knew its former life, and "
        "an empty log leads",
        (Change(lives, "_lost", "return tuple(lost)", "return ()"),),
    ),
    Exhibit(
        "last member",
        "de7b99c",
        "the last member of the ISR loses what it had not flushed while no controller is elected, and leads on although "
        "an eligible replica has everything",
        (Change(eligible, "successor", "if current is None or ", "if True or current is None or "),),
    ),
    Exhibit(
        "seed 9029",
        "b265f80",
        "a log is deleted while a thread flushes it: its missing directory is taken for a failed disk",
        (Change(MemoryDirectory, "_do", "path != self.health.path", 'name != "."'),),
    ),
    Exhibit(
        "walk 1313",
        "b265f80",
        "a replica that was told to delete, and that the next reassignment still names, is elected uncleanly",
        (
            Change(
                Plan,
                "survivors",
                "return tuple([b for b in live if self.replica_state(topic_partition, b) not in DELETED])",
                "return live",
            ),
        ),
    ),
    Exhibit(
        "seed 993",
        "7c12e81",
        "of two logs of one name the one whose partition.metadata a power cut took is not meant, though the other is of a "
        "topic that is gone",
        (Change(namesakes, "meant", " or by_id.get(NO_TOPIC_ID)", ""),),
    ),
    Exhibit(
        "found damaged",
        "1ed6fe7",
        "a log found damaged in use is recovered after a kill as if that were a torn tail: cut there, and led again",
        (
            Change(
                LogDirectory,
                "end_is_known",
                "self.write_offsets(checkpoints.RECOVERY_POINT, self.recovery_points)",
                "pass",
            ),
        ),
    ),
    Exhibit(
        "raised",
        "4454d01",
        "min.insync.replicas is raised and the leader hears of it late: it commits alone, and an eligible replica that has "
        "nothing of it is elected",
        (Change(Partition, "_measure_min_isr", " or self.has_eligible", ""),),
    ),
    Exhibit(
        "no session",
        "db36155",
        "a follower whose leader has no room for fetch sessions is answered at once, and asks again at once, for ever",
        (Change(FetchWait, "_look", "if session.id == NO_SESSION and wanted", "if False and wanted"),),
    ),
    Exhibit(
        "unreadable",
        "f84272c",
        "a broker whose registration cannot be read for a while loses the controller's queue for it, and is never told what "
        "waited there",
        (Change(Outboxes, "brokers_are", "if broker not in wanted and str(broker) in unread:", "if False:"),),
    ),
    Exhibit(
        "walk 810",
        "570418d",
        "a reassignment is called back when its leader knows the target alone, the controller dies before it has told that, "
        "and nobody joins the ISR any more",
        (
            Change(
                reassignment_start.DropReplicas,
                "plan",
                "if after is not None and current is not None and after.leader_epoch == current.leader_epoch:",
                "if dropped and after is not None and current is not None and after.leader_epoch == current.leader_epoch:",
            ),
        ),
    ),
)
