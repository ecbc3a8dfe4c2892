import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A name node and a data node, until the input ends: {@code java -cp … MiniCluster.java <folder>}. */
public class MiniCluster {
    public static void main(String[] arguments) throws IOException {
        Configuration configuration = new Configuration();
        configuration.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, arguments[0]);
        try (MiniDFSCluster cluster = new MiniDFSCluster.Builder(configuration).numDataNodes(1).build()) {
            cluster.waitActive();
            System.out.println("serves 127.0.0.1:" + cluster.getNameNode().getHttpAddress().getPort());
            while (System.in.read() >= 0) {}
        }
        System.exit(0);
    }
}
