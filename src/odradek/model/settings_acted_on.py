"""The settings this broker acts on: one entry is a line of facts and a line of words.

Facts: name, type, default (`null` = none, `""` = empty), importance, `dynamic` (can be changed while
running) or `static`, and what is valid in the notation of DescribeConfigs. Names, types and defaults are
those of Apache Kafka 3.9 (tests/golden/configs.json); the words are ours. `settings.py` reads this table.
"""

BROKER = """
advertised.listeners STRING null HIGH dynamic
    Addresses handed to clients and brokers, as they stand; unset means those of `listeners`.
alter.log.dirs.replication.quota.window.num INT 11 LOW static [1,...]
    Samples kept when measuring moves between log directories.
alter.log.dirs.replication.quota.window.size.seconds INT 1 LOW static [1,...]
    Length of one such sample.
auto.create.topics.enable BOOLEAN true HIGH static
    A Metadata request that asks for an unknown topic may create it.
auto.leader.rebalance.enable BOOLEAN true HIGH static
    Leadership drifts back to preferred replicas from time to time.
broker.id INT -1 HIGH static
    Number of this broker in the cluster, 0 or more; the same as node.id.
broker.rack STRING null MEDIUM static
    Failure domain of this broker; new replicas are spread over racks, and see replica.selector.class.
compression.gzip.level INT -1 MEDIUM dynamic [1,...,9] or -1
    Effort of gzip when this broker compresses.
compression.type STRING producer HIGH dynamic [uncompressed, zstd, lz4, snappy, gzip, producer]
    Codec of stored batches; `producer` keeps whatever the producer chose and never recompresses.
compression.zstd.level INT 3 MEDIUM dynamic [-131072,...,22]
    Effort of zstd when this broker compresses.
connections.max.idle.ms LONG 600000 MEDIUM static
    A connection is closed over which no request has come and no answer has left for this long.
controlled.shutdown.enable BOOLEAN true MEDIUM static
    On SIGTERM leadership is handed over first, then the broker stops.
controlled.shutdown.max.retries INT 3 MEDIUM static
    Attempts to hand leadership over before the broker stops anyway.
controlled.shutdown.retry.backoff.ms LONG 5000 MEDIUM static
    Pause between two attempts of a controlled shutdown.
controller.quota.window.num INT 11 LOW static [1,...]
    Windows whose worth of topic mutations a user or client may make at once (KIP-599).
controller.quota.window.size.seconds INT 1 LOW static [1,...]
    Length of one such window in seconds.
controller.socket.timeout.ms INT 30000 MEDIUM static
    How long the controller waits for a broker's answer before it reconnects and repeats.
default.replication.factor INT 1 MEDIUM static
    Replicas of a topic that was created without saying how many.
delete.topic.enable BOOLEAN true HIGH static
    When false, DeleteTopics is refused with TOPIC_DELETION_DISABLED.
fetch.max.bytes INT 57671680 MEDIUM static [1024,...]
    Upper bound of one Fetch answer, whatever the reader asks for; its first batch comes even if larger.
group.consumer.assignors LIST org.apache.kafka.coordinator.group.assignor.UniformAssignor,org.apache.kafka.coordinator.group.assignor.RangeAssignor MEDIUM static
    Assignors of consumer groups (KIP-848), the first being the default: `uniform` and `range`, or their Java classes.
group.consumer.heartbeat.interval.ms INT 5000 MEDIUM static [1,...]
    Consumer groups: time between two heartbeats of a member.
group.consumer.max.heartbeat.interval.ms INT 15000 MEDIUM static [1,...]
    Consumer groups: upper bound of that time.
group.consumer.max.session.timeout.ms INT 60000 MEDIUM static [1,...]
    Consumer groups: upper bound of the session timeout.
group.consumer.max.size INT 2147483647 MEDIUM static [1,...]
    Consumer groups: members a group may have.
group.consumer.min.heartbeat.interval.ms INT 5000 MEDIUM static [1,...]
    Consumer groups: lower bound of the heartbeat time.
group.consumer.min.session.timeout.ms INT 45000 MEDIUM static [1,...]
    Consumer groups: lower bound of the session timeout.
group.consumer.session.timeout.ms INT 45000 MEDIUM static [1,...]
    Consumer groups: silence after which a member is removed.
group.coordinator.rebalance.protocols LIST classic MEDIUM static [consumer, classic, share, unknown]
    Group protocols offered. Unset: classic, and consumer where the metadata are in a store of our own; with ZooKeeper name consumer once every broker is ours.
group.initial.rebalance.delay.ms INT 3000 MEDIUM static
    An empty group waits this long for more members before its first rebalance.
group.max.session.timeout.ms INT 1800000 MEDIUM static
    Longest session timeout a member may ask for.
group.max.size INT 2147483647 MEDIUM static [1,...]
    Members a group may have.
group.min.session.timeout.ms INT 6000 MEDIUM static
    Shortest session timeout a member may ask for.
inter.broker.listener.name STRING null MEDIUM static
    Listener the brokers talk over; unset means the one of security.inter.broker.protocol.
leader.imbalance.check.interval.seconds LONG 300 HIGH static [1,...]
    How often the share of partitions away from their preferred leader is looked at.
leader.imbalance.per.broker.percentage INT 10 HIGH static
    That share, per broker, above which leadership is moved back.
listener.security.protocol.map STRING SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT LOW dynamic
    Security protocol behind each listener name, as NAME:PROTOCOL pairs.
listeners STRING PLAINTEXT://:9092 HIGH dynamic
    Addresses to listen on, as NAME://host:port; an empty host is every interface, port 0 a free one.
log.cleaner.backoff.ms LONG 15000 MEDIUM dynamic [0,...]
    Pause of the cleaner when nothing is dirty.
log.cleaner.dedupe.buffer.size LONG 134217728 MEDIUM dynamic
    Memory for the keys of one cleaning.
log.cleaner.delete.retention.ms LONG 86400000 MEDIUM dynamic [0,...]
    How long a tombstone stays after its cleaning.
log.cleaner.enable BOOLEAN true MEDIUM static
    Compacted topics are cleaned.
log.cleaner.io.buffer.load.factor DOUBLE 0.9 MEDIUM dynamic
    How full the key table may get.
log.cleaner.io.max.bytes.per.second DOUBLE 1.7976931348623157E308 MEDIUM dynamic
    Ceiling of the cleaner's reads and writes.
log.cleaner.max.compaction.lag.ms LONG 9223372036854775807 MEDIUM dynamic [1,...]
    A record is compacted at the latest after this time.
log.cleaner.min.cleanable.ratio DOUBLE 0.5 MEDIUM dynamic [0,...,1]
    Dirty share of a log that makes it worth cleaning.
log.cleaner.min.compaction.lag.ms LONG 0 MEDIUM dynamic [0,...]
    A record is left alone by the cleaner for this time.
log.cleanup.policy LIST delete MEDIUM dynamic [compact, delete]
    What becomes of old records: deleted by age and size, compacted by key, or both.
log.dir STRING /tmp/kafka-logs HIGH static
    The log directory when log.dirs is unset.
log.dirs STRING null HIGH static
    Log directories, separated by commas; a new partition goes to the one with the fewest.
log.flush.interval.messages LONG 9223372036854775807 HIGH dynamic [1,...]
    Records a partition may gather before it is flushed; 1 flushes before every acknowledgement.
log.flush.interval.ms LONG null HIGH dynamic
    Longest time a record stays unflushed; unset means log.flush.scheduler.interval.ms.
log.flush.offset.checkpoint.interval.ms INT 60000 HIGH static [0,...]
    How often the recovery points are written, below which start-up trusts the files.
log.flush.scheduler.interval.ms LONG 9223372036854775807 HIGH static
    How often partitions are looked over for one that is due to be flushed.
log.flush.start.offset.checkpoint.interval.ms INT 60000 HIGH static [0,...]
    How often the log start offsets are written.
log.index.interval.bytes INT 4096 MEDIUM dynamic [0,...]
    Bytes of log between two entries of the offset index.
log.index.size.max.bytes INT 10485760 MEDIUM dynamic [4,...]
    Largest offset or time index; a segment whose index is full is rolled.
log.message.timestamp.after.max.ms LONG 9223372036854775807 MEDIUM dynamic [0,...]
    How far ahead of this broker's clock a record's timestamp may lie.
log.message.timestamp.before.max.ms LONG 9223372036854775807 MEDIUM dynamic [0,...]
    How far behind this broker's clock a record's timestamp may lie.
log.message.timestamp.difference.max.ms LONG 9223372036854775807 MEDIUM dynamic [0,...]
    The older setting for both directions; the two newer ones win where they are set.
log.message.timestamp.type STRING CreateTime MEDIUM dynamic [CreateTime, LogAppendTime]
    Whose clock dates a record: the producer's or the leader's.
log.retention.bytes LONG -1 HIGH dynamic
    Size a partition is cut back to, oldest segments first; -1 keeps all.
log.retention.check.interval.ms LONG 300000 MEDIUM static [1,...]
    How often segments are looked over for what can be deleted.
log.retention.hours INT 168 HIGH static
    Age in hours after which a segment is deleted; the settings in minutes and ms win over it.
log.retention.minutes INT null HIGH static
    Age in minutes after which a segment is deleted; the one in ms wins over it.
log.retention.ms LONG null HIGH dynamic
    Age after which a segment is deleted; -1 keeps all.
log.roll.hours INT 168 HIGH static [1,...]
    Age in hours at which the active segment is rolled; the one in ms wins over it.
log.roll.jitter.hours INT 0 HIGH static [0,...]
    At most this many hours are taken off log.roll.hours, so that partitions do not roll together.
log.roll.jitter.ms LONG null HIGH dynamic
    At most this many ms are taken off log.roll.ms, so that partitions do not roll together.
log.roll.ms LONG null HIGH dynamic
    Age at which the active segment is rolled even when it is not full.
log.segment.bytes INT 1073741824 HIGH dynamic [14,...]
    Size at which a new segment file is begun.
log.segment.delete.delay.ms LONG 60000 HIGH dynamic [0,...]
    How long a file marked as deleted stays on disk for readers that still hold it.
max.connection.creation.rate INT 2147483647 MEDIUM dynamic [0,...]
    New connections a second this broker accepts; more of them wait to be accepted.
max.connections INT 2147483647 MEDIUM dynamic [0,...]
    Connections this broker accepts at one time; those of a listener that is the brokers' own take the place of others.
max.connections.per.ip INT 2147483647 MEDIUM dynamic [0,...]
    Connections accepted from one address at one time.
max.connections.per.ip.overrides STRING "" MEDIUM dynamic
    Other limits for single addresses, as address:count pairs.
max.incremental.fetch.session.cache.slots INT 1000 MEDIUM static [0,...]
    Fetch sessions remembered; a reader that finds no place sends full requests.
max.request.partition.size.limit INT 2000 MEDIUM static [1,...]
    Partitions one DescribeTopicPartitions answer may hold.
message.max.bytes INT 1048588 HIGH dynamic [0,...]
    Largest record batch accepted, its header included.
min.insync.replicas INT 1 HIGH dynamic [1,...]
    Members the ISR must have for a write with acks=all to be taken.
node.id INT -1 HIGH static
    Number of this broker in the cluster; the same as broker.id.
num.partitions INT 1 MEDIUM static [1,...]
    Partitions of a topic that was created without saying how many.
num.replica.alter.log.dirs.threads INT null HIGH static
    Replicas copied at once between log directories; unset, as many as there are directories.
offset.metadata.max.bytes INT 4096 HIGH static
    Longest text stored with a committed offset.
offsets.commit.timeout.ms INT 5000 HIGH static [1,...]
    Longest wait of an offset commit.
offsets.retention.check.interval.ms LONG 600000 HIGH static [1,...]
    How often expired offsets are looked for.
offsets.retention.minutes INT 10080 HIGH static [1,...]
    Time an empty group's offsets are kept.
offsets.topic.num.partitions INT 50 HIGH static [1,...]
    Partitions of the offsets topic; fixed once it exists.
offsets.topic.replication.factor SHORT 3 HIGH static [1,...]
    Replicas of the offsets topic.
offsets.topic.segment.bytes INT 104857600 HIGH static [1,...]
    Segment size of the offsets topic.
producer.id.expiration.ms INT 86400000 LOW dynamic [1,...]
    A producer silent for this long is forgotten, its sequence numbers with it.
queued.max.requests INT 500 HIGH static [1,...]
    Unanswered requests per connection beyond which it is not read from.
quota.window.num INT 11 LOW static [1,...]
    Samples kept when measuring what clients send, fetch and cost.
quota.window.size.seconds INT 1 LOW static [1,...]
    Length of one such sample, and the longest a client waits for its request_percentage.
replica.fetch.backoff.ms INT 1000 MEDIUM static [0,...]
    Pause of a follower after an error of a partition.
replica.fetch.max.bytes INT 1048576 MEDIUM static [0,...]
    Bytes a follower asks for per partition; the first batch comes even if larger.
replica.fetch.min.bytes INT 1 HIGH static
    Bytes a follower waits for before the leader answers.
replica.fetch.response.max.bytes INT 10485760 MEDIUM static [0,...]
    Bytes a follower asks for in one request; the first batch comes even if larger.
replica.fetch.wait.max.ms INT 500 HIGH static
    Longest wait of a follower's fetch; stays below replica.lag.time.max.ms, else quiet partitions shrink.
replica.high.watermark.checkpoint.interval.ms LONG 5000 HIGH static
    How often the high watermarks are written.
replica.lag.time.max.ms LONG 30000 HIGH static
    A follower that has not caught up for this long leaves the ISR.
replica.selector.class STRING null MEDIUM static
    Java class that says which replica a consumer reads from (KIP-392): LeaderSelector, as when unset, or RackAwareReplicaSelector
    of org.apache.kafka.common.replica, a replica in the consumer's rack.
replica.socket.timeout.ms INT 30000 HIGH static
    A follower reconnects to a leader that is silent for this long.
replication.quota.window.num INT 11 LOW static [1,...]
    Samples kept when measuring throttled replication.
replication.quota.window.size.seconds INT 1 LOW static [1,...]
    Length of one such sample.
request.timeout.ms INT 30000 HIGH static
    Longest wait of this broker for another's answer.
sasl.server.max.receive.size INT 524288 MEDIUM static
    Largest request before a login is complete.
security.inter.broker.protocol STRING PLAINTEXT MEDIUM static [PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL]
    Protocol the brokers talk over when inter.broker.listener.name is unset.
socket.connection.setup.timeout.ms LONG 10000 MEDIUM static
    Longest wait for another broker to accept a connection.
socket.listen.backlog.size INT 50 MEDIUM static [1,...]
    Connections the kernel holds ready before they are accepted. Below 16,384 it counts as 16,384; net.core.somaxconn bounds it.
socket.request.max.bytes INT 104857600 HIGH static [1,...]
    Largest request frame; a larger one closes the connection.
transaction.abort.timed.out.transaction.cleanup.interval.ms INT 10000 LOW static [1,...]
    How often transactions past their timeout are looked for.
transaction.max.timeout.ms INT 900000 HIGH static [1,...]
    Longest timeout a transaction may ask for.
transaction.partition.verification.enable BOOLEAN true LOW dynamic
    A transactional write is taken only if the coordinator knows of it.
transaction.remove.expired.transaction.cleanup.interval.ms INT 3600000 LOW static [1,...]
    How often forgotten transactional ids are looked for.
transaction.state.log.min.isr INT 2 HIGH static [1,...]
    min.insync.replicas of the transactions topic.
transaction.state.log.num.partitions INT 50 HIGH static [1,...]
    Partitions of the transactions topic; fixed once it exists.
transaction.state.log.replication.factor SHORT 3 HIGH static [1,...]
    Replicas of the transactions topic.
transaction.state.log.segment.bytes INT 104857600 HIGH static [1,...]
    Segment size of the transactions topic.
transactional.id.expiration.ms INT 604800000 HIGH static [1,...]
    A transactional id unused for this long is forgotten.
unclean.leader.election.enable BOOLEAN false HIGH dynamic
    A replica outside the ISR may lead when no member of the ISR is live; acknowledged records can be lost.
zookeeper.connect STRING null HIGH static
    Addresses of a ZooKeeper ensemble, with an optional chroot; unset means the embedded store.
zookeeper.connection.timeout.ms INT null HIGH static
    Longest wait for a ZooKeeper server at the start; unset means zookeeper.session.timeout.ms.
zookeeper.max.in.flight.requests INT 10 HIGH static [1,...]
    ZooKeeper: reads sent ahead of their answers; of many nodes, 250 are one request.
zookeeper.session.timeout.ms INT 18000 HIGH static
    A broker the store has not heard of for this long counts as dead.
zookeeper.set.acl BOOLEAN false HIGH static
    ZooKeeper: nodes made from now on are writable by our credentials alone, secrets readable by them alone.
zookeeper.ssl.cipher.suites LIST null LOW static
    ZooKeeper TLS: cipher suites allowed up to TLS 1.2, by Java's names or OpenSSL's.
zookeeper.ssl.client.enable BOOLEAN false MEDIUM static
    ZooKeeper TLS, on or off.
zookeeper.ssl.crl.enable BOOLEAN false LOW static
    ZooKeeper TLS: look at the revocation lists in the trust store's file.
zookeeper.ssl.enabled.protocols LIST null LOW static
    ZooKeeper TLS: versions allowed; unset means zookeeper.ssl.protocol and newer.
zookeeper.ssl.endpoint.identification.algorithm STRING HTTPS LOW static
    ZooKeeper TLS: HTTPS = the server's certificate must name it; empty = any name will do.
zookeeper.ssl.keystore.location STRING null MEDIUM static
    ZooKeeper TLS: our private key and its certificates, in one PEM file.
zookeeper.ssl.keystore.password PASSWORD null MEDIUM static
    ZooKeeper TLS: password of that private key.
zookeeper.ssl.keystore.type STRING null MEDIUM static
    ZooKeeper TLS: PEM is what can be read; the file itself tells.
zookeeper.ssl.ocsp.enable BOOLEAN false LOW static
    ZooKeeper TLS: ask for revocation online; refused, Python cannot.
zookeeper.ssl.protocol STRING TLSv1.2 LOW static
    ZooKeeper TLS: oldest version allowed when enabled.protocols is unset.
zookeeper.ssl.truststore.location STRING null MEDIUM static
    ZooKeeper TLS: authorities trusted, in a PEM file; unset means the system's.
zookeeper.ssl.truststore.type STRING null MEDIUM static
    ZooKeeper TLS: PEM is what can be read; the file itself tells.
"""

