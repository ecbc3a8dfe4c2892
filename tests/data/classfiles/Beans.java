package acme;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.typeutils.GenericTypeInfo;
import org.apache.flink.api.java.typeutils.ListTypeInfo;
import org.apache.flink.api.java.typeutils.MapTypeInfo;
import org.apache.flink.api.java.typeutils.ObjectArrayTypeInfo;
import org.apache.flink.api.java.typeutils.PojoTypeInfo;
import org.apache.flink.api.java.typeutils.TupleTypeInfoBase;
import org.apache.flink.types.Either;

/**
 * Classes whose types Flink's TypeExtractor told when it was run, into beans-VERSION.txt: a line a class.
 *
 * javac --release 17 -cp flink-core.jar:flink-core-api.jar -d out Beans.java
 * java -cp out:flink jars acme.Beans > beans-VERSION.txt; jar cfM beans.jar -C out .
 */
public class Beans {
    public static class Plain { public long id; public String name; public int[] many; public Integer[] boxes; transient int gone; static int also; }
    public static class Private { private long id; private boolean done; private Long big; private String a_b; private static int gone;
        public long getId() { return id; } public void setId(long id) {} public boolean isDone() { return done; } public void setDone(boolean d) {}
        public Long big() { return big; } public void setBIG(Long b) {} public String getAB() { return a_b; } public Private setAB(String s) { return this; } }
    public static class Boxed { private int n; public Integer getN() { return n; } public void setN(Integer n) {} }
    public static class WrongGetter { private int n; public long getN() { return n; } public void setN(int n) {} }
    public static class WrongSetter { private int n; public int getN() { return n; } public int setN(int n) { return n; } }
    public static class NoSetter { private long id; public long getId() { return id; } }
    public static class NoConstructor { public long id; public NoConstructor(long id) { this.id = id; } }
    public static class HiddenConstructor { public long id; HiddenConstructor() {} }
    static class NotPublic { public long id; }
    public static class NoFields {}
    public static class Custom { public long id; private void readObject(java.io.ObjectInputStream s) {} }
    public class Inner { public long id; }
    public static class FinalField { public final long id; public FinalField() { id = 0; } }
    public abstract static class Abstract { public long id; Abstract(int x) {} }
    public interface Face { long id(); }
    public record Rec(long id, List<String> tags, Plain plain) {}
    public enum Colour { RED, GREEN { public String toString() { return "g"; } }, BLUE }
    public static class Base<T> { public T one; public List<T> many; private T hidden; public T getHidden() { return hidden; } public void setHidden(T t) {} }
    public static class OfString extends Base<String> { public Base<Long> other; public Base raw; }
    public static class Shadow extends Plain { public long id; }
    public static class Child extends Plain { public Colour colour; }
    public static class Node { public Node next; public Node[] all; public Map<String, Long> m; public long id; }
    public static class Up extends Plain { public Plain up; }
    public static class Lists { public List<String> a; public List<List<String>> b; public ArrayList<String> c; public Collection<Plain> d;
        public Set<Colour> e; public HashSet<Long> f; public Map<String, Plain> g; public Map<String, List<Long>> h; public HashMap<String, Long> i;
        public List<? extends Number> j; public List k; public List<String[]> l; public Iterable<Long> m; public Map<Plain, Colour> n; public List<NotPublic> o; }
    public static class Tuples { public Tuple2<Long, String> a; public Tuple2<Plain, Tuple3<Long, Long, Colour>> b; public Tuple2 c; public Pair d; public Either<Long, Plain> e; public Swap<Long, String> f; }
    public static class Pair extends Tuple2<Long, String> { private int more; }
    public static class Swap<A, B> extends Tuple2<B, A> {}
    public static class Times { public java.time.Instant a; public java.time.LocalDate b; public java.util.Date c; public java.sql.Timestamp d; public java.sql.Date e;
        public java.time.Duration f; public java.util.UUID g; public Object h; public Class<?> i; public char j; public java.math.BigInteger k; public java.util.concurrent.TimeUnit l; public Void m; }
    public static class OfList extends ArrayList<String> { public long id; }
    public static class OfError extends RuntimeException { public long id; }
    public static class Values { public org.apache.flink.types.IntValue a; public org.apache.flink.types.Row b; public org.apache.flink.types.StringValue c; }
    public static class Grid { public Plain[][] a; public long[][] b; public String[] c; public List<String>[] d; public Base<Long>[] e; public Colour[] f; }
    public static class Scala { private long x; public long x() { return x; } public void x_$eq(long v) {} }

