package savepointdb.peers;

import java.util.List;

/** What the states hold of key number {@code i} in the end; `tools/synthetic/savepoints.py` writes the same. */
final class Rows {
    static final int DAYS = 4;
    static final int EVENTS = 3;
    static final int FIRST_DAY = 20_240_101;

    private Rows() {}

    static String key(long number) {
        return "key_" + number;
    }

    static long count(long number) {
        return 10_000 + number % 13;
    }

    static Account account(long number) {
        Account account = new Account();
        account.id = number;
        account.name = "account holder " + number;
        account.balance = number / 4.0;
        account.updatedAt = 1_700_000_000_000L + number;
        return account;
    }

    static String day(int day) {
        return String.valueOf(FIRST_DAY + day);
    }

    static long ofDay(long number, int day) {
        return number + day;
    }

    static String event(long number, int event) {
        return "event_" + (EVENTS * number + event);
    }

    static List<String> laterEvents(long number) {
        return List.of(event(number, 1), event(number, 2));
    }
}
