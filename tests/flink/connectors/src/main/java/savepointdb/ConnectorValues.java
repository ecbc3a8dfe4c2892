package savepointdb;

import io.debezium.relational.TableId;
import java.io.IOException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.flink.cdc.connectors.base.source.assigner.AssignerStatus;
import org.apache.flink.cdc.connectors.base.source.assigner.state.ChunkSplitterState;
import org.apache.flink.cdc.connectors.base.source.assigner.state.HybridPendingSplitsState;
import org.apache.flink.cdc.connectors.base.source.assigner.state.PendingSplitsStateSerializer;
import org.apache.flink.cdc.connectors.base.source.assigner.state.SnapshotPendingSplitsState;
import org.apache.flink.cdc.connectors.base.source.assigner.state.StreamPendingSplitsState;
import org.apache.flink.cdc.connectors.base.source.meta.offset.Offset;
import org.apache.flink.cdc.connectors.base.source.meta.offset.OffsetFactory;
import org.apache.flink.cdc.connectors.base.source.meta.split.FinishedSnapshotSplitInfo;
import org.apache.flink.cdc.connectors.base.source.meta.split.SchemalessSnapshotSplit;
import org.apache.flink.cdc.connectors.base.source.meta.split.SnapshotSplit;
import org.apache.flink.cdc.connectors.base.source.meta.split.SourceSplitSerializer;
import org.apache.flink.cdc.connectors.base.source.meta.split.StreamSplit;
import org.apache.flink.cdc.connectors.mysql.source.offset.BinlogOffset;
import org.apache.flink.cdc.connectors.mysql.source.split.MySqlBinlogSplit;
import org.apache.flink.cdc.connectors.mysql.source.split.MySqlSchemalessSnapshotSplit;
import org.apache.flink.cdc.connectors.mysql.source.split.MySqlSnapshotSplit;
import org.apache.flink.cdc.connectors.mysql.source.split.MySqlSplitSerializer;
import org.apache.flink.cdc.connectors.postgres.source.offset.PostgresOffsetFactory;
import org.apache.flink.connector.pulsar.source.enumerator.PulsarSourceEnumState;
import org.apache.flink.connector.pulsar.source.enumerator.PulsarSourceEnumStateSerializer;
import org.apache.flink.connector.pulsar.source.enumerator.cursor.StopCursor;
import org.apache.flink.connector.pulsar.source.enumerator.topic.TopicPartition;
import org.apache.flink.connector.pulsar.source.enumerator.topic.TopicRange;
import org.apache.flink.connector.pulsar.source.split.PulsarPartitionSplit;
import org.apache.flink.connector.pulsar.source.split.PulsarPartitionSplitSerializer;
import org.apache.flink.core.io.SimpleVersionedSerialization;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.pulsar.client.api.transaction.TxnID;
import org.apache.pulsar.client.impl.MessageIdImpl;

/** Prints `name hex` a line: values as a reader's list state or a coordinator keeps them, version and length in front. */
public final class ConnectorValues {

    public static void main(String[] arguments) throws Exception {
        pulsar();
        mySql();
        postgres();
    }

    private static void pulsar() throws IOException {
        var splits = PulsarPartitionSplitSerializer.INSTANCE;
        var orders = new TopicPartition("persistent://shop/prod/orders", 3);
        var keyed = new TopicPartition(
                "persistent://shop/prod/clicks", -1, List.of(new TopicRange(0, 100), new TopicRange(200, 65535)));
        print("pulsar-split-new", splits, new PulsarPartitionSplit(orders, StopCursor.never()));
        print("pulsar-split-read", splits, new PulsarPartitionSplit(
                orders, StopCursor.latest(), new MessageIdImpl(4711, 42, 3), new TxnID(1, 99)));
        print("pulsar-split-keyed", splits, new PulsarPartitionSplit(
                keyed, StopCursor.atPublishTime(1700000000000L), new MessageIdImpl(7, 8, -1), null));
        print("pulsar-enumerator", PulsarSourceEnumStateSerializer.INSTANCE, new PulsarSourceEnumState(Set.of(orders)));
    }

