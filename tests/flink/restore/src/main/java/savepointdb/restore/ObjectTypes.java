package savepointdb.restore;

import java.net.URI;
import java.time.Duration;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Date;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.typeutils.GenericTypeInfo;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** States whose values Flink leaves to Kryo, in Flink 1 or in both: what an upgrade from Flink 1 to 2 has to convert. */
final class ObjectTypes implements Job {
    /** A POJO; its List, Map and Set are objects of Kryo in Flink 1, and have serializers of their own in Flink 2. */
    public static class Order {
        public long id;
        public List<String> tags;
        public List<Long> sizes;
        public Map<String, Long> counts;
        public Set<Integer> lines;
        public UUID uuid;
        public Duration took;
        public Object any;

        @Override
        public String toString() {
            return "Order(" + id + ", " + tags + ", " + sizes + ", " + sorted(counts) + ", " + sorted(lines) + ", " + uuid
                    + ", " + took + ", " + any + ")";
        }
    }

    /** No POJO: it has no constructor without arguments. */
    public static class Plain {
        final String name;
        final int small;
        final long large;
        final double ratio;
        final Integer boxed;
        final Double weight;
        final List<String> tags;
        final Map<String, Integer> counts;
        final int[] numbers;
        final SampleTypes.Color color;
        final Plain inner;

        Plain(int i, Plain inner) {
            name = "é" + i;
            small = -i;
            large = 1L << 40 + i;
            ratio = i + 0.5;
            boxed = i == 0 ? null : i;
            weight = 3.0 * i;
            tags = new ArrayList<>(List.of("a" + i, "b"));
            counts = new HashMap<>(Map.of("n", i));
            numbers = new int[] {i, -1};
            color = SampleTypes.Color.values()[i];
            this.inner = inner;
        }

        @Override
        public String toString() {
            return "Plain(" + name + ", " + small + ", " + large + ", " + ratio + ", " + boxed + ", " + weight + ", " + tags
                    + ", " + counts + ", " + Arrays.toString(numbers) + ", " + color + ", " + inner + ")";
        }
    }

    static Map<String, TypeInformation<?>> types() {
        Map<String, TypeInformation<?>> types = new LinkedHashMap<>();
        types.put("o_arraylist", new GenericTypeInfo<>(ArrayList.class));
        types.put("o_linkedlist", new GenericTypeInfo<>(LinkedList.class));
        types.put("o_hashset", new GenericTypeInfo<>(HashSet.class));
        types.put("o_treeset", new GenericTypeInfo<>(TreeSet.class));
        types.put("o_hashmap", new GenericTypeInfo<>(HashMap.class));
        types.put("o_treemap", new GenericTypeInfo<>(TreeMap.class));
        types.put("o_bitset", new GenericTypeInfo<>(BitSet.class));
        types.put("o_uuid", new GenericTypeInfo<>(UUID.class));
        types.put("o_locale", new GenericTypeInfo<>(Locale.class));
        types.put("o_duration", new GenericTypeInfo<>(Duration.class));
        types.put("o_date", new GenericTypeInfo<>(LocalDate.class));
        types.put("o_datetime", new GenericTypeInfo<>(LocalDateTime.class));
        types.put("o_zoned", new GenericTypeInfo<>(ZonedDateTime.class));
        types.put("o_offset", new GenericTypeInfo<>(OffsetDateTime.class));
        types.put("o_uri", new GenericTypeInfo<>(URI.class));
        types.put("o_optional", new GenericTypeInfo<>(Optional.class));
        types.put("o_object", new GenericTypeInfo<>(Object.class));
        types.put("o_plain", new GenericTypeInfo<>(Plain.class));
        types.put("o_order", Types.POJO(Order.class));
        types.put("o_list", TypeInformation.of(new TypeHint<List<String>>() {}));
        types.put("o_set", TypeInformation.of(new TypeHint<Set<Long>>() {}));
        types.put("o_map", TypeInformation.of(new TypeHint<Map<String, Integer>>() {}));
        types.put("o_tuple", Types.TUPLE(Types.LONG, new GenericTypeInfo<>(UUID.class)));
        return types;
    }

    static List<StateDescriptor<?, ?>> states(String only) {
        List<StateDescriptor<?, ?>> states = new ArrayList<>();
        types().forEach((name, type) -> states.add(new ValueStateDescriptor<>(name, type)));
        states.add(new ListStateDescriptor<>("ol_uuid", new GenericTypeInfo<>(UUID.class)));
        states.add(new MapStateDescriptor<>("om_arraylist", Types.STRING, new GenericTypeInfo<>(ArrayList.class)));
        ValueStateDescriptor<UUID> expiring = new ValueStateDescriptor<>("ot_uuid", new GenericTypeInfo<>(UUID.class));
        expiring.enableTimeToLive(StateTtlConfig.newBuilder(Duration.ofDays(36500)).build());
        states.add(expiring);
        states.add(new ValueStateDescriptor<>("plain_long", Types.LONG));
        if (only != null) {
            List<String> wanted = List.of(only.split(";"));
            states.removeIf(state -> !wanted.contains(state.getName()));
        }
        return states;
    }

    @Override
    public void build(StreamExecutionEnvironment env, Options options) {
        String only = options.conf.get("states");
        env.addSource(new SampleTypes.Source(options), "keys", Types.STRING).uid("keys")
                .keyBy(key -> key, Types.STRING)
                .transform("objects", Types.LONG, new Dumping<>("objects", new Touch(only), states(only)))
                .uid("objects");
    }

    /** Registers all states; a record of key k<i> sets them to the i-th sample. */
    static final class Touch extends KeyedProcessFunction<String, String, Long> {
        private final String only;

