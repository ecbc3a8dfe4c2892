package savepointdb.peers;

import java.io.IOException;
import java.net.URI;
import org.apache.flink.core.fs.FSDataInputStream;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.FileSystemFactory;
import org.apache.flink.core.fs.Path;
import org.apache.flink.core.fs.local.LocalFileSystem;

/**
 * The local file system with a buffer for reading, as {@code buf:///path}.
 *
 * <p>Flink reads {@code file://} without one: a system call for every number of a savepoint. A comparison with that
 * would be one with this omission.
 */
public final class BufferedFileSystem extends LocalFileSystem {
    private static final URI ROOT = URI.create("buf:///");

    @Override
    public URI getUri() {
        return ROOT;
    }

    @Override
    public FSDataInputStream open(Path path) throws IOException {
        return new BufferedStream(super.open(path));
    }

    @Override
    public FSDataInputStream open(Path path, int bufferBytes) throws IOException {
        return open(path);
    }

    /** What Flink finds by {@code META-INF/services}. */
    public static final class Factory implements FileSystemFactory {
        @Override
        public String getScheme() {
            return "buf";
        }

        @Override
        public FileSystem create(URI location) {
            return new BufferedFileSystem();
        }
    }

    private static final class BufferedStream extends FSDataInputStream {
        private static final int BUFFER_BYTES = 64 << 10;

        private final FSDataInputStream in;
        private final byte[] buffer = new byte[BUFFER_BYTES];
        private int position;
        private int limit;

        BufferedStream(FSDataInputStream in) {
            this.in = in;
        }

        @Override
        public int read() throws IOException {
            return position < limit || fill() ? buffer[position++] & 0xFF : -1;
        }

        @Override
        public int read(byte[] target, int offset, int length) throws IOException {
            if (length == 0) {
                return 0;
            }
            if (position == limit && !fill()) {
                return -1;
            }
            int count = Math.min(length, limit - position);
            System.arraycopy(buffer, position, target, offset, count);
            position += count;
            return count;
        }

        private boolean fill() throws IOException {
            limit = Math.max(in.read(buffer, 0, BUFFER_BYTES), 0);
            position = 0;
            return limit > 0;
        }

        @Override
        public void seek(long target) throws IOException {
            long start = in.getPos() - limit;
            if (target >= start && target <= start + limit) {
                position = (int) (target - start);
                return;
            }
            in.seek(target);
            position = 0;
            limit = 0;
        }

        @Override
        public long getPos() throws IOException {
            return in.getPos() - limit + position;
        }

        @Override
        public int available() throws IOException {
            return limit - position + in.available();
        }

        @Override
        public void close() throws IOException {
            in.close();
        }
    }
}
