package savepointdb.peers;

import benchmarks.Account;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple5;
import org.apache.flink.runtime.state.StateBackend;
import org.apache.flink.runtime.state.hashmap.HashMapStateBackend;
import org.apache.flink.state.api.OperatorIdentifier;
import org.apache.flink.state.api.OperatorTransformation;
import org.apache.flink.state.api.SavepointReader;
import org.apache.flink.state.api.SavepointWriter;
import org.apache.flink.state.api.StateBootstrapTransformation;
import org.apache.flink.state.api.functions.KeyedStateBootstrapFunction;
import org.apache.flink.state.api.functions.KeyedStateReaderFunction;
import org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackend;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;

/**
 * Writes one savepoint with the State Processor API and prints how long it took with the cluster up.
 *
 * <p>Arguments: {@code rename}, {@code drop}, {@code key}, {@code all} or {@code create}; the source savepoint, for
 * {@code create} the number of keys; the target; {@code hashmap} or {@code rocksdb}.
 */
public final class Write {
    private static final OperatorIdentifier OPERATOR = OperatorIdentifier.forUid(States.UID);
    private static final String KEY = "key_1234567";
    private static final ValueStateDescriptor<Account> ACCOUNT =
            new ValueStateDescriptor<>("account", Types.POJO(Account.class));
    private static final TypeInformation<Tuple5<String, Long, Account, Map<String, Long>, List<String>>> ENTRY =
            TypeInformation.of(new TypeHint<>() {});

    private Write() {}

    public static void main(String[] arguments) throws Exception {
        StateBackend backend = arguments[3].equals("rocksdb")
                ? new EmbeddedRocksDBStateBackend()
                : new HashMapStateBackend();
        try (Cluster cluster = new Cluster(arguments[3])) {
            long started = System.nanoTime();
            StreamExecutionEnvironment env = cluster.environment();
            writer(arguments[0], env, arguments[1], backend).write(arguments[2]);
            env.execute();
            double seconds = (System.nanoTime() - started) / 1e9;
            System.out.printf(Locale.ROOT, "{\"seconds\": %.6f}%n", seconds);
        }
        System.exit(0);
    }

    private static SavepointWriter writer(
            String work, StreamExecutionEnvironment env, String source, StateBackend backend) throws Exception {
        if (work.equals("create")) {
            return SavepointWriter.newSavepoint(env, backend, States.MAX_PARALLELISM)
                    .withOperator(OPERATOR, counted(env, Long.parseLong(source)));
        }
        SavepointWriter writer = SavepointWriter.fromExistingSavepoint(env, source, backend);
        return switch (work) {
            case "rename" -> writer.changeOperatorIdentifier(OPERATOR, OperatorIdentifier.forUid("counts"));
            case "drop" -> writer.removeOperator(OPERATOR);
            case "key", "all" -> writer.removeOperator(OPERATOR)
                    .withOperator(OPERATOR, changed(env, source, backend, work.equals("all")));
            default -> throw new IllegalArgumentException("no work " + work);
        };
    }

    /** All states of the operator, of which {@code count} is one more for one key or for all. */
    private static StateBootstrapTransformation<?> changed(
            StreamExecutionEnvironment env, String source, StateBackend backend, boolean all) throws Exception {
        DataStream<Tuple5<String, Long, Account, Map<String, Long>, List<String>>> entries =
                SavepointReader.read(env, source, backend)
                        .readKeyedState(OPERATOR, new Entries(all), Types.STRING, ENTRY);
        return OperatorTransformation.bootstrapWith(entries)
                .keyBy(entry -> entry.f0, Types.STRING)
                .transform(new Filled());
    }

    private static StateBootstrapTransformation<?> counted(StreamExecutionEnvironment env, long keys) {
        return OperatorTransformation.bootstrapWith(env.fromSequence(0, keys - 1))
                .keyBy(number -> "key_" + number, Types.STRING)
                .transform(new Counted());
    }

    private static final class Entries
            extends KeyedStateReaderFunction<String, Tuple5<String, Long, Account, Map<String, Long>, List<String>>> {
        private final boolean all;
        private transient Opened<Account> states;

        Entries(boolean all) {
            this.all = all;
        }

        @Override
        public void open(OpenContext context) {
            states = Opened.of(getRuntimeContext(), ACCOUNT);
        }

        @Override
        public void readKey(
                String key,
                Context context,
                Collector<Tuple5<String, Long, Account, Map<String, Long>, List<String>>> out)
                throws Exception {
            Map<String, Long> days = new HashMap<>();
            for (Map.Entry<String, Long> entry : states.perDay().entries()) {
                days.put(entry.getKey(), entry.getValue());
            }
            List<String> texts = new ArrayList<>();
            states.events().get().forEach(texts::add);
            long more = all || key.equals(KEY) ? 1 : 0;
            out.collect(Tuple5.of(key, states.count().value() + more, states.account().value(), days, texts));
        }
    }

    private static final class Filled
            extends KeyedStateBootstrapFunction<
                    String, Tuple5<String, Long, Account, Map<String, Long>, List<String>>> {
        private transient Opened<Account> states;

        @Override
        public void open(OpenContext context) {
            states = Opened.of(getRuntimeContext(), ACCOUNT);
        }

        @Override
        public void processElement(
                Tuple5<String, Long, Account, Map<String, Long>, List<String>> entry, Context context)
                throws Exception {
            states.count().update(entry.f1);
            states.account().update(entry.f2);
            states.perDay().putAll(entry.f3);
            states.events().update(entry.f4);
        }
    }

    private static final class Counted extends KeyedStateBootstrapFunction<String, Long> {
        private transient ValueState<Long> count;

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(States.COUNT);
        }

        @Override
        public void processElement(Long number, Context context) throws Exception {
            count.update(number);
        }
    }
}
