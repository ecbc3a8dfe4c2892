package savepointdb.restore;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.api.connector.source.SourceOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.FileSourceSplit;
import org.apache.flink.connector.file.src.PendingSplitsCheckpoint;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import savepointdb.common.Json;

/** A FileSource of text lines that emits only when it may. Line n of file f is {@code f:n}. */
final class TextFiles implements Job {
    private static final Path FOLDER = Path.of("/tmp/savepointdb-text-files");
    private static final int LINES = 100;

    @Override
    public void build(StreamExecutionEnvironment env, Options options) throws IOException {
        Files.createDirectories(FOLDER);
        for (String file : List.of("a", "b")) {
            List<String> lines = new ArrayList<>();
            for (int n = 0; n < LINES; n++) {
                lines.add(file + ":" + n);
            }
            Files.write(FOLDER.resolve(file), lines);
        }
        env.fromSource(new Gated(options.input ? 10 : options.emit), WatermarkStrategy.noWatermarks(), "files", Types.STRING)
                .uid("files")
                .map(line -> {
                    Found.row("phase", "output", "operator", "files", "value", line);
                    return line;
                }).returns(Types.STRING)
                .uid("lines");
    }

    private static final class Gated implements Source<String, FileSourceSplit, PendingSplitsCheckpoint<FileSourceSplit>> {
        private final FileSource<String> files = FileSource.forRecordStreamFormat(
                        new TextLineInputFormat(), new org.apache.flink.core.fs.Path(FOLDER.toUri()))
                .monitorContinuously(Duration.ofHours(1))
                .build();
        private final int emit;

        Gated(int emit) {
            this.emit = emit;
        }

        @Override
        public Boundedness getBoundedness() {
            return files.getBoundedness();
        }

        @Override
        public SourceReader<String, FileSourceSplit> createReader(SourceReaderContext context) {
            return new Reader(files.createReader(context), context.getIndexOfSubtask(), emit);
        }

        @Override
        public SplitEnumerator<FileSourceSplit, PendingSplitsCheckpoint<FileSourceSplit>> createEnumerator(
                SplitEnumeratorContext<FileSourceSplit> context) {
            return files.createEnumerator(context);
        }

        @Override
        public SplitEnumerator<FileSourceSplit, PendingSplitsCheckpoint<FileSourceSplit>> restoreEnumerator(
                SplitEnumeratorContext<FileSourceSplit> context, PendingSplitsCheckpoint<FileSourceSplit> state) {
            return files.restoreEnumerator(context, state);
        }

        @Override
        public SimpleVersionedSerializer<FileSourceSplit> getSplitSerializer() {
            return files.getSplitSerializer();
        }

        @Override
        public SimpleVersionedSerializer<PendingSplitsCheckpoint<FileSourceSplit>> getEnumeratorCheckpointSerializer() {
            return files.getEnumeratorCheckpointSerializer();
        }
    }

    private static final class Reader implements SourceReader<String, FileSourceSplit> {
        private static final int IDLE_MS = 5;

        private final SourceReader<String, FileSourceSplit> files;
        private final int subtask;
        private final int emit;
        private int emitted;
        private boolean arrived;

        Reader(SourceReader<String, FileSourceSplit> files, int subtask, int emit) {
            this.files = files;
            this.subtask = subtask;
            this.emit = emit;
        }

        @Override
        public void start() {
            files.start();
        }

        @Override
        public void addSplits(List<FileSourceSplit> splits) {
            int index = 0;
            for (FileSourceSplit split : splits) {
                Object records = split.getReaderPosition().map(position -> (Object) position.getRecordsAfterOffset()).orElse(null);
                Found.row("operator", "files", "state", "SourceReaderState", "kind", "operator-list", "subtask", subtask,
                        "index", index++,
                        "value", Json.object("path", split.path().toString(), "records_after_offset", records));
            }
            files.addSplits(splits);
        }

        @Override
        public InputStatus pollNext(ReaderOutput<String> out) throws Exception {
            if (Gate.opened() > 0 && emitted < emit) {
                files.pollNext(new Counted(out));
            } else if (Gate.opened() > 0 && !arrived) {
                arrived = true;
                Gate.arrive();
            }
            Thread.sleep(IDLE_MS);
            return InputStatus.MORE_AVAILABLE;
        }

        @Override
        public List<FileSourceSplit> snapshotState(long checkpoint) {
            return files.snapshotState(checkpoint);
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return CompletableFuture.completedFuture(null);
        }

        @Override
        public void notifyNoMoreSplits() {
            files.notifyNoMoreSplits();
        }

        @Override
        public void handleSourceEvents(SourceEvent event) {
            files.handleSourceEvents(event);
        }

        @Override
        public void close() {
            try {
                files.close();
            } catch (Exception failure) {
                throw new UncheckedIOException(new IOException(failure));
            }
        }

        /** Counts what the reader emits. */
        private final class Counted extends CountedSplit implements ReaderOutput<String> {
            private final ReaderOutput<String> out;

            Counted(ReaderOutput<String> out) {
                super(out);
                this.out = out;
            }

            @Override
            public SourceOutput<String> createOutputForSplit(String split) {
                return new CountedSplit(out.createOutputForSplit(split));
            }

            @Override
            public void releaseOutputForSplit(String split) {
                out.releaseOutputForSplit(split);
            }
        }

        private class CountedSplit implements SourceOutput<String> {
            private final SourceOutput<String> out;

            CountedSplit(SourceOutput<String> out) {
                this.out = out;
            }

            @Override
            public void collect(String line) {
                emitted++;
                out.collect(line);
            }

            @Override
            public void collect(String line, long timestamp) {
                emitted++;
                out.collect(line, timestamp);
            }

            @Override
            public void emitWatermark(Watermark watermark) {
                out.emitWatermark(watermark);
            }

            @Override
            public void markIdle() {
                out.markIdle();
            }

            @Override
            public void markActive() {
                out.markActive();
            }
        }
    }
}
