// The HTTP server of the JDK: context.getFilters().add(new Limit("api", false)) asks weir before each request.
import com.sun.net.httpserver.Filter;
import com.sun.net.httpserver.HttpExchange;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;

public class Limit extends Filter {
    private static final String WEIR = System.getenv().getOrDefault("WEIR", "http://127.0.0.1:7311");
    private static final List<String> FIELDS = List.of("RateLimit", "RateLimit-Policy", "Retry-After");
    private static final Duration SHORT = Duration.ofMillis(500);
    private final HttpClient weir = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(SHORT).build();
    private final String name;
    private final boolean closed;

    /** Without weir requests pass, or are refused with 503 if closed. */
    public Limit(String name, boolean closed) {
        this.name = name;
        this.closed = closed;
    }

    /** Who asks: the client's address. Override it for a user, or behind a proxy. */
    protected String client(HttpExchange exchange) {
        return exchange.getRemoteAddress().getAddress().getHostAddress();
    }

    @Override
    public String description() {
        return "asks weir for the limit " + name;
    }

    @Override
    public void doFilter(HttpExchange exchange, Chain chain) throws IOException {
        HttpResponse<Void> answer = null;
        try {
            answer = weir.send(HttpRequest.newBuilder(URI.create(WEIR + "/v1/auth/" + name)).timeout(SHORT)
                    .header("X-Forwarded-For", client(exchange)).build(), HttpResponse.BodyHandlers.discarding());
        } catch (IllegalArgumentException e) { // the client cannot be a header field
            reply(exchange, 500, "weir: " + e.getMessage() + "\n");
            return;
        } catch (IOException e) {
            if (closed)
                exchange.getResponseHeaders().set("Retry-After", "1");
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        if (answer != null)
            for (String field : FIELDS)
                answer.headers().firstValue(field).ifPresent(value -> exchange.getResponseHeaders().set(field, value));
        int status = answer != null ? answer.statusCode() : closed ? 503 : 204;
        if (status == 204)
            chain.doFilter(exchange);
        else if (status == 429 || status == 503)
            reply(exchange, status, "try again later\n");
        else
            reply(exchange, 500, "weir: " + status + " for the limit " + name + "\n");
    }

    private static void reply(HttpExchange exchange, int status, String text) throws IOException {
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(status, body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }
}
