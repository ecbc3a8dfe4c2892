package acme;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.common.state.AggregatingStateDescriptor;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ReducingStateDescriptor;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.legacy.SinkFunction;
import org.apache.flink.util.Collector;

/** Ways in which jobs declare states: javac --release 17 -cp flink jars -d out Declares.java && jar cfM declares.jar -C out . */
public class Declares {
    static final String NAME = "by-" + "constant";
    static final MapStateDescriptor<String, Order> RULES = new MapStateDescriptor<>("rules", Types.STRING, TypeInformation.of(Order.class));
    static final String[] NAMES = {"in-array", "other"};

    public static class Order { public String id; public double total; public Kind kind; }
    public enum Kind { NEW, PAID }
    public static class Sum implements AggregateFunction<Order, Tuple2<Long, Double>, Double> {
        public Tuple2<Long, Double> createAccumulator() { return Tuple2.of(0L, 0.0); }
        public Tuple2<Long, Double> add(Order o, Tuple2<Long, Double> t) { return t; }
        public Double getResult(Tuple2<Long, Double> t) { return t.f1; }
        public Tuple2<Long, Double> merge(Tuple2<Long, Double> a, Tuple2<Long, Double> b) { return a; }
    }

    public static class Count extends KeyedProcessFunction<String, Order, String> {
        private final ValueStateDescriptor<Order> inField = new ValueStateDescriptor<>("in-field", Order.class);
        private transient ValueState<Long> count;

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("in-open", Types.LONG));
            ListStateDescriptor<Order> kept = new ListStateDescriptor<>("with-ttl", new TypeHint<Order>() {}.getTypeInfo());
            kept.enableTimeToLive(StateTtlConfig.newBuilder(Duration.ofHours(1)).build());
            ListState<Order> list = getRuntimeContext().getListState(kept);
            MapState<String, List<Long>> map = getRuntimeContext().getMapState(new MapStateDescriptor<>("map", Types.STRING, Types.LIST(Types.LONG)));
            getRuntimeContext().getReducingState(new ReducingStateDescriptor<>("reducing", (ReduceFunction<Long>) Long::sum, LongSerializer.INSTANCE));
            getRuntimeContext().getAggregatingState(new AggregatingStateDescriptor<>("aggregating", new Sum(), Types.TUPLE(Types.LONG, Types.DOUBLE)));
            getRuntimeContext().getState(inField);
            state(NAME, Types.ROW(Types.INT, Types.STRING));
            state(NAMES[0], Types.ENUM(Kind.class));
            for (int i = 0; i < 3; i++) {
                state("built-" + i, Types.LONG);
            }
            state(System.getenv("NAME"), Types.LONG);
            state("unknown-type", type());
            String chosen = "first";
            if (list == null) {
                chosen = "second";
            }
            state(chosen, Types.LONG);
        }

        private <T> ValueState<T> state(String name, TypeInformation<T> type) {
            return getRuntimeContext().getState(new ValueStateDescriptor<>(name, type));
        }

        static TypeInformation<String> type() {
            return System.nanoTime() > 0 ? Types.STRING : null;
        }

        @Override
        public void processElement(Order order, Context context, Collector<String> out) {}
    }

    public static class Buffer implements SinkFunction<String>, CheckpointedFunction {
        private ListState<Long> offsets;

        public void snapshotState(FunctionSnapshotContext context) {}

        public void initializeState(FunctionInitializationContext context) throws Exception {
            offsets = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("offsets", Long.class));
            context.getOperatorStateStore().getUnionListState(new ListStateDescriptor<>("leases", Types.STRING));
            context.getOperatorStateStore().getBroadcastState(RULES);
        }
    }

    public static class ById implements KeySelector<Order, String> {
        public String getKey(Order order) { return order.id; }
    }

    public static class Untold {
        static void build(DataStream<Order> orders) {
            orders.keyBy(order -> Tuple2.of(order.id, order.kind));
        }
    }

    public static void main(String[] args) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setMaxParallelism(720);
        DataStream<Order> orders = env.fromData(new Order()).uid("orders");
        orders.keyBy(order -> order.id).process(new Count()).uid("count").setMaxParallelism(64).addSink(new Buffer()).uid("buffer");
        orders.keyBy(new ById()).process(new Count()).getTransformation().setUidHash("0123456789abcdef0123456789abcdef");
        env.execute();
    }
}
