package acme;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.streaming.api.datastream.DataStream;

/**
 * Times to live and keys that hang together loosely with what they belong to; each class is read by itself:
 * javac --release 17 -cp flink jars -d out Loose.java && jar cfM loose.jar -C out .
 */
public class Loose {
    static final StateTtlConfig HOUR = StateTtlConfig.newBuilder(Duration.ofHours(1)).build();

    abstract static class Base extends RichMapFunction<Long, Long> {
        @Override public Long map(Long x) { return x; }
    }

    static class Loop extends Base {
        @Override public void open(OpenContext c) {
            ValueStateDescriptor<Long> d = new ValueStateDescriptor<>("s", Types.LONG);
            for (ValueStateDescriptor<?> each : List.of(d)) each.enableTimeToLive(HOUR);
        }
    }

    static class Reference extends Base {
        @Override public void open(OpenContext c) {
            ValueStateDescriptor<Long> d = new ValueStateDescriptor<>("s", Types.LONG);
            Optional.of(HOUR).ifPresent(d::enableTimeToLive);
        }
    }

    static class Captured extends Base {
        @Override public void open(OpenContext c) {
            ValueStateDescriptor<Long> d = new ValueStateDescriptor<>("s", Types.LONG);
            Optional.of(HOUR).ifPresent(ttl -> d.enableTimeToLive(ttl));
        }
    }

    static class Sometimes extends Base {
        boolean expires;
        @Override public void open(OpenContext c) {
            ValueStateDescriptor<Long> d = new ValueStateDescriptor<>("s", Types.LONG);
            if (expires) d.enableTimeToLive(HOUR);
        }
    }

    static class Lazily extends Base {
        transient ValueState<Long> state;
        @Override public Long map(Long x) {
            if (state == null) {
                ValueStateDescriptor<Long> d = new ValueStateDescriptor<>("s", Types.LONG);
                d.enableTimeToLive(HOUR);
                state = getRuntimeContext().getState(d);
            }
            return x;
        }
    }

    static class Passed extends Base {
        static void expire(StateDescriptor<?, ?> d) { d.enableTimeToLive(HOUR); }
        @Override public void open(OpenContext c) {
            ValueStateDescriptor<Long> d = new ValueStateDescriptor<>("s", Types.LONG);
            expire(d);
            getRuntimeContext().getState(new ValueStateDescriptor<>("other", Types.LONG));
        }
    }

    interface Expiry { void set(StateDescriptor<?, ?> d); }

    static class Behind extends Base implements Expiry {
        Expiry expiry;
        @Override public void set(StateDescriptor<?, ?> d) { d.enableTimeToLive(HOUR); }
        @Override public void open(OpenContext c) {
            ValueStateDescriptor<Long> d = new ValueStateDescriptor<>("s", Types.LONG);
            expiry.set(d);
        }
    }

    static class Any<K> implements KeySelector<Long, K> {
        @Override public K getKey(Long x) { return null; }
    }

    static class Bound extends Any<String> {}

    static class KeyedByBound {
        void build(DataStream<Long> s) { s.keyBy(new Bound()); }
    }

    static class KeyedByAny {
        void build(DataStream<Long> s) { s.keyBy(new Any<String>()); s.keyBy(x -> x, Types.LONG); }
    }
}