OURS = """
odradek.accept.unserved BOOLEAN false LOW static
    Start although TLS, SASL, an authorizer, policies or KRaft are set and not served; else that is refused.
odradek.cluster.size INT 0 LOW static [0,...]
    Brokers this cluster is meant to have; internal topics then get min(3, N) replicas. 0 = not declared.
odradek.compaction.coordination.timeout.ms LONG 86400000 LOW dynamic [-1,...]
    How long past its horizon a tombstone or marker waits for replicas that lag or are away; -1 = for ever.
odradek.controlled.shutdown.refuse STRING none LOW dynamic [none, offline, under-min]
    Stay up instead of stopping when that would take partitions offline, have an unclean election lose records, or leave
    partitions below min.insync.replicas.
odradek.delete.topic.with.offline.replicas BOOLEAN false LOW dynamic
    Finish deleting a topic while a replica's broker is down; it cleans up by topic id when it returns.
odradek.group.consumer.migration.policy STRING bidirectional LOW static [bidirectional, upgrade, downgrade, disabled]
    Which way a group with members may change its protocol; an empty group always may.
odradek.journal.dir STRING null LOW static
    Directory of the controller's state-change journal; unset means the first log directory.
odradek.log.record.validation STRING header LOW dynamic [full, header]
    What is checked of a produced batch beyond its CRC: its header and how its records begin, or every record in it.
odradek.log.scrub.bytes.per.second LONG 1048576 LOW static [0,...]
    How much of the logs is read again to see that every batch is as it was written; 0 reads nothing.
odradek.metrics.listener STRING "" LOW static
    Where /metrics answers Prometheus, as http://host:port; empty: nowhere. Whoever can connect there may read it.
odradek.store STRING null LOW static
    File of the embedded store, shared by all brokers of the host; unset means `odradek-store.sqlite`
    in the first log directory, unless zookeeper.connect is set.
odradek.uvloop BOOLEAN true LOW static
    Use uvloop when it is installed.
odradek.zookeeper.sasl.jaas.config PASSWORD null LOW static
    Credentials for ZooKeeper: the Client section's line of a JAAS file, with DigestLoginModule.
"""

