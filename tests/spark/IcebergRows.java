import com.fasterxml.jackson.databind.ObjectMapper;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.time.LocalDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.hadoop.HadoopTables;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.types.Types;

/** The rows of tables of Iceberg as of each snapshot, by Iceberg's own library: a line of JSON each. */
public final class IcebergRows {
    private static final DateTimeFormatter MICROSECONDS =
        DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH:mm:ss.SSSSSS");

    public static void main(String[] metadataFiles) throws Exception {
        ObjectMapper json = new ObjectMapper();
        for (String file : metadataFiles) {
            Table table = new HadoopTables(new Configuration()).load(file);
            for (Snapshot snapshot : table.snapshots()) {
                String checkpoint = snapshot.summary().get("savepointdb.checkpoint-id");
                try (CloseableIterable<Record> rows =
                        IcebergGenerics.read(table).useSnapshot(snapshot.snapshotId()).build()) {
                    for (Record row : rows) {
                        System.out.println(json.writeValueAsString(List.of(file, checkpoint, plain(row))));
                    }
                }
            }
        }
    }

    private static Object plain(Object value) {
        if (value instanceof Record) {
            Record record = (Record) value;
            Map<String, Object> found = new LinkedHashMap<>();
            for (Types.NestedField field : record.struct().fields()) {
                found.put(field.name(), plain(record.getField(field.name())));
            }
            return found;
        }
        if (value instanceof List) {
            List<Object> found = new ArrayList<>();
            ((List<?>) value).forEach(one -> found.add(plain(one)));
            return found;
        }
        if (value instanceof Map) {
            List<Object> found = new ArrayList<>();
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                List<Object> pair = new ArrayList<>();
                pair.add(plain(entry.getKey()));
                pair.add(plain(entry.getValue()));
                found.add(pair);
            }
            return found;
        }
        if (value instanceof ByteBuffer) {
            ByteBuffer bytes = (ByteBuffer) value;
            StringBuilder digits = new StringBuilder();
            while (bytes.hasRemaining()) {
                digits.append(String.format("%02x", bytes.get()));
            }
            return digits.toString();
        }
        if (value instanceof LocalDateTime) {
            return MICROSECONDS.format((LocalDateTime) value);
        }
        if (value instanceof BigDecimal) {
            return ((BigDecimal) value).toPlainString();
        }
        boolean isPlain = value == null || value instanceof Number || value instanceof Boolean;
        return isPlain ? value : value.toString();
    }
}
