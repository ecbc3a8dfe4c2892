import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import org.apache.flink.api.common.serialization.SerializerConfig;
import org.apache.flink.api.common.serialization.SerializerConfigImpl;
import org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializer;
import org.apache.flink.core.memory.DataInputViewStreamWrapper;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;

/**
 * Prints a JSON object for each value of some classes: Flink's version, the value's name and class, the bytes that Flink's
 * KryoSerializer writes of it, and the value as reflection finds it. Flink reads each of them back.
 */
public class Write {
    private static final IdentityHashMap<Object, Boolean> OPEN = new IdentityHashMap<>();

    @SuppressWarnings({"unchecked", "rawtypes"})
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> all = new LinkedHashMap<>();
        for (String name : Arrays.copyOfRange(arguments, 1, arguments.length)) {
            all.putAll((Map<String, Object>) Class.forName(name).getMethod("all").invoke(null));
        }
        for (Map.Entry<String, Object> entry : all.entrySet()) {
            Object value = entry.getValue();
            Class<?> type = value instanceof Enum ? ((Enum<?>) value).getDeclaringClass() : value.getClass();
            KryoSerializer serializer =
                    KryoSerializer.class
                            .getConstructor(Class.class, SerializerConfig.class)
                            .newInstance(type, new SerializerConfigImpl());
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            serializer.serialize(value, new DataOutputViewStreamWrapper(bytes));
            serializer.deserialize(new DataInputViewStreamWrapper(new ByteArrayInputStream(bytes.toByteArray())));
            StringBuilder out = new StringBuilder();
            out.append("{\"flink\": ").append(quoted(arguments[0]));
            out.append(", \"name\": ").append(quoted(entry.getKey()));
            out.append(", \"class\": ").append(quoted(type.getName()));
            out.append(", \"bytes\": \"").append(HexFormat.of().formatHex(bytes.toByteArray()));
            out.append("\", \"value\": ");
            json(value, out);
            System.out.println(out.append("}"));
        }
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }

    private static void json(Object value, StringBuilder out) throws Exception {
        if (value == null) {
            out.append("null");
        } else if (value instanceof String || value instanceof Character || value instanceof UUID) {
            out.append(quoted(value.toString()));
        } else if (value instanceof Enum) {
            out.append(quoted(((Enum<?>) value).name()));
        } else if (value instanceof Boolean || value instanceof Number && value.getClass().getPackageName().equals("java.lang")) {
            out.append(value);
        } else if (value instanceof Optional) {
            json(((Optional<?>) value).orElse(null), out);
        } else if (value instanceof byte[]) {
            out.append("{\"$bytes\": \"").append(HexFormat.of().formatHex((byte[]) value)).append("\"}");
        } else if (OPEN.containsKey(value)) {
            out.append("{\"@reference\": ").append(quoted(value.getClass().getName())).append("}");
        } else {
            OPEN.put(value, true);
            inside(value, out);
            OPEN.remove(value);
        }
    }

    private static void inside(Object value, StringBuilder out) throws Exception {
        String comma = "";
        if (value.getClass().isArray()) {
            out.append("[");
            for (int i = 0; i < Array.getLength(value); i++, comma = ", ") {
                json(Array.get(value, i), out.append(comma));
            }
            out.append("]");
        } else if (value instanceof Collection) {
            out.append("[");
            for (Object element : (Collection<?>) value) {
                json(element, out.append(comma));
                comma = ", ";
            }
            out.append("]");
        } else if (value instanceof Map) {
            out.append("{\"$map\": [");
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                json(entry.getKey(), out.append(comma).append("["));
                json(entry.getValue(), out.append(", "));
                out.append("]");
                comma = ", ";
            }
            out.append("]}");
        } else {
            fields(value, out);
        }
    }

    private static void fields(Object value, StringBuilder out) throws Exception {
        out.append("{\"@class\": ").append(quoted(value.getClass().getName()));
        Set<String> names = new HashSet<>();
        for (Class<?> type = value.getClass(); type != Object.class && type != Record.class; type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                if (Modifier.isStatic(field.getModifiers()) || Modifier.isTransient(field.getModifiers())) {
                    continue;
                }
                field.setAccessible(true);
                // One that a subclass hides.
                String name = names.add(field.getName()) ? field.getName() : field.getName() + "(" + type.getName() + ")";
                json(field.get(value), out.append(", ").append(quoted(name)).append(": "));
            }
        }
        out.append("}");
    }
}
