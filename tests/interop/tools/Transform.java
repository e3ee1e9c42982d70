/*
 * Exactly once in Java: read records, write others, commit what was read, all in one transaction.
 *
 * Arguments: BOOTSTRAP SOURCE TARGET GROUP NAME. It handles no error: it ends, and whoever started it starts it again.
 * tests/clients/transforms says why that is enough.
 */

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Transform {
    public static void main(String[] arguments) {
        String bootstrap = arguments[0], source = arguments[1], target = arguments[2];
        String group = arguments[3], name = arguments[4];
        var producer = new KafkaProducer<>(
            Map.of("bootstrap.servers", bootstrap, "transactional.id", name),
            new ByteArraySerializer(), new ByteArraySerializer());
        var consumer = new KafkaConsumer<>(
            Map.of("bootstrap.servers", bootstrap, "group.id", group, "group.instance.id", name,
                "auto.offset.reset", "earliest", "enable.auto.commit", false, "max.poll.records", 20),
            new ByteArrayDeserializer(), new ByteArrayDeserializer());
        producer.initTransactions();
        consumer.subscribe(List.of(source));
        while (true) {
            var records = consumer.poll(Duration.ofSeconds(1));
            if (records.isEmpty()) {
                continue;
            }
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (ConsumerRecord<byte[], byte[]> record : records) {
                producer.send(new ProducerRecord<>(target, record.partition(), record.key(), record.value()));
                offsets.put(new TopicPartition(source, record.partition()), new OffsetAndMetadata(record.offset() + 1));
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            producer.commitTransaction();
        }
    }
}
