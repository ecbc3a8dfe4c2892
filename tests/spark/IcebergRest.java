import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.concurrent.Executors;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.CatalogHandlers;
import org.apache.iceberg.rest.RESTCatalogProperties;
import org.apache.iceberg.rest.RESTSerializers;
import org.apache.iceberg.rest.requests.CreateNamespaceRequest;
import org.apache.iceberg.rest.requests.CreateTableRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.responses.ConfigResponse;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.shaded.com.fasterxml.jackson.annotation.JsonAutoDetect.Visibility;
import org.apache.iceberg.shaded.com.fasterxml.jackson.annotation.PropertyAccessor;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.DeserializationFeature;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.PropertyNamingStrategies;

/** A REST catalog: what Iceberg's library answers, behind the HTTP server of the JDK. Prints its port. */
public final class IcebergRest {
    private final JdbcCatalog catalog = new JdbcCatalog();
    private final ObjectMapper json = new ObjectMapper();

    private IcebergRest() {
        json.setVisibility(PropertyAccessor.FIELD, Visibility.ANY);
        json.configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
        json.setPropertyNamingStrategy(new PropertyNamingStrategies.KebabCaseStrategy());
        RESTSerializers.registerAll(json);
    }

    public static void main(String[] arguments) throws Exception {
        IcebergRest rest = new IcebergRest();
        rest.catalog.setConf(new Configuration());
        rest.catalog.initialize(
            "rest", Map.of("uri", "jdbc:sqlite:" + arguments[0] + "/rest.db", "warehouse", arguments[0]));
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", rest::answer);
        server.setExecutor(Executors.newCachedThreadPool());
        server.start();
        System.out.println(server.getAddress().getPort());
    }

    private void answer(HttpExchange exchange) throws IOException {
        int status = 200;
        Object answer;
        try {
            answer = found(exchange);
        } catch (RuntimeException error) {
            status = status(error);
            answer = ErrorResponse.builder()
                .responseCode(status)
                .withType(error.getClass().getSimpleName())
                .withMessage(String.valueOf(error.getMessage()))
                .build();
        }
        boolean isHead = exchange.getRequestMethod().equals("HEAD");
        byte[] body = isHead ? new byte[0] : json.writeValueAsBytes(answer);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(status, isHead ? -1 : body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }

    private static int status(RuntimeException error) {
        if (error instanceof NoSuchNamespaceException || error instanceof NoSuchTableException) {
            return 404;
        }
        return error instanceof AlreadyExistsException || error instanceof CommitFailedException ? 409 : 500;
    }

    private Object found(HttpExchange exchange) throws IOException {
        String[] path = exchange.getRequestURI().getPath().split("/");
        boolean isPost = exchange.getRequestMethod().equals("POST");
        String place = path.length < 3 ? "" : path[2];
        if (place.equals("config")) {
            return ConfigResponse.builder().build();
        }
        if (path.length == 3) {
            return isPost
                ? CatalogHandlers.createNamespace(catalog, read(exchange, CreateNamespaceRequest.class))
                : CatalogHandlers.listNamespaces(catalog, Namespace.empty());
        }
        Namespace namespace = Namespace.of(path[3]);
        if (path.length == 4) {
            return CatalogHandlers.loadNamespace(catalog, namespace);
        }
        if (path.length == 5) {
            if (!isPost) {
                return CatalogHandlers.listTables(catalog, namespace);
            }
            CreateTableRequest request = read(exchange, CreateTableRequest.class);
            return request.stageCreate()
                ? CatalogHandlers.stageTableCreate(catalog, namespace, request)
                : CatalogHandlers.createTable(catalog, namespace, request);
        }
        TableIdentifier table = TableIdentifier.of(namespace, path[5]);
        return isPost
            ? CatalogHandlers.updateTable(catalog, table, read(exchange, UpdateTableRequest.class))
            : CatalogHandlers.loadTable(catalog, table, RESTCatalogProperties.SnapshotMode.ALL);
    }

    private <T> T read(HttpExchange exchange, Class<T> type) throws IOException {
        try (InputStream body = exchange.getRequestBody()) {
            return json.readValue(body, type);
        }
    }
}
