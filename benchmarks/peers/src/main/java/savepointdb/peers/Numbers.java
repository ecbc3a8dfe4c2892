package savepointdb.peers;

import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;

/** The numbers of the keys, once a phase: {@code (number, phase)}. */
final class Numbers extends RichParallelSourceFunction<Tuple2<Long, Integer>> {
    private final long keys;

    Numbers(long keys) {
        this.keys = keys;
    }

    @Override
    public void run(SourceContext<Tuple2<Long, Integer>> out) throws Exception {
        int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        int subtasks = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
        for (int phase = 0; phase < Generate.PHASES; phase++) {
            Gate.await(phase);
            for (long number = subtask; number < keys; number += subtasks) {
                synchronized (out.getCheckpointLock()) {
                    out.collect(Tuple2.of(number, phase));
                }
            }
            Gate.arrive();
        }
        Gate.await(Generate.PHASES);
    }

    @Override
    public void cancel() {
        // Flink interrupts the thread, which waits in the gate.
    }
}
