import java.sql.*;
import java.util.*;
import java.util.concurrent.*;

/** Asks a service through trino-jdbc what tools ask, and prints an answer a line. Arguments: the URL of the service. */
public class Probe {
    static final String ENDLESS = "SELECT count(*) FROM range(1000000000000)";

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("user", "alice");
        try (Connection connection = DriverManager.getConnection(arguments[0], properties)) {
            metadata(connection.getMetaData());
            values(connection);
            prepared(connection);
            session(connection);
            failures(connection);
            limits(connection);
        }
    }

    static void metadata(DatabaseMetaData metadata) throws Exception {
        print("product", metadata.getDatabaseProductName());
        print("version is known", !metadata.getDatabaseProductVersion().isEmpty());
        rows("catalogs", metadata.getCatalogs());
        rows("schemas", metadata.getSchemas("flink", "nat%"));
        rows("all schemas", metadata.getSchemas());
        rows("table types", metadata.getTableTypes());
        rows("tables", metadata.getTables("flink", "native", "aggregate%", new String[] {"TABLE", "VIEW"}), 1, 2, 3, 4);
        rows("columns", metadata.getColumns("flink", "native", "aggregate", "%"), 3, 4, 5, 6, 7, 10, 11, 17, 18);
        rows("types", metadata.getTypeInfo(), 1, 2);
        count("primary keys", metadata.getPrimaryKeys("flink", "native", "aggregate"));
        count("imported keys", metadata.getImportedKeys("flink", "native", "aggregate"));
        count("procedures", metadata.getProcedures("flink", "native", "%"));
        count("procedure columns", metadata.getProcedureColumns("flink", "native", "%", "%"));
        count("udts", metadata.getUDTs("flink", "native", "%", null));
        count("super types", metadata.getSuperTypes("flink", "native", "%"));
        count("super tables", metadata.getSuperTables("flink", "native", "%"));
        count("attributes", metadata.getAttributes("flink", "native", "%", "%"));
        count("pseudo columns", metadata.getPseudoColumns("flink", "native", "%", "%"));
    }

    static void values(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery("SELECT key, value, 1 / 2, 7 / 2, CAST(1.5 AS decimal(10,2)), "
                        + "TIMESTAMP '2026-01-02 03:04:05.123456', DATE '2026-01-02', X'00ff', ARRAY[1, 2], "
                        + "MAP(ARRAY['a'], ARRAY[1]), CAST(ROW(1, 'x') AS row(a bigint, b varchar)), true, 1.5e0, "
                        + "CAST(NULL AS bigint), infinity() FROM aggregate WHERE key = 'key_662'")) {
            row.next();
            print("text", row.getString(1));
            print("long", row.getLong(2));
            print("integer division", row.getLong(3) + " " + row.getLong(4));
            print("decimal", row.getBigDecimal(5));
            print("timestamp", row.getTimestamp(6));
            print("date", row.getDate(7));
            print("bytes", Arrays.toString(row.getBytes(8)));
            print("array", Arrays.toString((Object[]) row.getArray(9).getArray()));
            print("map", row.getObject(10));
            print("row", row.getObject(11));
            print("boolean", row.getBoolean(12));
            print("double", row.getDouble(13));
            print("null", row.getObject(14));
            print("infinity", row.getDouble(15));
            print("unnamed", row.getMetaData().getColumnLabel(3));
            print("type", row.getMetaData().getColumnTypeName(6));
        }
        try (Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery("SELECT TIMESTAMP '2026-01-02 03:04:05.123456789'")) {
            row.next();
            print("nanoseconds", row.getMetaData().getColumnTypeName(1) + " " + row.getTimestamp(1));
        }
        try (Statement statement = connection.createStatement();
                ResultSet found = statement.executeQuery("SELECT * FROM range(200000) t(x)")) {
            long sum = 0;
            while (found.next()) {
                sum += found.getLong(1);
            }
            print("sum", sum);
        }
    }

    static void prepared(Connection connection) throws Exception {
        String sql = "SELECT count(*) AS found FROM aggregate WHERE key = ? AND value > ?";
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            print("parameters", statement.getParameterMetaData().getParameterCount());
            print("column", statement.getMetaData().getColumnLabel(1) + " " + statement.getMetaData().getColumnTypeName(1));
            statement.setString(1, "key_662");
            statement.setLong(2, 10);
            rows("prepared", statement.executeQuery());
            statement.setString(1, "it's ?");
            rows("prepared again", statement.executeQuery());
        }
        try (PreparedStatement statement = connection.prepareStatement("SELECT ?, ?, ?, ?")) {
            statement.setBigDecimal(1, new java.math.BigDecimal("1.50"));
            statement.setTimestamp(2, Timestamp.valueOf("2026-01-02 03:04:05.123"));
            statement.setNull(3, Types.VARCHAR);
            statement.setBoolean(4, true);
            rows("arguments", statement.executeQuery());
        }
    }

    static void session(Connection connection) throws Exception {
        connection.setSchema("canonical");
        print("schema", connection.getSchema());
        try (Statement statement = connection.createStatement()) {
            rows("current", statement.executeQuery("SELECT current_schema"));
            statement.execute("USE flink.native");
            print("used", connection.getCatalog() + "." + connection.getSchema());
            connection.setAutoCommit(false);
            rows("in a transaction", statement.executeQuery("SELECT 1"));
            connection.commit();
            connection.setAutoCommit(true);
            statement.execute("SET SESSION query_max_run_time = '30s'");
            rows("property", statement.executeQuery("SHOW SESSION LIKE 'query_max_run_time'"), 1, 2);
            statement.execute("RESET SESSION query_max_run_time");
            rows("after", statement.executeQuery("SHOW SESSION LIKE 'query_max_run_time'"), 1, 2);
        }
        print("valid", connection.isValid(5));
    }

    static void failures(Connection connection) throws Exception {
        for (String sql : List.of("SELECT * FROM nope", "SELEC 1", "SELECT vlaue FROM aggregate", "SELECT 1 / 0")) {
            try (Statement statement = connection.createStatement()) {
                statement.executeQuery(sql);
                print("failed", "not");
            } catch (SQLException error) {
                print("failed", error.getErrorCode());
            }
        }
    }

    static void limits(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.setMaxRows(3);
            count("at most three", statement.executeQuery("SELECT * FROM aggregate"));
        }
        long started = System.nanoTime();
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            statement.executeQuery(ENDLESS);
        } catch (SQLException error) {
            print("timeout", error.getErrorCode() + " " + ((System.nanoTime() - started) / 1e9 < 5));
        }
        ScheduledExecutorService later = Executors.newSingleThreadScheduledExecutor();
        started = System.nanoTime();
        try (Statement statement = connection.createStatement()) {
            later.schedule(() -> { statement.cancel(); return null; }, 500, TimeUnit.MILLISECONDS);
            statement.executeQuery(ENDLESS);
        } catch (SQLException error) {
            print("cancelled", (System.nanoTime() - started) / 1e9 < 5);
        }
        try (Statement statement = connection.createStatement()) {
            later.schedule(() -> { ((io.trino.jdbc.TrinoStatement) statement).partialCancel(); return null; }, 1, TimeUnit.SECONDS);
            statement.executeQuery(ENDLESS);
        } catch (SQLException error) {
            print("partially cancelled", error.getErrorCode() + " " + error.getMessage().endsWith("the query was cancelled"));
        }
        try (Statement statement = connection.createStatement()) {
            later.schedule(() -> { kill(connection); return null; }, 1, TimeUnit.SECONDS);
            statement.executeQuery(ENDLESS);
        } catch (SQLException error) {
            print("killed", error.getErrorCode() + " " + error.getMessage().endsWith("Message: too long"));
        } finally {
            later.shutdownNow();
        }
        try (Statement statement = connection.createStatement();
                ResultSet found = statement.executeQuery("SELECT * FROM range(10000000)")) {
            found.next();
        }
        print("closed early", true);
    }

    static void kill(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement();
                ResultSet found = statement.executeQuery(
                        "SELECT query_id FROM system.runtime.queries WHERE state = 'RUNNING' AND query = '" + ENDLESS + "'")) {
            found.next();
            statement.execute("CALL system.runtime.kill_query(query_id => '" + found.getString(1) + "', message => 'too long')");
        }
    }

    static void rows(String name, ResultSet found, int... columns) throws Exception {
        StringJoiner lines = new StringJoiner("; ");
        while (found.next()) {
            StringJoiner line = new StringJoiner(",");
            int count = columns.length == 0 ? found.getMetaData().getColumnCount() : columns.length;
            for (int index = 0; index < count; index++) {
                line.add(String.valueOf(found.getObject(columns.length == 0 ? index + 1 : columns[index])));
            }
            lines.add(line.toString());
        }
        found.close();
        print(name, lines);
    }

    static void count(String name, ResultSet found) throws Exception {
        int rows = 0;
        while (found.next()) {
            rows++;
        }
        found.close();
        print(name, rows);
    }

    static void print(String name, Object value) {
        System.out.println(name + ": " + value);
    }
}
