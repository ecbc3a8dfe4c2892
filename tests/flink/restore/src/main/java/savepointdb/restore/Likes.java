package savepointdb.restore;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.avro.Schema;
import org.apache.avro.specific.SpecificRecordBase;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.typeutils.GenericTypeInfo;
import org.apache.flink.formats.avro.typeutils.AvroTypeInfo;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.util.Collector;

/** States whose types have no names in a script, by String keys: of Kryo, of Avro, a POJO with subclasses, SQL's rows. */
final class Likes implements Job {
    public static class Animal {
        public String name;
        public int legs;

        @Override
        public String toString() {
            return getClass().getSimpleName() + "(" + name + ", " + legs + ")";
        }
    }

    public static class Dog extends Animal {
        public boolean barks;

        @Override
        public String toString() {
            return super.toString() + barks;
        }
    }

    public static class Bird extends Animal {
        public Double span;

        @Override
        public String toString() {
            return super.toString() + span;
        }
    }

    /** What Avro's compiler generates of the schema, as far as Flink needs it. */
    public static class Reading extends SpecificRecordBase {
        public static final Schema SCHEMA$ = new Schema.Parser().parse("""
                {"type": "record", "name": "Reading", "namespace": "savepointdb.restore.Likes$", "fields": [
                  {"name": "id", "type": "long"},
                  {"name": "sensor", "type": {"type": "string", "avro.java.string": "String"}},
                  {"name": "score", "type": ["null", "double"]},
                  {"name": "counts", "type": {"type": "array", "items": "long"}}]}""");
        public long id;
        public String sensor;
        public Double score;
        public List<Long> counts;

        @Override
        public Schema getSchema() {
            return SCHEMA$;
        }

        @Override
        public Object get(int field) {
            return switch (field) {
                case 0 -> id;
                case 1 -> sensor;
                case 2 -> score;
                default -> counts;
            };
        }

        @Override
        @SuppressWarnings("unchecked")
        public void put(int field, Object value) {
            switch (field) {
                case 0 -> id = (Long) value;
                case 1 -> sensor = value.toString();
                case 2 -> score = (Double) value;
                default -> counts = (List<Long>) value;
            }
        }
    }

    static Map<String, TypeInformation<?>> types() {
        Map<String, TypeInformation<?>> types = new LinkedHashMap<>();
        types.put("v_kryo", new GenericTypeInfo<>(UUID.class));
        types.put("v_avro", new AvroTypeInfo<>(Reading.class));
        types.put("v_pojo", Types.POJO(Animal.class));
        types.put("v_rowdata", InternalTypeInfo.of(SampleTypes.ROW_DATA));
        return types;
    }

    static List<StateDescriptor<?, ?>> states() {
        List<StateDescriptor<?, ?>> states = new ArrayList<>();
        types().forEach((name, type) -> states.add(new ValueStateDescriptor<>(name, type)));
        states.add(new ListStateDescriptor<>("l_kryo", new GenericTypeInfo<>(UUID.class)));
        return states;
    }

    @Override
    public void build(StreamExecutionEnvironment env, Options options) {
        env.addSource(new SampleTypes.Source(options), "keys", Types.STRING).uid("keys")
                .keyBy(key -> key, Types.STRING)
                .process(new Touch(options.from != null), Types.LONG)
                .name("likes").uid("likes");
    }

    /** Registers all states; a record of key k<i> sets them to the i-th sample. After a restore it first tells what they were. */
    static final class Touch extends KeyedProcessFunction<String, String, Long> {
        private final boolean tells;

        Touch(boolean tells) {
            this.tells = tells;
        }

        @Override
        public void open(OpenContext context) {
            for (StateDescriptor<?, ?> state : states()) {
                if (state instanceof ListStateDescriptor<?> list) {
                    getRuntimeContext().getListState(list);
                } else {
                    getRuntimeContext().getState((ValueStateDescriptor<?>) state);
                }
            }
        }

        @Override
        @SuppressWarnings("unchecked")
        public void processElement(String key, Context context, Collector<Long> out) throws Exception {
            int i = Integer.parseInt(key.substring(1));
            for (StateDescriptor<?, ?> state : states()) {
                if (state instanceof ListStateDescriptor<?> list) {
                    var found = getRuntimeContext().getListState((ListStateDescriptor<UUID>) list);
                    List<Object> was = new ArrayList<>();
                    found.get().forEach(was::add);
                    tell(state, key, was);
                    found.add(new UUID(i, 1));
                    found.add(new UUID(i, 2));
                } else {
                    var found = (ValueState<Object>) getRuntimeContext().getState((ValueStateDescriptor<?>) state);
                    tell(state, key, found.value());
                    found.update(sample(state.getName(), i));
                }
            }
        }

        private void tell(StateDescriptor<?, ?> state, String key, Object was) {
            if (tells) {
                Object shown = was instanceof RowData ? Dumping.plain(was) : was;
                Found.row("phase", "output", "operator", "likes", "descriptor", state.getName(), "key", key, "was",
                        shown == null ? null : shown.toString());
            }
        }
    }

    static Object sample(String state, int i) {
        return switch (state) {
            case "v_kryo" -> new UUID(0x1234_5678L + i, -i);
            case "v_avro" -> {
                Reading reading = new Reading();
                reading.put(0, (long) i);
                reading.put(1, "é" + i);
                reading.put(2, i == 0 ? null : (Object) (i + 0.25));
                reading.put(3, new ArrayList<>(List.of((long) i, -1L)));
                yield reading;
            }
            case "v_pojo" -> {
                Animal animal = i == 0 ? new Animal() : i == 1 ? new Dog() : new Bird();
                animal.name = "animal " + i;
                animal.legs = 2 * i;
                if (animal instanceof Dog dog) {
                    dog.barks = true;
                } else if (animal instanceof Bird bird) {
                    bird.span = 1.5;
                }
                yield animal;
            }
            default -> SampleTypes.sample(state, i);
        };
    }
}
