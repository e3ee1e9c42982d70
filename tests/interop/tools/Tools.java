/*
 * Apache Kafka's command-line tools, and its producer and consumer, one command after the other in one JVM:
 * each start of one costs a second or two.
 *
 * A line of standard input is one command, its words divided by tabs: the class of a tool and its arguments, or
 * one of the commands below. The answer is a line with the exit code and the size of what follows, then what the
 * tool printed, both of its streams in their order.
 */

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Exit;

public class Tools {
    /** In place of the end of the JVM. */
    static class Ended extends RuntimeException {
        final int code;

        Ended(int code, String message) {
            super(message);
            this.code = code;
        }
    }

    /** Standard output and error of whichever command runs now; Scala's console keeps the first it sees. */
    static class Switch extends OutputStream {
        volatile OutputStream to = OutputStream.nullOutputStream();

        @Override
        public void write(int one) throws java.io.IOException {
            to.write(one);
        }

        @Override
        public void write(byte[] bytes, int from, int length) throws java.io.IOException {
            to.write(bytes, from, length);
        }
    }

    static final Switch printed = new Switch();
    static Ended ended;

    /** The tool wants to exit. Some catch what we throw here and go on: nothing they do then counts. */
    static void end(int code, String message) {
        if (ended == null) {
            if (message != null) {
                System.err.println(message);
            }
            ended = new Ended(code, message);
            System.out.flush();
            System.err.flush();
            printed.to = OutputStream.nullOutputStream();
        }
        throw ended;
    }

