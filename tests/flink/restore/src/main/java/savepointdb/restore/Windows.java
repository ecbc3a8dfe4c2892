package savepointdb.restore;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.GlobalWindows;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.evictors.CountEvictor;
import org.apache.flink.streaming.api.windowing.triggers.CountTrigger;
import org.apache.flink.streaming.api.windowing.triggers.PurgingTrigger;
import org.apache.flink.streaming.api.windowing.windows.Window;
import org.apache.flink.util.Collector;

/**
 * Windows with state of other shapes: session windows by Long, elements by a Tuple, sliding windows by String, and windows
 * of three elements by Int, with a trigger and an evictor. They tell what they hold when they fire.
 */
final class Windows implements Job {
    static final int KEYS = 4;
    static final int EVENTS = 2;
    static final TypeInformation<Tuple2<Integer, Long>> EVENT = Types.TUPLE(Types.INT, Types.LONG);

    @Override
    public void build(StreamExecutionEnvironment env, Options options) {
        DataStream<Tuple2<Integer, Long>> events = env.addSource(new Source(options), "numbers", EVENT).uid("numbers");
        events.keyBy(event -> (long) event.f0, Types.LONG)
                .window(EventTimeSessionWindows.withGap(Duration.ofSeconds(5)))
                .reduce((a, b) -> Tuple2.of(a.f0, a.f1 + b.f1), new Tell<>("sessions"))
                .name("sessions").uid("sessions");
        events.keyBy((KeySelector<Tuple2<Integer, Long>, Tuple2<String, Integer>>) event -> Tuple2.of("k", event.f0),
                        Types.TUPLE(Types.STRING, Types.INT))
                .window(TumblingEventTimeWindows.of(Duration.ofSeconds(10)))
                .process(new Tell<>("elements"))
                .name("elements").uid("elements");
        events.keyBy(event -> "k" + event.f0, Types.STRING)
                .window(SlidingEventTimeWindows.of(Duration.ofSeconds(20), Duration.ofSeconds(10)))
                .reduce((a, b) -> Tuple2.of(a.f0, a.f1 + b.f1), new Tell<>("sliding"))
                .name("sliding").uid("sliding");
        events.keyBy(event -> event.f0, Types.INT)
                .window(GlobalWindows.create())
                .trigger(PurgingTrigger.of(CountTrigger.of(3)))
                .evictor(CountEvictor.of(10))
                .process(new Tell<>("counted"))
                .name("counted").uid("counted");
    }

    private static final class Tell<K, W extends Window> extends ProcessWindowFunction<Tuple2<Integer, Long>, Long, K, W> {
        private final String operator;

        Tell(String operator) {
            this.operator = operator;
        }

        @Override
        public void process(K key, Context context, Iterable<Tuple2<Integer, Long>> values, Collector<Long> out) {
            List<Object> elements = new ArrayList<>();
            values.forEach(elements::add);
            Found.row("phase", "output", "operator", operator, "key", key, "window", context.window().toString(), "values", elements);
        }
    }

    private static final class Source extends PhasedSource<Tuple2<Integer, Long>> {
        private final boolean input;
        private final int emit;

        Source(Options options) {
            super(options.fire);
            input = options.input;
            emit = options.emit;
        }

        @Override
        void emit(SourceContext<Tuple2<Integer, Long>> out) {
            for (int key = subtask(); key < KEYS; key += parallelism()) {
                for (int number = input ? 0 : EVENTS; number < EVENTS + emit; number++) {
                    out.collectWithTimestamp(Tuple2.of(key, 10L * key + number), number * 4000L);
                }
            }
            if (input) {
                out.emitWatermark(new Watermark(0));
            }
        }

        @Override
        public void initializeState(FunctionInitializationContext context) {}

        @Override
        public void snapshotState(FunctionSnapshotContext context) {}
    }
}
