package savepointdb.peers;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.StringJoiner;
import java.util.TreeMap;

/** The totals of what the states hold in the end, added up row by row. */
final class Truth {
    private final Map<Long, Long> keysOfCount = new TreeMap<>();
    private final Map<String, Long> sumOfDay = new TreeMap<>();
    private final long keys;
    private long countSum;
    private double balanceSum;
    private long perDaySum;
    private long eventsBytes;

    Truth(long keys) {
        this.keys = keys;
        for (long number = 0; number < keys; number++) {
            countSum += Rows.count(number);
            keysOfCount.merge(Rows.count(number), 1L, Long::sum);
            balanceSum += Rows.account(number).balance;
            for (int day = 0; day < Rows.DAYS; day++) {
                perDaySum += Rows.ofDay(number, day);
                sumOfDay.merge(Rows.day(day), Rows.ofDay(number, day), Long::sum);
            }
            for (int event = 0; event < Rows.EVENTS; event++) {
                eventsBytes += Rows.event(number, event).length();
            }
        }
    }

    void writeTo(Path file) throws IOException {
        StringJoiner counts = new StringJoiner(", ", "[", "]");
        keysOfCount.forEach((count, number) -> counts.add("[" + count + ", " + number + "]"));
        StringJoiner days = new StringJoiner(", ", "[", "]");
        sumOfDay.forEach((day, sum) -> days.add("[\"" + day + "\", " + sum + "]"));
        String text = "{\"keys\": %d,\n \"count\": [%d, %d],\n \"account\": [%d, %s],\n \"perDay\": [%d, %d],\n \"events\": [%d, %d],\n"
                .formatted(
                        keys, keys, countSum, keys, String.format("%.2f", balanceSum),
                        Rows.DAYS * keys, perDaySum, Rows.EVENTS * keys, eventsBytes);
        Files.writeString(file, text + " \"group\": " + counts + ",\n \"days\": " + days + "}\n");
    }
}
