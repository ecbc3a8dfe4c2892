package savepointdb.restore;

import java.math.BigDecimal;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.planner.plan.nodes.exec.ExecNodeContext;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/**
 * SQL operators over two streams t and u of rows (k, v, w, d) with a row time. They cannot be looked into: a probe, one more
 * row of a key, makes each tell what it has. Probes go to t, or with {@code --conf probes=u} to u: a join tells its other side.
 */
final class Queries implements Job {
    private static final int ROWS = 40;
    private static final TypeInformation<Row> ROW = Types.ROW_NAMED(
            new String[] {"k", "v", "w", "d"}, Types.STRING, Types.LONG, Types.STRING, Types.BIG_DEC);

    static Map<String, String> queries() {
        Map<String, String> queries = new LinkedHashMap<>();
        queries.put("aggregate", "SELECT k, COUNT(*) AS n, SUM(v) AS s, MAX(w) AS m, SUM(d) AS d FROM t GROUP BY k");
        queries.put("distinct", "SELECT k, COUNT(DISTINCT d) AS n FROM t GROUP BY k");
        queries.put("join", "SELECT t.k, t.v, u.v AS uv FROM t JOIN u ON t.k = u.k");
        queries.put("left-join", "SELECT u.k, u.v, t.v AS tv FROM u LEFT JOIN t ON u.k = t.k AND t.v < 10");
        queries.put("deduplicate", "SELECT k, v, w FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM t) WHERE n = 1");
        queries.put("top-n", "SELECT k, v, w, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS n FROM t) WHERE n <= 2");
        queries.put("window", "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
                + "GROUP BY k, window_start, window_end");
        queries.put("interval-join", "SELECT t.k, t.v, u.v AS uv FROM t JOIN u ON t.k = u.k "
                + "AND t.ts BETWEEN u.ts - INTERVAL '1' HOUR AND u.ts + INTERVAL '1' HOUR");
        return queries;
    }

    @Override
    public void build(StreamExecutionEnvironment env, Options options) {
        // Uids have the numbers of the planner's nodes, which it counts from the first job of the JVM on.
        ExecNodeContext.resetIdCounter();
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        tables.getConfig().set("table.exec.uid.generation", "ALWAYS");
        for (String name : List.of("t", "u")) {
            var rows = env.addSource(new Source(options, name), name, ROW).uid(name);
            tables.createTemporaryView(name, tables.fromDataStream(rows, Schema.newBuilder()
                    .column("k", "STRING").column("v", "BIGINT").column("w", "STRING").column("d", "DECIMAL(10, 2)")
                    .columnByMetadata("ts", DataTypes.TIMESTAMP_LTZ(3), "rowtime").watermark("ts", "SOURCE_WATERMARK()").build()));
        }
        queries().forEach((name, sql) ->
                tables.toChangelogStream(tables.sqlQuery(sql)).process(new Tell(name, options.from != null)).uid("tell-" + name).name(name));
    }

    @Override
    public int sources() {
        return 2;
    }

    private static final class Source extends PhasedSource<Row> {
        private final boolean input;
        private final boolean isT;
        private final List<String> probe;

        Source(Options options, String name) {
            super(options.fire);
            input = options.input;
            isT = name.equals("t");
            probe = options.conf.getOrDefault("probes", "t").equals(name) ? options.probe : List.of();
        }

        private static long minute(int number) {
            return LocalDateTime.of(2024, 2, 29, 12, number).toInstant(ZoneOffset.UTC).toEpochMilli();
        }

        @Override
        void emit(SourceContext<Row> out) {
            for (int i = 0; input && subtask() == 0 && i < ROWS; i++) {
                if (isT || i % 3 == 0) {
                    out.collectWithTimestamp(Row.of("k" + i % 5, (long) i, "w" + i, BigDecimal.valueOf(i % 10, 2)), minute(i / 20) + i);
                }
            }
            if (input) {
                out.emitWatermark(new Watermark(minute(0) - 1));
            }
            if (subtask() == 0) {
                for (String key : probe) {
                    out.collectWithTimestamp(Row.of(key, -1L, "probe", BigDecimal.valueOf(99, 2)), minute(1) + 1000);
                }
            }
        }

        @Override
        public void initializeState(FunctionInitializationContext context) {}

        @Override
        public void snapshotState(FunctionSnapshotContext context) {}
    }

    private static final class Tell extends ProcessFunction<Row, Long> {
        private final String name;
        private final boolean tells;

        Tell(String name, boolean tells) {
            this.name = name;
            this.tells = tells;
        }

        @Override
        public void processElement(Row row, Context context, Collector<Long> out) {
            if (tells) {
                Found.row("phase", "output", "operator", name, "row", row);
            }
        }
    }
}
