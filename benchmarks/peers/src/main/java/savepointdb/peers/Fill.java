package savepointdb.peers;

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Fills the four states in two phases.
 *
 * <p>The first writes values that the second overwrites, keys and map entries that the second clears, and the first
 * element of lists to which the second appends: a reader that ignores deletes, overwrites or merges gets wrong totals.
 */
final class Fill extends KeyedProcessFunction<String, Tuple2<Long, Integer>, Void> {
    private static final String STALE_DAY = "20231231";
    private static final int REWRITTEN_LISTS = 10;

    private final long keys;

    private transient Opened<Account> states;

    Fill(long keys) {
        this.keys = keys;
    }

    @Override
    public void open(OpenContext context) {
        states = Opened.of(getRuntimeContext(), States.ACCOUNT);
    }

    @Override
    public void processElement(Tuple2<Long, Integer> input, Context context, Collector<Void> out)
            throws Exception {
        long number = input.f0;
        if (input.f1 == 0) {
            begin(number);
        } else if (number >= keys) {
            states.clear();
        } else {
            finish(number);
        }
    }

    private void begin(long number) throws Exception {
        states.count().update(-1L);
        states.account().update(new Account());
        states.perDay().put(STALE_DAY, -1L);
        for (int day = 0; day < Rows.DAYS; day++) {
            states.perDay().put(Rows.day(day), -1L);
        }
        states.events().add(number % REWRITTEN_LISTS == 0 ? "stale" : Rows.event(number, 0));
    }

    private void finish(long number) throws Exception {
        states.count().update(Rows.count(number));
        states.account().update(Rows.account(number));
        states.perDay().remove(STALE_DAY);
        for (int day = 0; day < Rows.DAYS; day++) {
            states.perDay().put(Rows.day(day), Rows.ofDay(number, day));
        }
        if (number % REWRITTEN_LISTS == 0) {
            states.events().clear();
            states.events().add(Rows.event(number, 0));
        }
        states.events().addAll(Rows.laterEvents(number));
    }
}
