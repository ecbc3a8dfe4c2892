package benchmarks;

/** The POJO of the savepoints that {@code tools/synthetic/savepoints.py} writes: a savepoint records the name of the class. */
public class Account {
    public double balance;
    public long id;
    public String name;
    public long updatedAt;
}
