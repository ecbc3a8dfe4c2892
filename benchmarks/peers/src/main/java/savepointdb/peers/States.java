package savepointdb.peers;

import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;

/** The states of the operator; those who read need them as those who write do. */
final class States {
    static final String UID = "aggregate";
    static final int MAX_PARALLELISM = 128;
    static final int PARALLELISM = 2;

    static final ValueStateDescriptor<Long> COUNT = new ValueStateDescriptor<>("count", Types.LONG);
    static final ValueStateDescriptor<Account> ACCOUNT =
            new ValueStateDescriptor<>("account", Types.POJO(Account.class));
    static final MapStateDescriptor<String, Long> PER_DAY =
            new MapStateDescriptor<>("perDay", Types.STRING, Types.LONG);
    static final ListStateDescriptor<String> EVENTS = new ListStateDescriptor<>("events", Types.STRING);

    private States() {}
}
