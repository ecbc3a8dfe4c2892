package savepointdb.peers;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.executiongraph.AccessExecutionGraph;
import org.apache.flink.runtime.executiongraph.AccessExecutionVertex;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Runs the job of the four states and keeps its snapshots.
 *
 * <p>Arguments: the directory, the number of keys, {@code hashmap} or {@code rocksdb}. Writes {@code truth.json} and
 * {@code hashmap-canonical}, or {@code rocksdb-canonical}, {@code rocksdb-native} and {@code rocksdb-incremental}.
 */
public final class Generate {
    static final int PHASES = 2;
    private static final int CLEARED = 20;

    private Generate() {}

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[0]).toAbsolutePath();
        long keys = Long.parseLong(arguments[1]);
        String backend = arguments[2];
        Path work = Files.createTempDirectory(directory, "work-");
        try {
            run(directory, work, keys, backend);
        } finally {
            deleteTree(work);
        }
        new Truth(keys).writeTo(directory.resolve("truth.json"));
        System.exit(0);
    }

    private static void run(Path directory, Path work, long keys, String backend) throws Exception {
        Configuration conf = Configuration.fromMap(configuration(directory, work, backend));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(conf);
        // One key of twenty is written and cleared again.
        TypeInformation<Tuple2<Long, Integer>> type = TypeInformation.of(new TypeHint<>() {});
        env.addSource(new Numbers(keys + keys / CLEARED), "numbers", type)
                .keyBy(input -> Rows.key(input.f0), Types.STRING)
                .process(new Fill(keys), Types.VOID)
                .name(States.UID)
                .uid(States.UID);
        JobGraph graph = env.getStreamGraph().getJobGraph();
        var cluster = new MiniClusterConfiguration.Builder()
                .setConfiguration(conf)
                .setNumSlotsPerTaskManager(States.PARALLELISM)
                .build();
        try (MiniCluster running = new MiniCluster(cluster)) {
            running.start();
            running.submitJob(graph).get();
            awaitRunning(running, graph.getJobID());
            keepSnapshots(running, graph.getJobID(), directory, work, backend);
            running.cancelJob(graph.getJobID()).get();
            running.requestJobResult(graph.getJobID()).get();
        }
    }

    private static Map<String, String> configuration(Path directory, Path work, String backend) {
        Map<String, String> conf = new HashMap<>();
        conf.put("parallelism.default", String.valueOf(States.PARALLELISM));
        conf.put("pipeline.max-parallelism", String.valueOf(States.MAX_PARALLELISM));
        conf.put("pipeline.object-reuse", "true");
        conf.put("restart-strategy.type", "none");
        conf.put("rest.port", "0");
        conf.put("io.tmp.dirs", work.toString());
        conf.put("state.backend.type", backend);
        conf.put("taskmanager.memory.managed.size", "512m");
        conf.put("execution.checkpointing.storage", "filesystem");
        conf.put("execution.checkpointing.incremental", "true");
        conf.put("execution.checkpointing.timeout", "2 h");
        conf.put("execution.checkpointing.num-retained", "1");
        // Paths of shared files are absolute in a checkpoint: it is taken where it stays.
        conf.put("execution.checkpointing.dir", directory.resolve("checkpoints").toUri().toString());
        conf.put("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        return conf;
    }

    private static void keepSnapshots(
            MiniCluster cluster, JobID job, Path directory, Path work, String backend) throws Exception {
        boolean isRocks = backend.equals("rocksdb");
        for (int phase = 0; phase < PHASES; phase++) {
            Gate.pass(States.PARALLELISM);
            if (isRocks) {
                String path = cluster.triggerCheckpoint(job).get();
                if (phase == PHASES - 1) {
                    Path link = directory.resolve("rocksdb-incremental");
                    Files.deleteIfExists(link);
                    Files.createSymbolicLink(link, directory.relativize(Path.of(URI.create(path))));
                }
            }
        }
        keepSavepoint(cluster, job, directory, work, backend + "-canonical", SavepointFormatType.CANONICAL);
        if (isRocks) {
            keepSavepoint(cluster, job, directory, work, backend + "-native", SavepointFormatType.NATIVE);
        }
    }

    private static void keepSavepoint(
            MiniCluster cluster, JobID job, Path directory, Path work, String name, SavepointFormatType format)
            throws Exception {
        String path = cluster.triggerSavepoint(job, work.toUri().toString(), false, format).get();
        Files.move(Path.of(URI.create(path)), directory.resolve(name));
    }

    /** Flink refuses a snapshot until every task runs. */
    private static void awaitRunning(MiniCluster cluster, JobID job) throws Exception {
        boolean isRunning = false;
        while (!isRunning) {
            Thread.sleep(50);
            AccessExecutionGraph graph = cluster.getExecutionGraph(job).get();
            if (graph.getFailureInfo() != null) {
                throw new IllegalStateException(graph.getFailureInfo().getExceptionAsString());
            }
            isRunning = true;
            for (AccessExecutionVertex vertex : graph.getAllExecutionVertices()) {
                isRunning &= vertex.getExecutionState() == ExecutionState.RUNNING;
            }
        }
    }

    private static void deleteTree(Path directory) throws IOException {
        try (Stream<Path> paths = Files.walk(directory)) {
            for (Path path : (Iterable<Path>) paths.sorted(Comparator.reverseOrder())::iterator) {
                Files.delete(path);
            }
        }
    }
}
