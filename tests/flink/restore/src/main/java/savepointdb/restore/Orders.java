package savepointdb.restore;

import java.time.Instant;
import java.util.List;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * The job of the demo: orders of a shop from a topic of four partitions, added up by customer. One order, record 250 of partition
 * 1, has a price that is wrong. With {@code --conf jump=round,partition,records} the source loses orders.
 */
final class Orders implements Job {
    private static final List<String> PRODUCTS = List.of("apple", "bread", "cheese", "coffee", "honey", "olives", "pasta", "tea");
    private static final int CUSTOMERS = 200;
    private static final String WRONG = "p1@250";
    private static final Instant FIRST = Instant.parse("2026-11-01T08:00:00Z");
    private static final ValueStateDescriptor<Account> ACCOUNT = new ValueStateDescriptor<>("account", Types.POJO(Account.class));
    private static final MapStateDescriptor<String, Integer> PRODUCTS_BOUGHT =
            new MapStateDescriptor<>("products", Types.STRING, Types.INT);

    @Override
    public void build(StreamExecutionEnvironment env, Options options) {
        var records = new KafkaLike.Words(options, "orders-source", "orders");
        env.fromSource(records, WatermarkStrategy.noWatermarks(), "orders-source", Types.STRING).uid("orders-source")
                .map(Order::of, Types.POJO(Order.class)).uid("parse")
                .keyBy(order -> order.customer, Types.STRING)
                .transform("customers", Types.STRING, new Dumping<>("customers", new Totals(), List.of(ACCOUNT, PRODUCTS_BOUGHT)))
                .uid("customers");
    }

    /** An order; record n of partition p is always the same one. */
    public static final class Order {
        public String customer;
        public String product;
        public int pieces;
        public long cents;
        public Instant time;

        static Order of(String record) {
            int at = record.indexOf('@');
            long number = Long.parseLong(record.substring(at + 1)) * WordCount.PARTITIONS + Integer.parseInt(record.substring(1, at));
            Order order = new Order();
            order.customer = "customer-" + (number * 13 + 29) % CUSTOMERS;
            order.product = PRODUCTS.get((int) (number * 5 % 7 + number % 2));
            order.pieces = (int) (1 + number % 3);
            order.cents = record.equals(WRONG) ? 99_999_900 : order.pieces * (199 + number * 37 % 800);
            order.time = FIRST.plusSeconds(number * 7);
            return order;
        }
    }

    /** What a customer has bought. */
    public static final class Account {
        public int orders;
        public long totalCents;
        public Instant lastOrder;
    }

    private static final class Totals extends KeyedProcessFunction<String, Order, String> {
        private static final long REMINDER_MS = 30L * 24 * 3600 * 1000;

        private transient ValueState<Account> account;
        private transient MapState<String, Integer> products;

        @Override
        public void open(org.apache.flink.api.common.functions.OpenContext context) {
            account = getRuntimeContext().getState(ACCOUNT);
            products = getRuntimeContext().getMapState(PRODUCTS_BOUGHT);
        }

        @Override
        public void processElement(Order order, Context context, Collector<String> out) throws Exception {
            Account found = account.value();
            if (found == null) {
                found = new Account();
            } else {
                context.timerService().deleteEventTimeTimer(found.lastOrder.toEpochMilli() + REMINDER_MS);
            }
            found.orders++;
            found.totalCents += order.cents;
            found.lastOrder = order.time;
            account.update(found);
            Integer bought = products.get(order.product);
            products.put(order.product, (bought == null ? 0 : bought) + order.pieces);
            context.timerService().registerEventTimeTimer(order.time.toEpochMilli() + REMINDER_MS);
        }

        @Override
        public void onTimer(long timestamp, OnTimerContext context, Collector<String> out) {
            out.collect(context.getCurrentKey());
        }
    }
}