    public static void main(String[] unused) throws Exception {
        PrintStream answers = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(printed, true, StandardCharsets.UTF_8));
        org.apache.log4j.LogManager.getRootLogger().setLevel(org.apache.log4j.Level.OFF);
        for (var named : java.util.Collections.list(
                (java.util.Enumeration<?>) org.apache.log4j.LogManager.getCurrentLoggers())) {
            ((org.apache.log4j.Logger) named).setLevel(org.apache.log4j.Level.OFF);
        }
        Exit.setExitProcedure((code, message) -> end(code, message));
        Exit.setHaltProcedure((code, message) -> end(code, message));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            ByteArrayOutputStream here = new ByteArrayOutputStream();
            printed.to = here;
            ended = null;
            int code = run(words[0], Arrays.copyOfRange(words, 1, words.length));
            System.out.flush();
            System.err.flush();
            printed.to = OutputStream.nullOutputStream();
            byte[] bytes = here.toByteArray();
            answers.println(code + " " + bytes.length);
            answers.write(bytes, 0, bytes.length);
            answers.flush();
        }
    }

    static int run(String name, String[] arguments) {
        if (name.startsWith("<")) {
            // Standard input of the command that follows; its line ends are written as |.
            String input = name.substring(1).replace('|', '\n');
            System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
            name = arguments[0];
            arguments = Arrays.copyOfRange(arguments, 1, arguments.length);
        }
        try {
            switch (name) {
                case "produce" -> produce(arguments);
                case "consume" -> consume(arguments);
                case "subscribe" -> subscribe(arguments);
                case "hold" -> hold(arguments);
                case "release" -> release(arguments);
                case "transact" -> transact(arguments);
                default -> Class.forName(name).getMethod("main", String[].class)
                    .invoke(null, (Object) arguments);
            }
            return ended == null ? 0 : ended.code;
        } catch (InvocationTargetException wrapped) {
            return codeOf(wrapped.getCause());
        } catch (Throwable error) {
            return codeOf(error);
        }
    }

    static int codeOf(Throwable error) {
        if (ended != null) {
            return ended.code;
        }
        error.printStackTrace();
        return 255;
    }

    static Properties properties(String[] pairs, int from) {
        Properties properties = new Properties();
        for (int i = from; i < pairs.length; i++) {
            String[] pair = pairs[i].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        return properties;
    }

    /** bootstrap topic partitions records [setting=value...]: record n goes to partition n mod partitions. */
    static void produce(String[] arguments) throws Exception {
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        int records = Integer.parseInt(arguments[3]);
        Properties properties = properties(arguments, 4);
        properties.put("bootstrap.servers", arguments[0]);
        List<Future<RecordMetadata>> answers = new ArrayList<>();
        try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            for (int n = 0; n < records; n++) {
                answers.add(producer.send(new ProducerRecord<>(topic, n % partitions, "key-" + n, "value-" + n)));
            }
        }
        Map<Integer, Long> last = new TreeMap<>();
        for (Future<RecordMetadata> answer : answers) {
            RecordMetadata where = answer.get();
            last.merge(where.partition(), where.offset(), Math::max);
        }
        System.out.println(records + " acknowledged, last offsets " + last);
    }

    /**
     * bootstrap topic records [setting=value...]: from the beginning of every partition, without a group. With a
     * client.rack, a second line says where it was sent to.
     */
    static void consume(String[] arguments) throws Exception {
        String topic = arguments[1];
        int wanted = Integer.parseInt(arguments[2]);
        Properties properties = properties(arguments, 3);
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("enable.auto.commit", "false");
        Map<Integer, List<String>> read = new TreeMap<>();
        try (var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (PartitionInfo info : consumer.partitionsFor(topic)) {
                partitions.add(new TopicPartition(topic, info.partition()));
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
            int count = 0;
            while (count < wanted && System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    List<String> rows = read.computeIfAbsent(record.partition(), unused -> new ArrayList<>());
                    rows.add(record.offset() + " " + record.key() + " " + record.value());
                    count++;
                }
            }
            System.out.println(count + " read, ends " + new TreeMap<>(Map.copyOf(ends(consumer, partitions))));
            if (properties.containsKey("client.rack")) {
                System.out.println("sent to " + preferred(consumer));
            }
        }
        read.forEach((partition, rows) -> rows.forEach(row -> System.out.println(partition + " " + row)));
    }

    /** Of each partition the replica that it is read from, as its leader said; -1: the leader. */
    static Map<String, Integer> preferred(KafkaConsumer<?, ?> consumer) {
        Map<String, Integer> found = new TreeMap<>();
        consumer.metrics().forEach((name, metric) -> {
            if (name.name().equals("preferred-read-replica")) {
                found.put(name.tags().get("partition"), ((Number) metric.metricValue()).intValue());
            }
        });
        return found;
    }

    /** bootstrap topic group records [setting=value...]: joins, reads so many, commits and leaves. */
    static void subscribe(String[] arguments) {
        Properties properties = properties(arguments, 4);
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("group.id", arguments[2]);
        properties.put("enable.auto.commit", "false");
        int wanted = Integer.parseInt(arguments[3]);
        try (var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(arguments[1]));
            long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
            int count = 0;
            while (count < wanted && System.nanoTime() < deadline) {
                count += consumer.poll(Duration.ofMillis(200)).count();
            }
            consumer.commitSync();
            System.out.println(count + " read");
        }
    }

    static final Map<String, Thread> members = new TreeMap<>();

    /** bootstrap topic group name [setting=value...]: a member that stays until it is released by its name. */
    static void hold(String[] arguments) throws Exception {
        Properties properties = properties(arguments, 4);
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("group.id", arguments[2]);
        properties.put("enable.auto.commit", "false");
        var hasJoined = new java.util.concurrent.CountDownLatch(1);
        Thread thread = new Thread(() -> {
            try (var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
                consumer.subscribe(List.of(arguments[1]));
                while (!Thread.currentThread().isInterrupted()) {
                    consumer.poll(Duration.ofMillis(100));
                    if (!consumer.assignment().isEmpty()) {
                        hasJoined.countDown();
                    }
                }
            } catch (org.apache.kafka.common.errors.InterruptException released) {
                Thread.interrupted();  // so that it may leave its group
            }
        });
        thread.start();
        members.put(arguments[3], thread);
        if (!hasJoined.await(60, java.util.concurrent.TimeUnit.SECONDS)) {
            throw new IllegalStateException(arguments[3] + " was given nothing");
        }
    }

    /** bootstrap name */
    static void release(String[] arguments) throws Exception {
        Thread thread = members.remove(arguments[1]);
        thread.interrupt();
        thread.join(60_000);
    }

    static final Map<String, KafkaProducer<String, String>> producers = new TreeMap<>();

    /** bootstrap topic id records commit|abort|open: one transaction on partition 0. An open one stays so. */
    static void transact(String[] arguments) throws Exception {
        Properties properties = properties(arguments, 5);
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("transactional.id", arguments[2]);
        var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        producer.beginTransaction();
        for (int n = 0; n < Integer.parseInt(arguments[3]); n++) {
            producer.send(new ProducerRecord<>(arguments[1], 0, "key-" + n, arguments[2] + "-" + n)).get();
        }
        switch (arguments[4]) {
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> {
                producers.put(arguments[2], producer);
                return;
            }
        }
        producer.close();
    }

    static Map<Integer, Long> ends(KafkaConsumer<?, ?> consumer, List<TopicPartition> partitions) {
        Map<Integer, Long> ends = new TreeMap<>();
        consumer.endOffsets(partitions).forEach((partition, end) -> ends.put(partition.partition(), end));
        return ends;
    }
}
