package savepointdb.peers;

import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;

/**
 * The four states of the operator as a running function sees them.
 *
 * @param <A> the class of accounts: the job's own, or the one of its copy that savepoints name
 */
record Opened<A>(
        ValueState<Long> count,
        ValueState<A> account,
        MapState<String, Long> perDay,
        ListState<String> events) {

    static <A> Opened<A> of(RuntimeContext context, ValueStateDescriptor<A> account) {
        return new Opened<>(
                context.getState(States.COUNT),
                context.getState(account),
                context.getMapState(States.PER_DAY),
                context.getListState(States.EVENTS));
    }

    void clear() {
        count.clear();
        account.clear();
        perDay.clear();
        events.clear();
    }
}
