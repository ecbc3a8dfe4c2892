package savepointdb.peers;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.apache.flink.api.dag.Pipeline;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.PipelineExecutor;
import org.apache.flink.core.execution.PipelineExecutorFactory;
import org.apache.flink.core.execution.PipelineExecutorServiceLoader;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.minicluster.MiniClusterJobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.graph.StreamGraph;

/** A cluster in this process that is up before the clock starts, and environments whose jobs it runs. */
final class Cluster implements AutoCloseable {
    private static final String NAME = "peers";

    private final Configuration conf;
    private final MiniCluster cluster;

    Cluster(String backend) throws Exception {
        Map<String, String> settings = new HashMap<>();
        settings.put("parallelism.default", String.valueOf(States.PARALLELISM));
        settings.put("restart-strategy.type", "none");
        settings.put("rest.port", "0");
        settings.put("state.backend.type", backend);
        settings.put("taskmanager.memory.managed.size", "256m");
        settings.put("pipeline.object-reuse", "true");
        settings.put("execution.target", NAME);
        settings.put("execution.attached", "true");
        conf = Configuration.fromMap(settings);
        cluster = new MiniCluster(new MiniClusterConfiguration.Builder()
                .setConfiguration(conf)
                .setNumSlotsPerTaskManager(States.PARALLELISM)
                .build());
        cluster.start();
    }

    StreamExecutionEnvironment environment() {
        return new StreamExecutionEnvironment(new Loader(), conf, getClass().getClassLoader());
    }

    @Override
    public void close() throws Exception {
        cluster.close();
    }

    private CompletableFuture<JobClient> submit(Pipeline pipeline, ClassLoader classes) throws Exception {
        JobGraph graph = ((StreamGraph) pipeline).getJobGraph(classes);
        return cluster.submitJob(graph)
                .thenApply(result -> new MiniClusterJobClient(
                        result.getJobID(), cluster, classes,
                        MiniClusterJobClient.JobFinalizationBehavior.NOTHING));
    }

    private final class Loader implements PipelineExecutorServiceLoader, PipelineExecutorFactory {
        @Override
        public PipelineExecutorFactory getExecutorFactory(Configuration ignored) {
            return this;
        }

        @Override
        public Stream<String> getExecutorNames() {
            return Stream.of(NAME);
        }

        @Override
        public String getName() {
            return NAME;
        }

        @Override
        public boolean isCompatibleWith(Configuration ignored) {
            return true;
        }

        @Override
        public PipelineExecutor getExecutor(Configuration ignored) {
            return (pipeline, ignoredToo, classes) -> submit(pipeline, classes);
        }
    }
}