        Touch(String only) {
            this.only = only;
        }

        @Override
        public void open(OpenContext context) {
            for (StateDescriptor<?, ?> state : states(only)) {
                switch (state.getType()) {
                    case LIST -> getRuntimeContext().getListState((ListStateDescriptor<?>) state);
                    case MAP -> getRuntimeContext().getMapState((MapStateDescriptor<?, ?>) state);
                    default -> getRuntimeContext().getState((ValueStateDescriptor<?>) state);
                }
            }
        }

        @Override
        @SuppressWarnings("unchecked")
        public void processElement(String key, Context context, Collector<Long> out) throws Exception {
            int i = Integer.parseInt(key.substring(1));
            for (StateDescriptor<?, ?> state : states(only)) {
                switch (state.getType()) {
                    case LIST -> {
                        var list = getRuntimeContext().getListState((ListStateDescriptor<Object>) state);
                        list.add(new UUID(i, -1));
                        list.add(new UUID(-i, 1L << 50));
                    }
                    case MAP -> getRuntimeContext().getMapState((MapStateDescriptor<String, Object>) state)
                            .put("m" + i, sample("o_arraylist", i));
                    default -> ((ValueState<Object>) getRuntimeContext().getState((ValueStateDescriptor<?>) state))
                            .update(sample(state.getName(), i));
                }
            }
        }
    }

    /** Returns a value as text, with the class of an object. */
    static String text(Object value) {
        if (value == null) {
            return null;
        }
        Object shown = value instanceof Set<?> set ? sorted(set) : value instanceof Map<?, ?> map ? sorted(map)
                : value instanceof Object[] array ? Arrays.asList(array) : value;
        boolean isOwn = value instanceof Order || value instanceof Plain;
        return isOwn ? value.toString() : kind(value) + " " + shown;
    }

    private static String kind(Object value) {
        // Flink 2 reads into a list, set or map of its own, which is equal to any other.
        return value instanceof LinkedList<?> ? "LinkedList" : value instanceof List<?> ? "List"
                : value instanceof TreeSet<?> ? "TreeSet" : value instanceof Set<?> ? "Set"
                : value instanceof TreeMap<?, ?> ? "TreeMap" : value instanceof Map<?, ?> ? "Map"
                : value.getClass().getSimpleName();
    }

    private static Object sorted(Set<?> set) {
        return set == null ? null : new TreeSet<>(set);
    }

    private static Object sorted(Map<?, ?> map) {
        return map == null ? null : new TreeMap<>(map);
    }

    private static Object sample(String state, int i) {
        List<String> texts = List.of("s" + i, "", "é".repeat(i), "a long text of more than thirty characters " + i);
        Map<String, Long> counts = Map.of("a", (long) i, "b" + i, 1L << 40);
        UUID uuid = new UUID(0x1234_5678_9abc_def0L + i, -i);
        Duration duration = Duration.ofSeconds(3600L * i, 5 + i);
        LocalDateTime moment = LocalDateTime.of(2024, 2, 29, 12, 30 * (i % 2), i, i == 2 ? 789_000_000 : 0);
        return switch (state) {
            case "o_arraylist" -> {
                List<Object> list = new ArrayList<>(texts);
                if (i == 1) {
                    list.add(null);
                    list.add(42);
                }
                yield list;
            }
            case "o_linkedlist" -> new LinkedList<>(texts);
            case "o_hashset" -> new HashSet<>(texts);
            case "o_treeset" -> new TreeSet<>(texts);
            case "o_hashmap" -> new HashMap<>(counts);
            case "o_treemap" -> new TreeMap<>(counts);
            case "o_bitset" -> BitSet.valueOf(new long[] {9L + i, i});
            case "o_uuid", "ot_uuid" -> uuid;
            case "o_locale" -> List.of(Locale.GERMANY, Locale.ENGLISH, Locale.ROOT).get(i);
            case "o_duration" -> duration;
            case "o_date" -> moment.toLocalDate();
            case "o_datetime" -> moment;
            case "o_zoned" -> moment.atZone(i == 0 ? ZoneId.of("Europe/Berlin") : ZoneOffset.ofHours(i));
            case "o_offset" -> moment.atOffset(ZoneOffset.ofTotalSeconds(i * 1799));
            case "o_uri" -> URI.create("http://host/" + i);
            case "o_optional" -> i == 0 ? Optional.empty() : Optional.of("present " + i);
            case "o_object" -> List.of(i + 0.25, new Date(1_700_000_000_000L), new String[] {"a", null}).get(i);
            case "o_plain" -> new Plain(i, i == 2 ? new Plain(0, null) : null);
            case "o_order" -> {
                Order order = new Order();
                order.id = i;
                if (i > 0) {
                    order.tags = new ArrayList<>(texts);
                    order.sizes = new LinkedList<>(List.of((long) i, -1L));
                    order.counts = new TreeMap<>(counts);
                    order.lines = new HashSet<>(Set.of(i, 7));
                    order.uuid = uuid;
                    order.took = duration;
                    order.any = i == 1 ? new ArrayList<>(List.of(1.5, "x")) : uuid;
                }
                yield order;
            }
            case "o_list" -> new ArrayList<>(texts);
            case "o_set" -> new HashSet<>(counts.values());
            case "o_map" -> new HashMap<>(Map.of("x", i));
            case "o_tuple" -> org.apache.flink.api.java.tuple.Tuple2.of((long) i, uuid);
            case "plain_long" -> (long) i;
            default -> throw new IllegalArgumentException(state);
        };
    }
}
