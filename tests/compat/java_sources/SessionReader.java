import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * One consumer assigned to many partitions, and a producer that writes fifty records a round to random ones.
 *
 * <p>Every round pauses some partitions and resumes others, so that the session forgets and adds; each record has
 * to arrive once, in its partition, at the offset that the producer was told.
 */
public class SessionReader {
    private static final int PER_ROUND = 50;

    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int partitions = Integer.parseInt(args[2]);
        int rounds = Integer.parseInt(args[3]);
        Random random = new Random(7);
        Map<String, Object> settings = Map.of("bootstrap.servers", args[0], "auto.offset.reset", "earliest");
        Map<String, Object> producing = Map.of("bootstrap.servers", args[0]);
        try (KafkaConsumer<String, String> consumer =
                        new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
                KafkaProducer<String, String> producer =
                        new KafkaProducer<>(producing, new StringSerializer(), new StringSerializer())) {
            List<TopicPartition> all =
                    IntStream.range(0, partitions).mapToObj(p -> new TopicPartition(topic, p)).toList();
            consumer.assign(all);
            int records = 0;
            int misplaced = 0;
            for (int round = 0; round < rounds; round++) {
                Map<String, String> expected = new HashMap<>();
                Set<TopicPartition> used = new HashSet<>();
                for (int n = 0; n < PER_ROUND; n++) {
                    int partition = random.nextInt(partitions);
                    String value = round + "/" + n;
                    long offset = producer.send(new ProducerRecord<>(topic, partition, null, value)).get().offset();
                    expected.put(partition + "@" + offset, value);
                    used.add(new TopicPartition(topic, partition));
                }
                consumer.resume(all);
                List<TopicPartition> silent =
                        all.stream().filter(p -> !used.contains(p) && random.nextInt(10) == 0).toList();
                consumer.pause(silent);
                long deadline = System.nanoTime() + 20_000_000_000L;
                while (!expected.isEmpty() && System.nanoTime() < deadline) {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                        String value = expected.remove(record.partition() + "@" + record.offset());
                        misplaced += record.value().equals(value) ? 0 : 1;
                        records++;
                    }
                }
            }
            System.out.println("rounds=" + rounds + " records=" + records + " misplaced=" + misplaced);
        }
    }
}