    private static void mySql() throws IOException {
        var splits = MySqlSplitSerializer.INSTANCE;
        var table = TableId.parse("shop.orders");
        var key = RowType.of(new BigIntType());
        var at = BinlogOffset.ofBinlogFilePosition("mysql-bin.000003", 154);
        var snapshot = new MySqlSnapshotSplit(
                table, "shop.orders:0", key, null, new Object[] {100L}, at, new LinkedHashMap<>());
        print("mysql-snapshot-split", splits, snapshot);
        print("mysql-binlog-split", splits, new MySqlBinlogSplit(
                "binlog-split", at, BinlogOffset.ofNonStopping(),
                List.of(new org.apache.flink.cdc.connectors.mysql.source.split.FinishedSnapshotSplitInfo(
                        table, "shop.orders:0", null, new Object[] {100L}, at)),
                new LinkedHashMap<>(), 1, true));
        var schemaless = snapshot.toSchemalessSnapshotSplit();
        var assigned = new LinkedHashMap<String, MySqlSchemalessSnapshotSplit>(Map.of("shop.orders:0", schemaless));
        var pending = new org.apache.flink.cdc.connectors.mysql.source.assigners.state.SnapshotPendingSplitsState(
                List.of(table), List.of(schemaless), assigned, new LinkedHashMap<>(),
                new LinkedHashMap<>(Map.of("shop.orders:0", at)),
                org.apache.flink.cdc.connectors.mysql.source.assigners.AssignerStatus.INITIAL_ASSIGNING,
                List.of(TableId.parse("shop.customers")), true, true,
                new org.apache.flink.cdc.connectors.mysql.source.assigners.state.ChunkSplitterState(
                        table,
                        org.apache.flink.cdc.connectors.mysql.source.assigners.state.ChunkSplitterState.ChunkBound
                                .middleOf(101L),
                        7));
        var states =
                new org.apache.flink.cdc.connectors.mysql.source.assigners.state.PendingSplitsStateSerializer(splits);
        print("mysql-enumerator-snapshot", states, pending);
        print("mysql-enumerator-hybrid", states,
                new org.apache.flink.cdc.connectors.mysql.source.assigners.state.HybridPendingSplitsState(pending, true));
        print("mysql-enumerator-binlog", states,
                new org.apache.flink.cdc.connectors.mysql.source.assigners.state.BinlogPendingSplitsState(true));
    }

    private static void postgres() throws IOException {
        var factory = new PostgresOffsetFactory();
        var splits = new SourceSplitSerializer() {
            @Override
            public OffsetFactory getOffsetFactory() {
                return factory;
            }
        };
        var table = new TableId(null, "public", "orders");
        var key = RowType.of(new BigIntType());
        Offset at = factory.newOffset(Map.of("lsn", "24023128", "txId", "565", "ts_usec", "1700000000000000"));
        var snapshot = new SnapshotSplit(
                table, "public.orders:0", key, null, new Object[] {100L}, at, new LinkedHashMap<>());
        print("postgres-snapshot-split", splits, snapshot);
        print("postgres-stream-split", splits, new StreamSplit(
                "stream-split", at, factory.createNoStoppingOffset(),
                List.of(new FinishedSnapshotSplitInfo(
                        table, "public.orders:0", null, new Object[] {100L}, at, factory)),
                new LinkedHashMap<>(), 1, false, true));
        SchemalessSnapshotSplit schemaless = snapshot.toSchemalessSnapshotSplit();
        var pending = new SnapshotPendingSplitsState(
                List.of(table), List.of(schemaless), Map.of("public.orders:0", schemaless), new LinkedHashMap<>(),
                Map.of("public.orders:0", at), AssignerStatus.INITIAL_ASSIGNING_FINISHED,
                List.of(new TableId(null, "public", "customers")), false, true, Map.of("public.orders:0", 12L),
                new ChunkSplitterState(table, ChunkSplitterState.ChunkBound.middleOf(101L), 7));
        var states = new PendingSplitsStateSerializer(splits);
        print("postgres-enumerator-snapshot", states, pending);
        print("postgres-enumerator-hybrid", states, new HybridPendingSplitsState(pending, true));
        print("postgres-enumerator-stream", states, new StreamPendingSplitsState(false));
    }

    private static <T> void print(String name, SimpleVersionedSerializer<? super T> serializer, T value)
            throws IOException {
        @SuppressWarnings("unchecked")
        var typed = (SimpleVersionedSerializer<T>) serializer;
        byte[] bytes = SimpleVersionedSerialization.writeVersionAndSerialize(typed, value);
        System.out.println(name + " " + HexFormat.of().formatHex(bytes));
    }
}
