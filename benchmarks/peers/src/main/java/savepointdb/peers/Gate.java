package savepointdb.peers;

/** Keeps the sources at the end of a phase, so that a snapshot is taken of a job in which nothing moves. */
final class Gate {
    private static int opened;
    private static int arrived;

    private Gate() {}

    /** Lets the sources emit one more phase, returns when each of them has. */
    static synchronized void pass(int sources) throws InterruptedException {
        arrived = 0;
        opened++;
        Gate.class.notifyAll();
        while (arrived < sources) {
            Gate.class.wait();
        }
    }

    /** Called by a source: waits until {@code phase} may be emitted. Ends by interrupt when cancelled. */
    static synchronized void await(int phase) throws InterruptedException {
        while (opened <= phase) {
            Gate.class.wait();
        }
    }

    /** Called by a source: a phase was emitted. */
    static synchronized void arrive() {
        arrived++;
        Gate.class.notifyAll();
    }
}
