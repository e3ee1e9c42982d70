// KafkaJS: a producer, a member of a group, and the loop of transactions.
//
// None of them handles an error: it ends, and whoever started it starts it again. tests/clients/transforms says why that is
// enough for the loop.

const { Kafka, logLevel } = require("kafkajs");

const DIGITS = 12;
const SIZE = 100;

const clusterOf = (bootstrap) => new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.WARN });

const end = (error) => {
  console.error(error);
  process.exit(1);
};

/**
 * Numbered records to every partition, and where each was acknowledged. One partition a call: where the leader of one of
 * several is lost, 2.2.4 may leave out its records without an error, with any broker.
 */
async function produce(bootstrap, topic, partitions, each) {
  const producer = clusterOf(bootstrap).producer();
  await producer.connect();
  for (let number = 0; number < Number(each); number++) {
    const value = String(number).padStart(DIGITS, "0").padEnd(SIZE, ".");
    for (let partition = 0; partition < Number(partitions); partition++) {
      const [done] = await producer.send({ topic, messages: [{ partition, value }] });
      console.log(partition, done.baseOffset, number);
    }
  }
  await producer.disconnect();
}

/** Subscribes, and prints each record that it reads. */
async function member(bootstrap, topic, group) {
  const consumer = clusterOf(bootstrap).consumer({ groupId: group });
  consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || end(payload.error));
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommitInterval: 200,
    eachMessage: async ({ partition, message }) => {
      console.log(partition, message.offset, Number(message.value.toString().slice(0, DIGITS)));
    },
  });
}

/**
 * Reads records, writes others and commits what was read, all in one transaction.
 *
 * Two things of 2.2.4 differ from the loops of other clients. It knows no static members, so a life waits until the session
 * of the one before has timed out. And it asks for offsets without minding those of a transaction whose end is decided but
 * not yet written everywhere (KIP-447): so a life ends where its group rebalances, and the next one's first act, to begin with
 * its transactional id, waits for that end.
 */
async function transform(bootstrap, source, target, group, name) {
  const kafka = clusterOf(bootstrap);
  const producer = kafka.producer({ transactionalId: name, idempotent: true, maxInFlightRequests: 1 });
  const consumer = kafka.consumer({ groupId: group, sessionTimeout: 6000, heartbeatInterval: 500 });
  let joins = 0;
  consumer.on(consumer.events.CRASH, ({ payload }) => end(payload.error));
  consumer.on(consumer.events.GROUP_JOIN, () => ++joins > 1 && end("the group has rebalanced"));
  await producer.connect();
  await consumer.connect();
  await consumer.subscribe({ topics: [source], fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch }) => {
      const { partition } = batch;
      const transaction = await producer.transaction();
      await transaction.send({
        topic: target,
        messages: batch.messages.map(({ value }) => ({ partition, value })),
      });
      const offset = String(BigInt(batch.lastOffset()) + 1n);
      const topics = [{ topic: source, partitions: [{ partition, offset }] }];
      await transaction.sendOffsets({ consumerGroupId: group, topics });
      await transaction.commit();
    },
  });
}

const [verb, ...args] = process.argv.slice(2);
process.on("unhandledRejection", end);
({ produce, member, transform })[verb](...args).catch(end);
