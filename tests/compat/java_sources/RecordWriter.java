import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Base64;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Writes coordinator records with Kafka's own generated classes.
 *
 * <p>A line "package Name version {json}" gives the bytes of that key (version "key") or value, in base64.
 */
public class RecordWriter {
    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", 4);
            boolean isKey = words[2].equals("key");
            short version = isKey ? 0 : Short.parseShort(words[2]);
            Class<?> converter = Class.forName(words[0] + "." + words[1] + "JsonConverter");
            ApiMessage message = (ApiMessage) converter
                    .getMethod("read", JsonNode.class, short.class)
                    .invoke(null, mapper.readTree(words[3]), version);
            byte[] bytes = isKey
                    ? MessageUtil.toCoordinatorTypePrefixedBytes(message)
                    : MessageUtil.toVersionPrefixedBytes(version, message);
            System.out.println(Base64.getEncoder().encodeToString(bytes));
        }
    }
}
