package savepointdb.peers;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import java.util.TreeMap;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.accumulators.LongCounter;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.fs.Path;
import org.apache.flink.formats.parquet.row.ParquetRowDataBuilder;
import org.apache.flink.runtime.state.StateBackend;
import org.apache.flink.state.api.OperatorIdentifier;
import org.apache.flink.state.api.SavepointReader;
import org.apache.flink.state.api.functions.KeyedStateReaderFunction;
import org.apache.flink.runtime.state.hashmap.HashMapStateBackend;
import org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackend;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.data.GenericArrayData;
import org.apache.flink.table.data.GenericMapData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.ArrayType;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.DoubleType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.MapType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.VarCharType;
import org.apache.flink.util.Collector;

/** The questions, put to the State Processor API. Totals are added up where the keys are read: nothing is sent. */
record StateProcessor(Cluster cluster, String savepoint, String backend, String output) {
    private static final VarCharType TEXT = VarCharType.STRING_TYPE;
    private static final RowType ACCOUNT = RowType.of(
            new LogicalType[] {new BigIntType(), TEXT, new DoubleType(), new BigIntType()},
            new String[] {"id", "name", "balance", "updatedAt"});
    private static final RowType EVERYTHING = RowType.of(
            new LogicalType[] {
                TEXT, new BigIntType(), ACCOUNT, new MapType(TEXT, new BigIntType()), new ArrayType(TEXT)
            },
            new String[] {"key", "count", "account", "perDay", "events"});

    String count() throws Exception {
        JobExecutionResult result = totals(new CountAndSum());
        Long rows = result.getAccumulatorResult("rows");
        Long sum = result.getAccumulatorResult("sum");
        return "[" + rows + ", " + sum + "]";
    }

    String key(String key) throws Exception {
        return String.valueOf((Long) totals(new OneKey(key)).getAccumulatorResult("value"));
    }

    String group() throws Exception {
        Map<String, Object> totals = new TreeMap<>(totals(new KeysOfCount()).getAllAccumulatorResults());
        StringJoiner rows = new StringJoiner(", ", "[", "]");
        totals.forEach((count, keys) -> rows.add("[" + count + ", " + keys + "]"));
        return rows.toString();
    }

    String days() throws Exception {
        Map<String, Object> totals = new TreeMap<>(totals(new SumOfDay()).getAllAccumulatorResults());
        StringJoiner rows = new StringJoiner(", ", "[", "]");
        totals.forEach((day, sum) -> rows.add("[\"" + day + "\", " + sum + "]"));
        return rows.toString();
    }

    String parquet() throws Exception {
        StreamExecutionEnvironment env = cluster.environment();
        var writer = ParquetRowDataBuilder.createWriterFactory(
                EVERYTHING, new org.apache.hadoop.conf.Configuration(false), true);
        read(env, new Everything(), InternalTypeInfo.of(EVERYTHING))
                .sinkTo(FileSink.forBulkFormat(new Path(output), writer).build());
        env.setRuntimeMode(org.apache.flink.api.common.RuntimeExecutionMode.BATCH);
        env.execute();
        return "null";
    }

    private JobExecutionResult totals(KeyedStateReaderFunction<String, Void> reader) throws Exception {
        StreamExecutionEnvironment env = cluster.environment();
        read(env, reader, Types.VOID).sinkTo(new DiscardingSink<>());
        return env.execute();
    }

    private <T> DataStream<T> read(
            StreamExecutionEnvironment env, KeyedStateReaderFunction<String, T> reader, TypeInformation<T> type)
            throws Exception {
        StateBackend kind =
                backend.equals("rocksdb") ? new EmbeddedRocksDBStateBackend() : new HashMapStateBackend();
        return SavepointReader.read(env, savepoint, kind)
                .readKeyedState(OperatorIdentifier.forUid(States.UID), reader, Types.STRING, type);
    }

    /** Rows and sum of {@code count}. */
    private static final class CountAndSum extends KeyedStateReaderFunction<String, Void> {
        private final LongCounter rows = new LongCounter();
        private final LongCounter sum = new LongCounter();
        private transient ValueState<Long> count;

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(States.COUNT);
            getRuntimeContext().addAccumulator("rows", rows);
            getRuntimeContext().addAccumulator("sum", sum);
        }

        @Override
        public void readKey(String key, Context context, Collector<Void> out) throws Exception {
            rows.add(1);
            sum.add(count.value());
        }
    }

    /** {@code count} of one key: there is no way but to be called for each. */
    private static final class OneKey extends KeyedStateReaderFunction<String, Void> {
        private final LongCounter value = new LongCounter();
        private final String wanted;
        private transient ValueState<Long> count;

        OneKey(String wanted) {
            this.wanted = wanted;
        }

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(States.COUNT);
            getRuntimeContext().addAccumulator("value", value);
        }

        @Override
        public void readKey(String key, Context context, Collector<Void> out) throws Exception {
            if (key.equals(wanted)) {
                value.add(count.value());
            }
        }
    }

    /** How many keys have each value of {@code count}. */
    private static final class KeysOfCount extends KeyedStateReaderFunction<String, Void> {
        private final Map<Long, LongCounter> totals = new HashMap<>();
        private transient ValueState<Long> count;

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(States.COUNT);
        }

        @Override
        public void readKey(String key, Context context, Collector<Void> out) throws Exception {
            totals.computeIfAbsent(count.value(), value -> getRuntimeContext().getLongCounter(value.toString()))
                    .add(1);
        }
    }

    /** The sum of {@code perDay} by day. */
    private static final class SumOfDay extends KeyedStateReaderFunction<String, Void> {
        private final Map<String, LongCounter> totals = new HashMap<>();
        private transient MapState<String, Long> perDay;

        @Override
        public void open(OpenContext context) {
            perDay = getRuntimeContext().getMapState(States.PER_DAY);
        }

        @Override
        public void readKey(String key, Context context, Collector<Void> out) throws Exception {
            for (Map.Entry<String, Long> entry : perDay.entries()) {
                totals.computeIfAbsent(entry.getKey(), day -> getRuntimeContext().getLongCounter(day))
                        .add(entry.getValue());
            }
        }
    }

    /** All states of a key as a row. */
    private static final class Everything extends KeyedStateReaderFunction<String, RowData> {
        private transient Opened<Account> states;

        @Override
        public void open(OpenContext context) {
            states = Opened.of(getRuntimeContext(), States.ACCOUNT);
        }

        @Override
        public void readKey(String key, Context context, Collector<RowData> out) throws Exception {
            Account found = states.account().value();
            RowData row = GenericRowData.of(
                    found.id, StringData.fromString(found.name), found.balance, found.updatedAt);
            Map<StringData, Long> days = new HashMap<>();
            for (Map.Entry<String, Long> entry : states.perDay().entries()) {
                days.put(StringData.fromString(entry.getKey()), entry.getValue());
            }
            List<StringData> texts = new ArrayList<>();
            for (String event : states.events().get()) {
                texts.add(StringData.fromString(event));
            }
            out.collect(GenericRowData.of(
                    StringData.fromString(key), states.count().value(), row, new GenericMapData(days),
                    new GenericArrayData(texts.toArray())));
        }
    }
}
