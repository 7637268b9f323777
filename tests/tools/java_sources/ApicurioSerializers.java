import com.google.protobuf.Timestamp;
import io.apicurio.registry.serde.Legacy4ByteIdHandler;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaSerializer;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaSerializer;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serializer;

/**
 * Values of the topic "orders" as Apicurio's serializers write them, one a line: its name, its bytes, and its headers,
 * each as key=bytes; all bytes in base64. The argument is the address of the registry's own interface.
 *
 * <p>The subject "orders-json" has to be there; the other schemas are registered.
 */
public class ApicurioSerializers {
    private static String registry;

    public static void main(String[] arguments) {
        registry = arguments[0];
        Schema schema = new Schema.Parser().parse(
                "{\"type\": \"record\", \"name\": \"Order\", \"fields\": [{\"name\": \"id\", \"type\": \"long\"}]}");
        GenericData.Record order = new GenericData.Record(schema);
        order.put("id", 7L);
        Map<String, Object> contentId = Map.of("apicurio.registry.headers.enabled", "true", "apicurio.registry.use-id", "contentId");
        Map<String, Object> globalId = Map.of("apicurio.registry.headers.enabled", "true", "apicurio.registry.use-id", "globalId");
        print("avro contentId", new AvroKafkaSerializer<Object>(), order, contentId);
        print("avro globalId", new AvroKafkaSerializer<Object>(), order, globalId);
        print("avro JSON", new AvroKafkaSerializer<Object>(), order, contentId, "apicurio.registry.avro.encoding", "JSON");
        Map<String, Object> before = Map.of("apicurio.registry.headers.enabled", "false", "apicurio.registry.use-id", "contentId");
        print("avro 8 bytes", new AvroKafkaSerializer<Object>(), order, before);
        print("avro 4 bytes", new AvroKafkaSerializer<Object>(), order, before,
                "apicurio.registry.id-handler", Legacy4ByteIdHandler.class.getName());
        for (Map<String, Object> ids : new Map[] {contentId, globalId}) {
            print("json " + ids.get("apicurio.registry.use-id"), new JsonSchemaKafkaSerializer<Object>(), Map.of("id", 7), ids,
                    "apicurio.registry.auto-register", "false",
                    "apicurio.registry.find-latest", "true",
                    "apicurio.registry.artifact.artifact-id", "orders-json",
                    "apicurio.registry.serdes.validation-enabled", "false");
        }
        print("protobuf contentId", new ProtobufKafkaSerializer<Timestamp>(), Timestamp.newBuilder().setSeconds(5).build(),
                contentId, "apicurio.registry.artifact.artifact-id", "orders-protobuf");
    }

    private static <T> void print(String name, Serializer<T> serializer, T value, Map<String, Object> settings, String... more) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("apicurio.registry.url", registry);
        all.put("apicurio.registry.auto-register", "true");
        for (int at = 0; at < more.length; at += 2) {
            all.put(more[at], more[at + 1]);
        }
        serializer.configure(all, false);
        Headers headers = new RecordHeaders();
        StringBuilder line = new StringBuilder(name + "\t" + encoded(serializer.serialize("orders", headers, value)));
        for (Header header : headers) {
            line.append("\t" + header.key() + "=" + encoded(header.value()));
        }
        System.out.println(line);
        serializer.close();
    }

    private static String encoded(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }
}