# In place of dynamic or static stand the broker settings that supply a topic's value; the first that is set wins.
TOPIC = """
cleanup.policy LIST delete MEDIUM log.cleanup.policy [compact, delete]
    What becomes of old records: deleted by age and size, compacted by key, or both.
compression.gzip.level INT -1 MEDIUM compression.gzip.level [1,...,9] or -1
    Effort of gzip when the broker compresses.
compression.type STRING producer MEDIUM compression.type [uncompressed, zstd, lz4, snappy, gzip, producer]
    Codec of stored batches; `producer` keeps whatever the producer chose.
compression.zstd.level INT 3 MEDIUM compression.zstd.level [-131072,...,22]
    Effort of zstd when the broker compresses.
delete.retention.ms LONG 86400000 MEDIUM log.cleaner.delete.retention.ms [0,...]
    How long a tombstone stays after its cleaning.
file.delete.delay.ms LONG 60000 MEDIUM log.segment.delete.delay.ms [0,...]
    How long a file marked as deleted stays on disk.
flush.messages LONG 9223372036854775807 MEDIUM log.flush.interval.messages [1,...]
    Records gathered before a flush; 1 flushes before every acknowledgement.
flush.ms LONG 9223372036854775807 MEDIUM log.flush.interval.ms,log.flush.scheduler.interval.ms [0,...]
    Longest time a record stays unflushed.
follower.replication.throttled.replicas LIST "" MEDIUM null $throttled
    Replicas whose fetching is throttled, as partition:broker pairs, or `*`.
index.interval.bytes INT 4096 MEDIUM log.index.interval.bytes [0,...]
    Bytes of log between two entries of the offset index.
leader.replication.throttled.replicas LIST "" MEDIUM null $throttled
    Replicas whose serving of followers is throttled, as partition:broker pairs, or `*`.
max.compaction.lag.ms LONG 9223372036854775807 MEDIUM log.cleaner.max.compaction.lag.ms [1,...]
    A record is compacted at the latest after this time.
max.message.bytes INT 1048588 MEDIUM message.max.bytes [0,...]
    Largest record batch accepted, its header included.
message.timestamp.after.max.ms LONG 9223372036854775807 MEDIUM log.message.timestamp.after.max.ms [0,...]
    How far ahead of the leader's clock a record's timestamp may lie.
message.timestamp.before.max.ms LONG 9223372036854775807 MEDIUM log.message.timestamp.before.max.ms [0,...]
    How far behind the leader's clock a record's timestamp may lie.
message.timestamp.difference.max.ms LONG 9223372036854775807 MEDIUM log.message.timestamp.difference.max.ms [0,...]
    The older setting for both directions.
message.timestamp.type STRING CreateTime MEDIUM log.message.timestamp.type [CreateTime, LogAppendTime]
    Whose clock dates a record: the producer's or the leader's.
min.cleanable.dirty.ratio DOUBLE 0.5 MEDIUM log.cleaner.min.cleanable.ratio [0,...,1]
    Dirty share of the log that makes it worth cleaning.
min.compaction.lag.ms LONG 0 MEDIUM log.cleaner.min.compaction.lag.ms [0,...]
    A record is left alone by the cleaner for this time.
min.insync.replicas INT 1 MEDIUM min.insync.replicas [1,...]
    Members the ISR must have for a write with acks=all to be taken.
retention.bytes LONG -1 MEDIUM log.retention.bytes
    Size a partition is cut back to, oldest segments first; -1 keeps all.
retention.ms LONG 604800000 MEDIUM log.retention.ms,log.retention.minutes,log.retention.hours [-1,...]
    Age after which a segment is deleted; -1 keeps all.
segment.bytes INT 1073741824 MEDIUM log.segment.bytes [14,...]
    Size at which a new segment file is begun.
segment.index.bytes INT 10485760 MEDIUM log.index.size.max.bytes [4,...]
    Largest offset or time index of a segment.
segment.jitter.ms LONG 0 MEDIUM log.roll.jitter.ms,log.roll.jitter.hours [0,...]
    At most this much is taken off segment.ms, so that partitions do not roll together.
segment.ms LONG 604800000 MEDIUM log.roll.ms,log.roll.hours [1,...]
    Age at which the active segment is rolled even when it is not full.
unclean.leader.election.enable BOOLEAN false MEDIUM unclean.leader.election.enable
    A replica outside the ISR may lead when no member of the ISR is live; acknowledged records can be lost.
"""

# Kept under /config/brokers only: Apache has no such entry in a configuration file, and DescribeConfigs reports
# them only where they are set.
DYNAMIC_ONLY = """
follower.replication.throttled.rate LONG 9223372036854775807 MEDIUM dynamic [0,...]
    Bytes a second this broker fetches of the replicas its topics call throttled.
leader.replication.throttled.rate LONG 9223372036854775807 MEDIUM dynamic [0,...]
    Bytes a second this broker serves followers of the replicas its topics call throttled.
replica.alter.log.dirs.io.max.bytes.per.second LONG 9223372036854775807 MEDIUM dynamic [0,...]
    Bytes a second copied between log directories of this broker.
"""
