"""Settings of Apache Kafka 3.9 that are accepted and reported, and that this broker does not act on (yet).

A configuration file made for Apache starts here unchanged, and DescribeConfigs lists what its tools expect.
The form is that of `settings_acted_on.py`; a setting moves there with the code that reads it.
"""

BROKER = """
alter.config.policy.class.name CLASS null LOW static
    A class that judges configuration changes before they are made.
authorizer.class.name STRING "" LOW static non-null string
    The class that decides who may do what.
auto.include.jmx.reporter BOOLEAN true LOW static
    JMX is a reporter even when none is named.
background.threads INT 10 HIGH dynamic [1,...]
    Threads for chores; here one event loop and a few workers do them.
broker.heartbeat.interval.ms INT 2000 MEDIUM static
    KRaft: time between two heartbeats of a broker.
broker.id.generation.enable BOOLEAN true MEDIUM static
    A broker without a number may be given one above reserved.broker.max.id.
broker.session.timeout.ms INT 9000 MEDIUM static
    KRaft: silence after which a broker counts as dead.
client.quota.callback.class CLASS null LOW static
    A class that computes client quotas.
compression.lz4.level INT 9 MEDIUM dynamic [1,...,17]
    Effort of lz4 when this broker compresses.
connection.failed.authentication.delay.ms INT 100 LOW static [0,...]
    Pause before a failed login is closed.
connections.max.reauth.ms LONG 0 MEDIUM static
    Longest life of a login before it must be renewed; 0 = for ever.
control.plane.listener.name STRING null HIGH static
    A listener of its own for the controller's requests.
controller.listener.names STRING null HIGH static
    KRaft: listeners of the controllers.
controller.quorum.append.linger.ms INT 25 MEDIUM static
    KRaft: how long the leader gathers writes before it flushes them.
controller.quorum.bootstrap.servers LIST "" HIGH static non-empty list
    KRaft: addresses to find the quorum by.
controller.quorum.election.backoff.max.ms INT 1000 HIGH static
    KRaft: longest pause before a new election.
controller.quorum.election.timeout.ms INT 1000 HIGH static
    KRaft: wait for votes before a new election.
controller.quorum.fetch.timeout.ms INT 2000 HIGH static
    KRaft: silence of the leader that starts an election.
controller.quorum.request.timeout.ms INT 2000 MEDIUM static
    KRaft: wait for an answer inside the quorum.
controller.quorum.retry.backoff.ms INT 20 LOW static
    KRaft: pause before a request is repeated.
controller.quorum.voters LIST "" HIGH static non-empty list
    KRaft: the voters, as id@host:port.
create.topic.policy.class.name CLASS null LOW static
    A class that judges new topics.
delegation.token.expiry.check.interval.ms LONG 3600000 LOW static [1,...]
    How often expired tokens are looked for.
delegation.token.expiry.time.ms LONG 86400000 MEDIUM static [1,...]
    Life of a token that is not renewed.
delegation.token.master.key PASSWORD null MEDIUM static
    The older name of delegation.token.secret.key.
delegation.token.max.lifetime.ms LONG 604800000 MEDIUM static [1,...]
    Life beyond which no token can be renewed.
delegation.token.secret.key PASSWORD null MEDIUM static
    Key the tokens are signed with, the same on all brokers.
delete.records.purgatory.purge.interval.requests INT 1 MEDIUM static
    Finished requests gathered before their places are swept; ours are freed at once.
early.start.listeners STRING null HIGH static
    KRaft: listeners that open before the broker is ready.
eligible.leader.replicas.enable BOOLEAN false HIGH static
    KRaft: keep the eligible leader replicas of KIP-966.
fetch.purgatory.purge.interval.requests INT 1000 MEDIUM static
    As above, for parked fetches.
group.coordinator.append.linger.ms INT 10 MEDIUM static [0,...]
    Newer groups: how long the coordinator gathers records before it writes.
group.coordinator.threads INT 1 MEDIUM static [1,...]
    Threads of the newer coordinator.
group.share.delivery.count.limit INT 5 MEDIUM static [2,...,10]
    Share groups: attempts to deliver a record.
group.share.heartbeat.interval.ms INT 5000 MEDIUM static [1,...]
    Share groups: time between two heartbeats.
group.share.max.groups SHORT 10 MEDIUM static [1,...,100]
    Share groups: how many there may be.
group.share.max.heartbeat.interval.ms INT 15000 MEDIUM static [1,...]
    Share groups: upper bound of the heartbeat time.
group.share.max.record.lock.duration.ms INT 60000 MEDIUM static [30000,...,3600000]
    Share groups: upper bound of a record's lock.
group.share.max.session.timeout.ms INT 60000 MEDIUM static [1,...]
    Share groups: upper bound of the session timeout.
group.share.max.size SHORT 200 MEDIUM static [10,...,1000]
    Share groups: members a group may have.
group.share.min.heartbeat.interval.ms INT 5000 MEDIUM static [1,...]
    Share groups: lower bound of the heartbeat time.
group.share.min.record.lock.duration.ms INT 15000 MEDIUM static [1000,...,30000]
    Share groups: lower bound of a record's lock.
group.share.min.session.timeout.ms INT 45000 MEDIUM static [1,...]
    Share groups: lower bound of the session timeout.
group.share.partition.max.record.locks INT 200 MEDIUM static [100,...,10000]
    Share groups: records of a partition that can be out for delivery.
group.share.record.lock.duration.ms INT 30000 MEDIUM static [1000,...,60000]
    Share groups: how long a delivered record is locked.
group.share.session.timeout.ms INT 45000 MEDIUM static [1,...]
    Share groups: silence after which a member is removed.
initial.broker.registration.timeout.ms INT 60000 MEDIUM static
    KRaft: time a starting broker has to register.
inter.broker.protocol.version STRING 3.9-IV0 MEDIUM static $versions
    Protocol between brokers; ours always speak 3.9.
kafka.metrics.polling.interval.secs INT 10 LOW static [1,...]
    How often a reporter is called.
kafka.metrics.reporters LIST "" LOW static
    Classes that report the older metrics.
log.cleaner.io.buffer.size INT 524288 MEDIUM dynamic [0,...]
    Buffer of the cleaner's reads and writes.
log.cleaner.threads INT 1 MEDIUM dynamic [0,...]
    Logs cleaned at one time; here one.
log.dir.failure.timeout.ms LONG 30000 LOW static [1,...]
    KRaft: a failed directory that cannot be reported in this time stops the broker.
log.local.retention.bytes LONG -2 MEDIUM dynamic [-2,...]
    Tiered storage: bytes kept on local disk; -2 = as log.retention.bytes.
log.local.retention.ms LONG -2 MEDIUM dynamic [-2,...]
    Tiered storage: age kept on local disk; -2 = as log.retention.ms.
log.message.downconversion.enable BOOLEAN true LOW dynamic
    Older record formats for older readers; only magic 2 is stored and served here.
log.message.format.version STRING 3.0-IV1 MEDIUM static $versions
    Record format of the log; always magic 2 here.
log.preallocate BOOLEAN false MEDIUM dynamic
    New segments get their full size on disk at once.
metadata.log.dir STRING null HIGH static
    KRaft: directory of the metadata log.
metadata.log.max.record.bytes.between.snapshots LONG 20971520 HIGH static [1,...]
    KRaft: bytes of metadata after which a snapshot is taken.
metadata.log.max.snapshot.interval.ms LONG 3600000 HIGH static [0,...]
    KRaft: time after which a snapshot is taken.
metadata.log.segment.bytes INT 1073741824 HIGH static [12,...]
    KRaft: segment size of the metadata log.
metadata.log.segment.ms LONG 604800000 HIGH static
    KRaft: segment age of the metadata log.
metadata.max.idle.interval.ms INT 500 LOW static [0,...]
    KRaft: time after which a quiet leader writes a no-op.
metadata.max.retention.bytes LONG 104857600 HIGH static
    KRaft: size at which old snapshots go.
metadata.max.retention.ms LONG 604800000 HIGH static
    KRaft: age at which old snapshots go.
metric.reporters LIST "" LOW dynamic
    Classes that report metrics.
metrics.num.samples INT 2 LOW static [1,...]
    Samples a rate is computed over.
metrics.recording.level STRING INFO LOW static
    Which metrics are kept at all.
metrics.sample.window.ms LONG 30000 LOW static [1,...]
    Length of one such sample.
num.io.threads INT 8 HIGH dynamic [1,...]
    Threads that handle requests; here one event loop does.
num.network.threads INT 3 HIGH dynamic [1,...]
    Threads that read and write sockets; here one event loop does.
num.recovery.threads.per.data.dir INT 1 HIGH dynamic [1,...]
    Threads that open logs at start-up; here one: two took as long, since what they do is Python.
num.replica.fetchers INT 1 HIGH dynamic
    Connections to each leader over which this broker follows; here one.
offsets.commit.required.acks SHORT -1 HIGH static
    Acknowledgement an offset commit waits for.
offsets.load.buffer.size INT 5242880 HIGH static [1,...]
    Read size when a coordinator loads its offsets.
offsets.topic.compression.codec INT 0 HIGH static
    Codec number of the offsets topic.
password.encoder.cipher.algorithm STRING AES/CBC/PKCS5Padding LOW static
    Cipher of secrets in the store.
password.encoder.iterations INT 4096 LOW static [1024,...]
    Rounds of the key derivation of those secrets.
password.encoder.key.length INT 128 LOW static [8,...]
    Key length of those secrets.
password.encoder.keyfactory.algorithm STRING null LOW static
    Key derivation of those secrets.
password.encoder.old.secret PASSWORD null MEDIUM static
    The secret before the present one, while it is being changed.
password.encoder.secret PASSWORD null MEDIUM static
    Secret that passwords in the store are encrypted with.
principal.builder.class CLASS org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder MEDIUM dynamic
    The class that names who is on a connection.
process.roles LIST "" HIGH static [broker, controller]
    KRaft: what this process is; empty here.
producer.purgatory.purge.interval.requests INT 1000 MEDIUM static
    As for fetches, for parked produce requests.
queued.max.request.bytes LONG -1 MEDIUM static
    Bytes of unanswered requests beyond which no connection is read; -1 = no limit.
remote.fetch.max.wait.ms INT 500 MEDIUM dynamic [1,...]
    Tiered storage: longest wait for a remote read.
remote.log.index.file.cache.total.size.bytes LONG 1073741824 LOW dynamic [1,...]
    Tiered storage: size of the cache of indexes.
remote.log.manager.copier.thread.pool.size INT -1 MEDIUM static $remote-threads
    Tiered storage: threads that copy out; -1 = as remote.log.manager.thread.pool.size.
remote.log.manager.copy.max.bytes.per.second LONG 9223372036854775807 MEDIUM dynamic [1,...]
    Tiered storage: ceiling of copying out.
remote.log.manager.copy.quota.window.num INT 11 MEDIUM static [1,...]
    Tiered storage: samples kept when measuring that.
remote.log.manager.copy.quota.window.size.seconds INT 1 MEDIUM static [1,...]
    Tiered storage: length of one such sample.
remote.log.manager.expiration.thread.pool.size INT -1 MEDIUM static $remote-threads
    Tiered storage: threads that delete; -1 = as remote.log.manager.thread.pool.size.
remote.log.manager.fetch.max.bytes.per.second LONG 9223372036854775807 MEDIUM dynamic [1,...]
    Tiered storage: ceiling of reading back.
remote.log.manager.fetch.quota.window.num INT 11 MEDIUM static [1,...]
    Tiered storage: samples kept when measuring that.
remote.log.manager.fetch.quota.window.size.seconds INT 1 MEDIUM static [1,...]
    Tiered storage: length of one such sample.
remote.log.manager.task.interval.ms LONG 30000 LOW static [1,...]
    Tiered storage: how often its tasks run.
remote.log.manager.thread.pool.size INT 10 MEDIUM static [1,...]
    Tiered storage: threads for its tasks.
remote.log.metadata.custom.metadata.max.bytes INT 128 LOW static [0,...]
    Tiered storage: longest note a storage plugin may leave.
remote.log.metadata.manager.class.name STRING org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager MEDIUM static non-empty string
    Tiered storage: the class that remembers what lies where.
remote.log.metadata.manager.class.path STRING null MEDIUM static
    Tiered storage: where that class is loaded from.
remote.log.metadata.manager.impl.prefix STRING rlmm.config. MEDIUM static non-empty string
    Tiered storage: prefix of that class's own settings.
remote.log.metadata.manager.listener.name STRING null MEDIUM static non-empty string
    Tiered storage: listener that class talks over.
remote.log.reader.max.pending.tasks INT 100 MEDIUM static [1,...]
    Tiered storage: remote reads that may wait.
remote.log.reader.threads INT 10 MEDIUM static [1,...]
    Tiered storage: threads of remote reads.
remote.log.storage.manager.class.name STRING null MEDIUM static non-empty string
    Tiered storage: the class that stores segments elsewhere.
remote.log.storage.manager.class.path STRING null MEDIUM static
    Tiered storage: where that class is loaded from.
remote.log.storage.manager.impl.prefix STRING rsm.config. MEDIUM static non-empty string
    Tiered storage: prefix of that class's own settings.
remote.log.storage.system.enable BOOLEAN false MEDIUM static
    Tiered storage, on or off; there is none here.
replica.socket.receive.buffer.bytes INT 65536 HIGH static
    Receive buffer of a follower's connection.
reserved.broker.max.id INT 1000 MEDIUM static [0,...]
    Highest number that may be given to a broker by hand; generated ones start above.
sasl.client.callback.handler.class CLASS null MEDIUM static
    SASL: class that answers a login's questions on the client side.
sasl.enabled.mechanisms LIST GSSAPI MEDIUM dynamic
    SASL: mechanisms offered.
sasl.jaas.config PASSWORD null MEDIUM dynamic
    SASL: login modules and their options, in JAAS form.
sasl.kerberos.kinit.cmd STRING /usr/bin/kinit MEDIUM dynamic
    Kerberos: the kinit command.
sasl.kerberos.min.time.before.relogin LONG 60000 MEDIUM dynamic
    Kerberos: shortest time between two logins.
sasl.kerberos.principal.to.local.rules LIST DEFAULT MEDIUM dynamic
    Kerberos: rules from principal to short name.
sasl.kerberos.service.name STRING null MEDIUM dynamic
    Kerberos: name the brokers run as.
sasl.kerberos.ticket.renew.jitter DOUBLE 0.05 MEDIUM dynamic
    Kerberos: random share added to the renewal time.
sasl.kerberos.ticket.renew.window.factor DOUBLE 0.8 MEDIUM dynamic
    Kerberos: share of a ticket's life after which it is renewed.
sasl.login.callback.handler.class CLASS null MEDIUM static
    SASL: class that answers a login's questions.
sasl.login.class CLASS null MEDIUM static
    SASL: class that performs the login.
sasl.login.connect.timeout.ms INT null LOW static
    OAuth: wait for a connection to the token endpoint.
sasl.login.read.timeout.ms INT null LOW static
    OAuth: wait for an answer of the token endpoint.
sasl.login.refresh.buffer.seconds SHORT 300 MEDIUM dynamic
    OAuth: time before expiry that a refresh should leave.
sasl.login.refresh.min.period.seconds SHORT 60 MEDIUM dynamic
    OAuth: shortest time between two refreshes.
sasl.login.refresh.window.factor DOUBLE 0.8 MEDIUM dynamic
    OAuth: share of a token's life after which it is refreshed.
sasl.login.refresh.window.jitter DOUBLE 0.05 MEDIUM dynamic
    OAuth: random share added to that.
sasl.login.retry.backoff.max.ms LONG 10000 LOW static
    OAuth: longest pause between two attempts.
sasl.login.retry.backoff.ms LONG 100 LOW static
    OAuth: first pause between two attempts.
sasl.mechanism.controller.protocol STRING GSSAPI HIGH static
    KRaft: mechanism towards the controllers.
sasl.mechanism.inter.broker.protocol STRING GSSAPI MEDIUM dynamic
    SASL: mechanism between brokers.
sasl.oauthbearer.clock.skew.seconds INT 30 LOW static
    OAuth: difference of clocks that is forgiven.
sasl.oauthbearer.expected.audience LIST null LOW static
    OAuth: audiences a token may name.
sasl.oauthbearer.expected.issuer STRING null LOW static
    OAuth: issuer a token must name.
sasl.oauthbearer.jwks.endpoint.refresh.ms LONG 3600000 LOW static
    OAuth: how often the keys are fetched.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms LONG 10000 LOW static
    OAuth: longest pause between two attempts to fetch them.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms LONG 100 LOW static
    OAuth: first pause between two such attempts.
sasl.oauthbearer.jwks.endpoint.url STRING null MEDIUM static
    OAuth: where the keys are.
sasl.oauthbearer.scope.claim.name STRING scope LOW static
    OAuth: claim that holds the scopes.
sasl.oauthbearer.sub.claim.name STRING sub LOW static
    OAuth: claim that holds the subject.
sasl.oauthbearer.token.endpoint.url STRING null MEDIUM static
    OAuth: where tokens come from.
sasl.server.callback.handler.class CLASS null MEDIUM static
    SASL: class that checks credentials.
security.providers STRING null LOW static
    Java security providers to register.
socket.connection.setup.timeout.max.ms LONG 30000 MEDIUM static
    Upper bound to which the wait for a connection grows.
socket.receive.buffer.bytes INT 102400 HIGH static
    Receive buffer of a connection; -1 leaves it to the kernel.
socket.send.buffer.bytes INT 102400 HIGH static
    Send buffer of a connection; -1 leaves it to the kernel.
ssl.allow.dn.changes BOOLEAN false LOW static
    A reloaded certificate may carry another subject.
ssl.allow.san.changes BOOLEAN false LOW static
    A reloaded certificate may carry other alternative names.
ssl.cipher.suites LIST "" MEDIUM dynamic
    TLS: cipher suites allowed.
ssl.client.auth STRING none MEDIUM dynamic [required, requested, none]
    TLS: whether clients show a certificate.
ssl.enabled.protocols LIST TLSv1.2,TLSv1.3 MEDIUM dynamic
    TLS: protocol versions allowed.
ssl.endpoint.identification.algorithm STRING https LOW dynamic
    TLS: how the other side's name is checked.
ssl.engine.factory.class CLASS null LOW dynamic
    TLS: class that makes engines.
ssl.key.password PASSWORD null MEDIUM dynamic
    TLS: password of the private key.
ssl.keymanager.algorithm STRING SunX509 MEDIUM dynamic
    TLS: Java's key manager.
ssl.keystore.certificate.chain PASSWORD null MEDIUM dynamic
    TLS: certificate chain as PEM text.
ssl.keystore.key PASSWORD null MEDIUM dynamic
    TLS: private key as PEM text.
ssl.keystore.location STRING null MEDIUM dynamic
    TLS: file of the key store.
ssl.keystore.password PASSWORD null MEDIUM dynamic
    TLS: password of that file.
ssl.keystore.type STRING JKS MEDIUM dynamic
    TLS: kind of that file.
ssl.principal.mapping.rules STRING DEFAULT LOW static
    TLS: rules from a certificate's subject to a user.
ssl.protocol STRING TLSv1.3 MEDIUM dynamic
    TLS: version to prefer.
ssl.provider STRING null MEDIUM dynamic
    TLS: Java's provider.
ssl.secure.random.implementation STRING null LOW dynamic
    TLS: Java's source of randomness.
ssl.trustmanager.algorithm STRING PKIX MEDIUM dynamic
    TLS: Java's trust manager.
ssl.truststore.certificates PASSWORD null MEDIUM dynamic
    TLS: trusted certificates as PEM text.
ssl.truststore.location STRING null MEDIUM dynamic
    TLS: file of the trust store.
ssl.truststore.password PASSWORD null MEDIUM dynamic
    TLS: password of that file.
ssl.truststore.type STRING JKS MEDIUM dynamic
    TLS: kind of that file.
telemetry.max.bytes INT 1048576 LOW static [1,...]
    Largest metrics report a client may send.
transaction.state.log.load.buffer.size INT 5242880 HIGH static [1,...]
    Read size when a coordinator loads its transactions.
zookeeper.clientCnxnSocket STRING null MEDIUM static
    ZooKeeper: Java's socket class.
zookeeper.metadata.migration.enable BOOLEAN false HIGH static
    ZooKeeper: take part in a migration to KRaft; refused here.
zookeeper.ssl.truststore.password PASSWORD null MEDIUM static
    ZooKeeper TLS: password of that file.
"""

TOPIC = """
compression.lz4.level INT 9 MEDIUM compression.lz4.level [1,...,17]
    Effort of lz4 when the broker compresses.
local.retention.bytes LONG -2 MEDIUM log.local.retention.bytes [-2,...]
    Tiered storage: bytes kept on local disk; -2 = as retention.bytes.
local.retention.ms LONG -2 MEDIUM log.local.retention.ms [-2,...]
    Tiered storage: age kept on local disk; -2 = as retention.ms.
message.downconversion.enable BOOLEAN true LOW log.message.downconversion.enable
    Older record formats for older readers; only magic 2 is stored and served here.
message.format.version STRING 3.0-IV1 MEDIUM log.message.format.version $versions
    Record format of the log; always magic 2 here.
preallocate BOOLEAN false MEDIUM log.preallocate
    New segments get their full size on disk at once.
remote.log.copy.disable BOOLEAN false MEDIUM null
    Tiered storage: stop copying this topic out.
remote.log.delete.on.disable BOOLEAN false MEDIUM null
    Tiered storage: delete what lies elsewhere when it is switched off.
remote.storage.enable BOOLEAN false MEDIUM null
    Tiered storage for this topic; there is none here.
"""
