package savepointdb.peers;

import java.util.Locale;

/**
 * Puts one question to one of Flink's readers and prints the answer, and how long it took with the cluster up.
 *
 * <p>Arguments: {@code spa} or {@code sql}; the question; the savepoint, with scheme; {@code hashmap} or
 * {@code rocksdb}; the key that is looked up; the directory for Parquet.
 */
public final class Peer {
    private Peer() {}

    public static void main(String[] arguments) throws Exception {
        String backend = arguments[3];
        try (Cluster cluster = new Cluster(backend)) {
            long started = System.nanoTime();
            String answer = arguments[0].equals("spa")
                    ? ask(new StateProcessor(cluster, arguments[2], backend, arguments[5]), arguments)
                    : ask(new Sql(cluster, arguments[2], backend, arguments[5]), arguments);
            double seconds = (System.nanoTime() - started) / 1e9;
            System.out.printf(Locale.ROOT, "{\"seconds\": %.6f, \"answer\": %s}%n", seconds, answer);
        }
        System.exit(0);
    }

    private static String ask(StateProcessor peer, String[] arguments) throws Exception {
        return switch (arguments[1]) {
            case "count" -> peer.count();
            case "key" -> peer.key(arguments[4]);
            case "group" -> peer.group();
            case "days" -> peer.days();
            case "parquet" -> peer.parquet();
            default -> throw new IllegalArgumentException("no question " + arguments[1]);
        };
    }

    private static String ask(Sql peer, String[] arguments) throws Exception {
        return switch (arguments[1]) {
            case "count" -> peer.count();
            case "key" -> peer.key(arguments[4]);
            case "group" -> peer.group();
            case "days" -> peer.days();
            case "parquet" -> peer.parquet();
            case "metadata" -> peer.metadata();
            default -> throw new IllegalArgumentException("no question " + arguments[1]);
        };
    }
}
