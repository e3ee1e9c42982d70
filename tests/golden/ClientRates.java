import java.util.Random;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.stats.Rate;

/**
 * Asks the Rate of Apache Kafka 3.9.1 how fast a client was, and how long it would be held up; wrote client_rates.jsonl:
 * java -cp 'directory of Apache's jars/*' ClientRates.java > client_rates.jsonl
 */
public class ClientRates {
    public static void main(String[] arguments) {
        int[][] windows = {{11, 1}, {2, 3}, {1, 1}, {5, 2}};
        double[] quotas = {1000, 333, 50000, 4567};
        for (int shape = 0; shape < windows.length; shape++) {
            Random random = new Random(7 + shape);
            double quota = quotas[shape];
            MetricConfig config =
                new MetricConfig().samples(windows[shape][0]).timeWindow(windows[shape][1], TimeUnit.SECONDS);
            Rate rate = new Rate();
            long now = 1_000_000;
            for (int i = 0; i < 90; i++) {
                now += random.nextInt(10) == 0 ? random.nextInt(15_000) : random.nextInt(700);
                long bytes = random.nextInt(4) == 0 ? random.nextInt(20_000) : random.nextInt(300);
                rate.record(config, bytes, now);
                double measured = rate.measure(config, now);
                // As QuotaUtils.throttleTime.
                long wait = measured <= quota
                    ? 0 : Math.round((measured - quota) / quota * rate.windowSize(config, now));
                System.out.printf(
                    "{\"windows\": %d, \"window_s\": %d, \"quota\": %.0f, \"at_ms\": %d, \"bytes\": %d, \"throttle_time_ms\": %d}%n",
                    windows[shape][0], windows[shape][1], quota, now, bytes, wait);
            }
        }
    }
}
