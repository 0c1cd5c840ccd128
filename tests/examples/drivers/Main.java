// The filter, in a server of the JDK.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

public class Main {
    private static URI at(URI uri, String path) throws Exception {
        return new URI(uri.getScheme(), null, uri.getHost(), uri.getPort(), "/" + path, null, null);
    }

    public static void main(String[] words) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/", exchange -> {
            exchange.sendResponseHeaders(200, 5);
            exchange.getResponseBody().write("hello".getBytes());
            exchange.close();
        }).getFilters().add(new Limit(words[1], words[2].equals("1")) {
            @Override
            protected String client(HttpExchange exchange) {
                return exchange.getRequestURI().getPath().substring(1);
            }
        });
        server.start();
        URI uri = URI.create("http://127.0.0.1:" + server.getAddress().getPort() + "/");
        HttpClient http = HttpClient.newHttpClient();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            HttpResponse<String> got = http.send(HttpRequest.newBuilder(at(uri, line)).build(),
                    HttpResponse.BodyHandlers.ofString());
            System.out.println(String.join("|", String.valueOf(got.statusCode()),
                    got.headers().firstValue("RateLimit").orElse(""),
                    got.headers().firstValue("Retry-After").orElse(""), got.body().trim()));
        }
        System.exit(0);
    }
}
