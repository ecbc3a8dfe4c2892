package savepointdb.peers;

/** What the state {@code account} holds. */
public class Account {
    public long id;
    public String name;
    public double balance;
    public long updatedAt;
}
