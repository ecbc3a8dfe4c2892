package savepointdb.restore;

import java.util.List;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.api.connector.source.lib.util.IteratorSourceReader;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import savepointdb.common.Json;

/** A NumberSequenceSource, which DataGeneratorSource is built on, that emits only when it may. */
final class Numbers implements Job {
    private static final long LAST = 9_999;

    @Override
    public void build(StreamExecutionEnvironment env, Options options) {
        env.fromSource(new Gated(options.input ? 10 : options.emit), WatermarkStrategy.noWatermarks(), "numseq", Types.LONG)
                .uid("numseq")
                .map(number -> {
                    Found.row("phase", "output", "operator", "numseq", "value", number);
                    return number;
                }).returns(Types.LONG)
                .uid("numbers");
    }

    private static final class Gated extends NumberSequenceSource {
        private final int emit;

        Gated(int emit) {
            super(0, LAST);
            this.emit = emit;
        }

        @Override
        public SourceReader<Long, NumberSequenceSplit> createReader(SourceReaderContext context) {
            return new Reader(context, emit);
        }
    }

    private static final class Reader extends IteratorSourceReader<
            Long, org.apache.flink.util.NumberSequenceIterator, NumberSequenceSource.NumberSequenceSplit> {
        private static final int IDLE_MS = 5;

        private final int subtask;
        private int left;
        private boolean arrived;

        Reader(SourceReaderContext context, int emit) {
            super(context);
            subtask = context.getIndexOfSubtask();
            left = emit;
        }

        @Override
        public void addSplits(List<NumberSequenceSource.NumberSequenceSplit> splits) {
            int index = 0;
            for (NumberSequenceSource.NumberSequenceSplit split : splits) {
                Found.row("operator", "numseq", "state", "SourceReaderState", "kind", "operator-list", "subtask", subtask,
                        "index", index++,
                        "value", Json.object("split_id", split.splitId(), "from", split.from(), "to", split.to()));
            }
            super.addSplits(splits);
        }

        @Override
        public InputStatus pollNext(ReaderOutput<Long> out) {
            if (Gate.opened() > 0 && left-- > 0) {
                super.pollNext(out);
            } else {
                if (Gate.opened() > 0 && !arrived) {
                    arrived = true;
                    Gate.arrive();
                }
                idle();
            }
            return InputStatus.MORE_AVAILABLE;
        }

        private static void idle() {
            try {
                Thread.sleep(IDLE_MS);
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
