import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Kafka's own tools one after the other in this JVM.
 *
 * <p>A line of standard input is a class name and its arguments, each in base64; the line that answers holds the
 * exit code, what was printed and what went to standard error. Only the JVM's start is saved by this.
 */
public class ToolServer {
    private static class Exited extends RuntimeException {
        Exited() {
            super(null, null, false, false);
        }
    }

    private static Integer exitCode;

    /** The first exit is the one that counts: tools that catch everything see the exception, nobody sees them. */
    private static void exit(int code, String message) {
        if (exitCode == null) {
            exitCode = code;
            System.out.flush();
            System.err.flush();
            System.setOut(new PrintStream(OutputStream.nullOutputStream()));
            System.setErr(new PrintStream(OutputStream.nullOutputStream()));
        }
        throw new Exited();
    }

    public static void main(String[] unused) throws Exception {
        PrintStream answers = System.out;
        Exit.setExitProcedure(ToolServer::exit);
        Exit.setHaltProcedure(ToolServer::exit);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = Arrays.stream(line.split(" ")).map(ToolServer::decoded).toArray(String[]::new);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, "UTF-8"));
            System.setErr(new PrintStream(err, true, "UTF-8"));
            exitCode = null;
            int code = run(words[0], Arrays.copyOfRange(words, 1, words.length));
            System.out.flush();
            System.err.flush();
            answers.println(code + " " + encoded(out.toByteArray()) + " " + encoded(err.toByteArray()));
            answers.flush();
        }
    }

    private static int run(String name, String[] args) throws Exception {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) args);
            return exitCode == null ? 0 : exitCode;
        } catch (InvocationTargetException failure) {
            if (exitCode != null) {
                return exitCode;
            }
            StringWriter trace = new StringWriter();
            failure.getCause().printStackTrace(new PrintWriter(trace));
            System.err.print(trace);
            return 1;
        }
    }

    private static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    private static String encoded(byte[] bytes) {
        // A dash keeps an empty answer visible: base64 never holds one.
        return bytes.length == 0 ? "-" : Base64.getEncoder().encodeToString(bytes);
    }
}
