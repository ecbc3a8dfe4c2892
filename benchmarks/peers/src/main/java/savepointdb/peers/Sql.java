package savepointdb.peers;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/** The questions, put to the SQL connector {@code savepoint}. */
record Sql(Cluster cluster, String savepoint, String backend, String output) {
    private static final String COUNT = "`count` BIGINT";
    private static final String PER_DAY = "perDay MAP<STRING, BIGINT>";
    private static final String ACCOUNT =
            "account ROW<id BIGINT, name STRING, balance DOUBLE, updatedAt BIGINT>";
    private static final String EVENTS = "events ARRAY<STRING>";

    String count() throws Exception {
        Row row = rows("SELECT COUNT(*), SUM(`count`) FROM t", COUNT).get(0);
        return "[" + row.getField(0) + ", " + row.getField(1) + "]";
    }

    String key(String key) throws Exception {
        return rows("SELECT `count` FROM t WHERE k = '" + key + "'", COUNT).get(0).getField(0).toString();
    }

    String group() throws Exception {
        List<Row> rows = rows("SELECT `count`, COUNT(*) FROM t GROUP BY `count`", COUNT);
        rows.sort(Comparator.comparing(row -> (Long) row.getField(0)));
        return rows.stream().map(row -> "[" + row.getField(0) + ", " + row.getField(1) + "]").toList().toString();
    }

    String days() throws Exception {
        List<Row> rows = rows("SELECT d, SUM(v) FROM t CROSS JOIN UNNEST(perDay) AS u (d, v) GROUP BY d", PER_DAY);
        rows.sort(Comparator.comparing(row -> (String) row.getField(0)));
        return rows.stream()
                .map(row -> "[\"" + row.getField(0) + "\", " + row.getField(1) + "]")
                .toList()
                .toString();
    }

    String parquet() throws Exception {
        String columns = String.join(", ", COUNT, ACCOUNT, PER_DAY, EVENTS);
        StreamTableEnvironment tables = tables(columns);
        tables.executeSql("CREATE TABLE written (k STRING, " + columns
                + ") WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '" + output + "')");
        tables.executeSql("INSERT INTO written SELECT * FROM t").await();
        return "null";
    }

    String metadata() throws Exception {
        StreamTableEnvironment tables = environment();
        tables.executeSql("LOAD MODULE state");
        List<Row> rows = collected(tables, "SELECT * FROM savepoint_metadata('" + savepoint + "')");
        return String.valueOf(rows.size());
    }

    private List<Row> rows(String query, String columns) throws Exception {
        return collected(tables(columns), query);
    }

    private static List<Row> collected(StreamTableEnvironment tables, String query) throws Exception {
        List<Row> rows = new ArrayList<>();
        try (CloseableIterator<Row> found = tables.executeSql(query).collect()) {
            found.forEachRemaining(rows::add);
        }
        return rows;
    }

    private StreamTableEnvironment tables(String columns) {
        StreamTableEnvironment tables = environment();
        tables.executeSql("CREATE TABLE t (k STRING, " + columns + ", PRIMARY KEY (k) NOT ENFORCED) WITH ("
                + "'connector' = 'savepoint', 'state.backend.type' = '" + backend + "', 'state.path' = '"
                + savepoint + "', 'operator.uid' = '" + States.UID + "')");
        return tables;
    }

    private StreamTableEnvironment environment() {
        return StreamTableEnvironment.create(cluster.environment(), EnvironmentSettings.inBatchMode());
    }
}
