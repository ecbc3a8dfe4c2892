package acme;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.types.Row;

/** Fields of classes of the JDK and of Flink that Kryo writes field by field. */
public class Library {
    public static class Tuples {
        Tuple2<String, Integer> typed = Tuple2.of("t", 1);
        Tuple2 raw = Tuple2.of("r", 2L);
        Tuple3<Integer, List<String>, Object> mixed = Tuple3.of(null, new ArrayList<>(List.of("m")), 3);
        List<Tuple2<String, Long>> list = new ArrayList<>(List.of(Tuple2.of("l", 4L)));
    }

    public static class Optionals {
        Optional<String> text = Optional.of("text");
        Optional<String> none = Optional.empty();
        Optional raw = Optional.of(1);
    }

    public static class Atomics {
        AtomicInteger count = new AtomicInteger(5);
        AtomicLong total = new AtomicLong(6);
        AtomicBoolean flag = new AtomicBoolean(true);
        AtomicReference<String> text = new AtomicReference<>("ref");
        AtomicReference<Object> any = new AtomicReference<>(7);
    }

    public static class Rows { Row row = Row.of("x", 1, null); Row named = Row.withNames(); { named.setField("n", 5L); } }

    public static Map<String, Object> all() {
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("tuples", new Tuples());
        found.put("optionals", new Optionals());
        found.put("atomics", new Atomics());
        found.put("rows", new Rows());
        return found;
    }
}
