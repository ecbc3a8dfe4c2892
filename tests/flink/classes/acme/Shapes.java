package acme;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;

/** Classes that Flink leaves to Kryo, one for each rule of its FieldSerializer. */
public class Shapes {
    public enum Colour { RED, GREEN, BLUE }

    public enum Operation {
        PLUS { @Override int apply(int a, int b) { return a + b; } },
        MINUS { @Override int apply(int a, int b) { return a - b; } };

        abstract int apply(int a, int b);
    }

    /** Every primitive, and every box, in no order. */
    public static class Numbers {
        private final double zd; final float yf; final long l; final int i; final short s; final byte b; final char c; final boolean flag;
        Double bd; Float bf; Long bl; Integer bi; Short bs; Byte bb; Character bc; Boolean bo;
        transient int notStored = 5;
        static int shared = 6;

        Numbers(int n, boolean boxed) {
            zd = n + 0.5; yf = n + 0.25f; l = n * 10_000_000_000L; i = n; s = (short) n; b = (byte) n; c = (char) ('a' + n); flag = n % 2 == 1;
            if (boxed) { bd = zd; bf = yf; bl = l; bi = i; bs = s; bb = b; bc = c; bo = flag; }
        }
    }

    public static final class Point {
        final int x; final int y;
        Point(int x, int y) { this.x = x; this.y = y; }
    }

    public static class Base {
        protected final String name; final long id; private final String hidden;
        Base(String name, long id) { this.name = name; this.id = id; this.hidden = "base of " + name; }
    }

    public static class Derived extends Base {
        private final String hidden; final Point at; final Point[] path; final Colour colour; final Operation operation; final Object any;
        Derived(String name, long id, Object any) {
            super(name, id);
            hidden = name == null ? null : "derived " + name;
            at = new Point((int) id, -1); path = new Point[] {at, null, new Point(7, 8)};
            colour = Colour.GREEN; operation = Operation.MINUS; this.any = any;
        }
    }

    public static class Containers {
        List<String> names = new ArrayList<>(Arrays.asList("a", "b", null));
        List<Point> points = new ArrayList<>(List.of(new Point(1, 2), new Point(3, 4)));
        List<Base> bases = new ArrayList<>(Arrays.asList(new Base("x", 1), new Derived("y", 2, 3L)));
        Map<String, Integer> counts = new HashMap<>(Map.of("one", 1));
        Map<Long, List<Double>> nested = new LinkedHashMap<>(Map.of(5L, new ArrayList<>(List.of(1.5, 2.5))));
        Map<String, Object> anything = new TreeMap<>(Map.of("k", 7));
        List<? extends Number> wild = new ArrayList<>(List.of(1, 2L));
        List<List<Integer>> lists = new ArrayList<>(List.of(new ArrayList<>(List.of(1, 2)), new ArrayList<>(List.of())));
        List raw = new ArrayList(List.of("raw", 1));
        String[] texts = {"p", null};
        int[] ints = {1, -2};
        long[][] grid = {{1}, {2, 3}};
        byte[] bytes = {1, 2, 3};
        List<String>[] many = new List[] {new ArrayList<>(List.of("q"))};
        Object[] objects = {"o", 1, null};
        UUID uuid = new UUID(1, 2);
        Colour[] colours = {Colour.BLUE, null};
        Map<Colour, Point> byColour = new HashMap<>(Map.of(Colour.RED, new Point(9, 9)));
    }

    public static class Box<T> {
        T value; List<T> list; T[] array; int n;
        Box(T value, List<T> list, T[] array) { this.value = value; this.list = list; this.array = array; this.n = 1; }
    }

    public static class TextBox extends Box<String> {
        String more = "more";
        TextBox(String text) { super(text, new ArrayList<>(List.of(text, "t")), new String[] {text}); }
    }

    public static class Pair<A, B> extends Box<A> {
        B second; Map<A, B> map = new HashMap<>();
        Pair(A a, B b) { super(a, new ArrayList<>(List.of(a)), null); second = b; map.put(a, b); }
    }

    public static class Generic {
        Box<Integer> ints = new Box<>(1, new ArrayList<>(List.of(1, 2)), null);
        Box<Point> points = new Box<>(new Point(1, 1), new ArrayList<>(List.of(new Point(2, 2))), null);
        Box<?> wild = new Box<>("w", new ArrayList<>(List.of("w")), null);
        Box raw = new Box("r", new ArrayList(List.of("r")), null);
        Pair<String, Long> pair = new Pair<>("p", 2L);
        Box<List<String>> deep = new Box<>(new ArrayList<>(List.of("d")), new ArrayList<>(), null);
        List<Box<String>> boxes = new ArrayList<>(List.of(new Box<>("b", new ArrayList<>(List.of("c")), null)));
        Map<String, Box<Long>> byName = new HashMap<>(Map.of("m", new Box<>(4L, new ArrayList<>(List.of(5L)), null)));
        TextBox text = new TextBox("x");
        Box<String> viaSubclass = new TextBox("s");
    }

    public static class Node {
        String label; Node next; List<Node> children = new ArrayList<>();
        Node(String label) { this.label = label; }
    }

    public static class Names extends LinkedList<String> {
        int ignored = 3;
    }

    public static class Index extends TreeMap<String, Integer> {
        public Index() { }

        public Index(java.util.Comparator<? super String> comparator) { super(comparator); }
    }

    public static class HasSubclassesOfContainers {
        Names names = new Names(); Index index = new Index(); List<String> asList = new Names();
        HasSubclassesOfContainers() { names.add("n"); index.put("i", 1); asList.add("l"); }
    }

    public class Inner {
        int depth = 4;
        int outerValue() { return number; }
    }

    int number = 3;

    public interface Shape { }

    public static class Circle implements Shape { final double radius; Circle(double radius) { this.radius = radius; } }

    public static class Drawing { Shape shape = new Circle(2.5); Shape none = null; Number number = 5; Comparable<String> text = "c"; CharSequence chars = "d"; }

    public static abstract class Animal { String name = "an"; }

    public static class Dog extends Animal { int age = 3; }

    public static class Zoo { Animal first = new Dog(); Animal[] all = {new Dog(), null}; Shared shared = new Shared(); Shared same = shared; }

    public static class Shared { String text = "shared"; String again = text; Integer boxed = 1000; }

    public static Map<String, Object> all() {
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("numbers", new Numbers(3, true));
        found.put("numbers without boxes", new Numbers(4, false));
        found.put("point", new Point(1, -2));
        found.put("base", new Base(null, 5));
        found.put("derived", new Derived("d", 6, new Point(5, 5)));
        found.put("derived with text", new Derived(null, 7, "text"));
        found.put("containers", new Containers());
        found.put("generic", new Generic());
        found.put("generic subclass", new TextBox("y"));
        found.put("box of text", new Box<>("raw", new ArrayList<>(List.of("z")), new String[] {"array"}));
        found.put("pair", new Pair<>("p", 2L));
        Node node = new Node("root"), child = new Node("child");
        node.next = child; node.children.add(child); child.next = node;
        found.put("cycle", node);
        found.put("containers of its own", new HasSubclassesOfContainers());
        found.put("inner", new Shapes().new Inner());
        found.put("drawing", new Drawing());
        found.put("zoo", new Zoo());
        found.put("colour", Colour.BLUE);
        found.put("operation", Operation.PLUS);
        found.put("shared", new Shared());
        return found;
    }
}
