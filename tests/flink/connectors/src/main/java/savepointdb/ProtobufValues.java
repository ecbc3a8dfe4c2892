package savepointdb;

import com.google.protobuf.Any;
import com.google.protobuf.BoolValue;
import com.google.protobuf.ByteString;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.Field;
import com.google.protobuf.ListValue;
import com.google.protobuf.Message;
import com.google.protobuf.NullValue;
import com.google.protobuf.Option;
import com.google.protobuf.Struct;
import com.google.protobuf.Syntax;
import com.google.protobuf.Type;
import com.google.protobuf.Value;
import com.twitter.chill.protobuf.ProtobufSerializer;
import java.io.IOException;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.flink.api.common.serialization.SerializerConfigImpl;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializer;
import org.apache.flink.core.memory.DataOutputSerializer;

/** Prints `name snapshot value descriptors` a line, each as hex: messages that Flink leaves to Kryo and chill. */
public final class ProtobufValues {

    public static void main(String[] arguments) throws IOException {
        print("type", Type.newBuilder()
                .setName("Größe")
                .addFields(Field.newBuilder()
                        .setKind(Field.Kind.TYPE_UINT64)
                        .setCardinality(Field.Cardinality.CARDINALITY_REPEATED)
                        .setNumber(-7)
                        .setName("n")
                        .setPacked(true))
                .addOneofs("either")
                .addOneofs("")
                .addOptions(Option.newBuilder().setName("o").setValue(
                        Any.newBuilder().setTypeUrl("u").setValue(ByteString.copyFrom(new byte[] {0, -1}))))
                .setSyntax(Syntax.SYNTAX_PROTO3)
                .build());
        print("struct", Struct.newBuilder()
                .putFields("list", Value.newBuilder().setListValue(ListValue.newBuilder()
                        .addValues(Value.newBuilder().setNumberValue(-1.5))
                        .addValues(Value.newBuilder().setNumberValue(Double.NaN))
                        .addValues(Value.newBuilder().setNullValue(NullValue.NULL_VALUE))).build())
                .build());
        print("empty", BoolValue.getDefaultInstance());
    }

    private static <M extends Message> void print(String name, M message) throws IOException {
        var config = new SerializerConfigImpl();
        config.registerTypeWithKryoSerializer(message.getClass(), ProtobufSerializer.class);
        @SuppressWarnings("unchecked")
        var serializer = new KryoSerializer<>((Class<M>) message.getClass(), config);
        var value = new DataOutputSerializer(64);
        serializer.serialize(message, value);
        var snapshot = new DataOutputSerializer(64);
        TypeSerializerSnapshot.writeVersionedSnapshot(snapshot, serializer.snapshotConfiguration());
        System.out.println(String.join(" ", name, hex(snapshot.getCopyOfBuffer()), hex(value.getCopyOfBuffer()),
                hex(descriptors(message.getDescriptorForType().getFile()))));
    }

    private static byte[] descriptors(FileDescriptor file) {
        Map<String, FileDescriptor> files = new LinkedHashMap<>();
        gather(file, files);
        var set = FileDescriptorSet.newBuilder();
        files.values().forEach(known -> set.addFile(known.toProto()));
        return set.build().toByteArray();
    }

    private static void gather(FileDescriptor file, Map<String, FileDescriptor> files) {
        file.getDependencies().forEach(needed -> gather(needed, files));
        files.putIfAbsent(file.getName(), file);
    }

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }
}
