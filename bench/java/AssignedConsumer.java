import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads one partition from its beginning without a group, and prints records, bytes and milliseconds. */
public class AssignedConsumer {
    public static void main(String[] args) {
        String topic = args[1];
        long expected = Long.parseLong(args[2]);
        Map<String, Object> settings = Map.of("bootstrap.servers", args[0]);
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = List.of(new TopicPartition(topic, 0));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long records = 0;
            long bytes = 0;
            long started = System.nanoTime();
            while (records < expected) {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofSeconds(30));
                if (polled.isEmpty()) {
                    throw new IllegalStateException("nothing arrived in 30 s after " + records + " records");
                }
                for (ConsumerRecord<byte[], byte[]> record : polled) {
                    bytes += record.serializedValueSize();
                }
                records += polled.count();
            }
            System.out.println(records + " " + bytes + " " + (System.nanoTime() - started) / 1_000_000);
        }
    }
}
