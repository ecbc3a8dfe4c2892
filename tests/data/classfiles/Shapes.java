package acme;

import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/** Compiled into shapes.jar: javac --release 17 -d out Shapes.java && jar cfM shapes.jar -C out . */
public class Shapes<T extends Comparable<T> & Runnable, U> implements Supplier<Map<String, List<U>>> {
    public static final String NAME = "na\u00efve \u0000 \ud83d\ude00";
    private static final long BIG = 1L << 40;
    protected transient T[] many;
    public List<? extends Number> numbers;
    public Map.Entry<String, int[]>[] entries;

    public Map<String, List<U>> get() {
        return null;
    }

    @Deprecated
    public static <X extends Exception> int count(List<? super X> list, T0... rest) throws X {
        try {
            return list.size();
        } catch (RuntimeException error) {
            return (int) BIG;
        }
    }

    public enum Colour {
        RED,
        GREEN {
            @Override
            public String toString() {
                return "leaf";
            }
        },
        BLUE;

        public static final Colour DEFAULT = BLUE;
    }

    public record Point(long x, List<String> tags) {}

    public class Inner<V> {
        public V value;

        public class Deep {}
    }

    static class T0 {}

    interface Face {
        Object anonymous = new Object() {};
    }

    public Shapes<T, U>.Inner<String> inner;
}
