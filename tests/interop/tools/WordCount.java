/*
 * The word count of Kafka Streams with exactly_once_v2. Arguments: BOOTSTRAP SOURCE TARGET APPLICATION DIRECTORY.
 *
 * Nothing is held back in a cache, so every word of SOURCE makes one record of TARGET: the word and how often it came so
 * far. When Streams gives up, the process ends, and whoever started it starts it again.
 */

import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Produced;

public class WordCount {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[3]);
        settings.put("state.dir", arguments[4]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("replication.factor", 3);
        settings.put("statestore.cache.max.bytes", 0);
        settings.put("default.key.serde", Serdes.String().getClass());
        settings.put("default.value.serde", Serdes.String().getClass());
        settings.put("consumer.group.instance.id", arguments[3]);
        settings.put("consumer.auto.offset.reset", "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[1])
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((unused, word) -> word)
            .count()
            .toStream()
            .to(arguments[2], Produced.with(Serdes.String(), Serdes.Long()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((state, before) -> {
            if (state == KafkaStreams.State.ERROR) {
                Runtime.getRuntime().halt(1);
            }
        });
        streams.start();
    }
}
