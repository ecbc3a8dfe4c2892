package acme;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Records: Kryo 5 alone writes them. */
public class Records {
    public record Order(String name, int amount, List<String> tags, Shapes.Colour colour, Long total, Object any) { }

    public static class Holder { Order order = new Order("h", 1, new ArrayList<>(List.of("x")), Shapes.Colour.RED, 5L, 6); Order none = null; }

    public static Map<String, Object> all() {
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("record", new Order("o", 3, new ArrayList<>(List.of("t", "u")), null, null, "any"));
        found.put("holder of a record", new Holder());
        return found;
    }
}
