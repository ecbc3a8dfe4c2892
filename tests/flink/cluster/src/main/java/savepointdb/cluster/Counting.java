package savepointdb.cluster;

import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.GlobalConfiguration;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Counts numbers by {@code key_<number modulo 1000>} for ever. Each count is positive, until the control file is there: from
 * then on that of {@code key_662} is negative. {@code Counting <conf> <name of the job> <control file>} prints the job's
 * id and leaves the job to the cluster.
 */
public final class Counting {
    private static final int KEYS = 1000;
    private static final int NUMBERS_A_MILLISECOND = 3;

    private Counting() {}

    public static void main(String[] arguments) throws Exception {
        // Of checkpoints and backends the client decides, not the cluster.
        Configuration settings = GlobalConfiguration.loadConfiguration(arguments[0]);
        int port = settings.get(RestOptions.PORT);
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.createRemoteEnvironment("127.0.0.1", port, settings);
        env.setParallelism(2);
        env.setMaxParallelism(128);
        env.fromSource(new NumberSequenceSource(0, Long.MAX_VALUE - 1), WatermarkStrategy.noWatermarks(), "numbers")
                .uid("numbers")
                .map(new Pace())
                .returns(Types.STRING)
                .name("pace")
                .uid("pace")
                .keyBy(key -> key, Types.STRING)
                .process(new Count(arguments[2]), Types.LONG)
                .name("aggregate")
                .uid("aggregate");
        JobClient job = env.executeAsync(arguments[1]);
        System.out.println(job.getJobID());
        System.exit(0);
    }

    /** Lets three numbers a millisecond through, so that a checkpoint never waits behind many. */
    static final class Pace implements MapFunction<Long, String> {
        private int count;

        @Override
        public String map(Long number) throws InterruptedException {
            if (++count % NUMBERS_A_MILLISECOND == 0) {
                Thread.sleep(1);
            }
            return "key_" + number % KEYS;
        }
    }

    static final class Count extends KeyedProcessFunction<String, String, Long> {
        private final String control;

        Count(String control) {
            this.control = control;
        }

        @Override
        public void processElement(String key, Context context, Collector<Long> out) throws Exception {
            ValueState<Long> count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
            Long before = count.value();
            long now = before == null ? 1 : Math.abs(before) + 1;
            count.update(key.equals("key_662") && Files.exists(Path.of(control)) ? -now : now);
        }
    }
}