    static final Class<?>[] ALL = {Plain.class, Private.class, Boxed.class, WrongGetter.class, WrongSetter.class, NoSetter.class, NoConstructor.class,
        HiddenConstructor.class, NotPublic.class, NoFields.class, Custom.class, Inner.class, FinalField.class, Abstract.class, Face.class, Rec.class, Colour.class,
        OfString.class, Base.class, Shadow.class, Child.class, Node.class, Up.class, Lists.class, Tuples.class, Pair.class, Times.class, OfList.class, OfError.class,
        Values.class, Grid.class, Scala.class, Plain[].class, int[].class};

    public static void main(String[] args) {
        for (Class<?> each : ALL) {
            System.out.println(each.getName() + " = " + describe(TypeInformation.of(each)));
        }
    }

    static String describe(TypeInformation<?> type) {
        String name = type.getClass().getSimpleName();
        if (type instanceof PojoTypeInfo<?> pojo) {
            StringBuilder text = new StringBuilder("Pojo(" + type.getTypeClass().getName());
            for (int i = 0; i < pojo.getArity(); i++) {
                text.append(", ").append(pojo.getPojoFieldAt(i).getField().getDeclaringClass().getName()).append('.').append(pojo.getFieldNames()[i]).append(' ').append(describe(pojo.getTypeAt(i)));
            }
            return text + ")";
        }
        if (type instanceof GenericTypeInfo) return "Kryo(" + type.getTypeClass().getName() + ")";
        if (name.equals("EnumTypeInfo")) return "Enum(" + type.getTypeClass().getName() + ")";
        if (name.equals("EitherTypeInfo")) return "Either(" + describe(((org.apache.flink.api.java.typeutils.EitherTypeInfo<?, ?>) type).getLeftType()) + ", " + describe(((org.apache.flink.api.java.typeutils.EitherTypeInfo<?, ?>) type).getRightType()) + ")";
        if (type instanceof TupleTypeInfoBase<?> tuple) {
            StringBuilder text = new StringBuilder("Tuple(" + type.getTypeClass().getName());
            for (int i = 0; i < tuple.getArity(); i++) text.append(", ").append(describe(tuple.getTypeAt(i)));
            return text + ")";
        }
        if (type instanceof ObjectArrayTypeInfo<?, ?> array) return "Array(" + describe(array.getComponentInfo()) + ")";
        if (name.equals("NullableListTypeInfo")) return "List(" + describe(((ListTypeInfo<?>) type).getElementTypeInfo()) + ")";
        if (name.equals("NullableSetTypeInfo")) return "Set(" + describe(((org.apache.flink.api.java.typeutils.SetTypeInfo<?>) type).getElementTypeInfo()) + ")";
        if (name.equals("NullableMapTypeInfo")) return "Map(" + describe(((MapTypeInfo<?, ?>) type).getKeyTypeInfo()) + ", " + describe(((MapTypeInfo<?, ?>) type).getValueTypeInfo()) + ")";
        return type.createSerializer(config()) .getClass().getSimpleName();
    }

    static org.apache.flink.api.common.serialization.SerializerConfig config() {
        return new org.apache.flink.api.common.serialization.SerializerConfigImpl();
    }
}
