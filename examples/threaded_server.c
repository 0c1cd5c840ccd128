/* A threaded HTTP server that limits each client.
 *
 *     threaded_server              a demonstration: two clients send a burst each
 *     threaded_server --demo       the same
 *     threaded_server PORT         serves on 127.0.0.1:PORT until interrupted; try
 *                                  curl -i -H 'X-Client: alice' http://127.0.0.1:PORT/
 *
 * answer() and main() call weir; the rest is a small server: a pool of threads,
 * each of which accepts a connection, answers it and closes it. Every thread may decide at any
 * time: there is nothing to lock.
 */
#define _POSIX_C_SOURCE 200809L

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <weir.h>

enum { THREADS = 8, REQUEST_MAX = 4096, KEY_MAX = 256, DEMO_REQUESTS = 8 };

struct server {
    int listener;
    struct weir *w;
    struct weir_policy *per_client;
};

static void reply(int fd, const char *status, const char *headers)
{
    char text[512];
    const int len = snprintf(text, sizeof text,
                             "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n%s\r\n",
                             status, headers);

    (void)!send(fd, text, (size_t)len, MSG_NOSIGNAL); /* a client that has left reads no reply */
}

/* Decides, and answers with the status and headers of the verdict. */
static void answer(struct server *s, int fd, const char *client)
{
    const struct weir_request rq = weir_request_of(s->per_client, client, strlen(client));
    struct weir_verdict v;
    char headers[160];
    int len;

    if (weir_take(s->w, &rq, &v) != 0) {
        reply(fd, "503 Service Unavailable", "");
        return;
    }
    len = snprintf(headers, sizeof headers,
                   "X-RateLimit-Limit: %lld\r\nX-RateLimit-Remaining: %lld\r\n", (long long)v.limit,
                   (long long)v.remaining);
    /* Rounded up: a client that comes back early would be refused again. -1 means never. */
    if (!v.allowed && v.retry_after_ns >= 0)
        snprintf(headers + len, sizeof headers - (size_t)len, "Retry-After: %lld\r\n",
                 (long long)(v.retry_after_ns / 1000000000 + (v.retry_after_ns % 1000000000 > 0)));
    reply(fd, v.allowed ? "200 OK" : "429 Too Many Requests", headers);
}

/* Reads the head of a request; false if it is too long, too slow or cut short. */
static bool read_head(int fd, char *text, size_t cap)
{
    size_t len = 0;

    while (len + 1 < cap) {
        const ssize_t got = recv(fd, text + len, cap - 1 - len, 0);

        if (got <= 0)
            return false;
        len += (size_t)got;
        text[len] = '\0';
        if (strstr(text, "\r\n\r\n"))
            return true;
    }
    return false;
}

/* The client's key: the header X-Client, or the address without one. Trust such a header only from
 * your own proxy: a client that can choose its key can choose a new one for each request. */
static void name_client(const char *head, const struct sockaddr_in *from, char *key, size_t cap)
{
    static const char header[] = "\r\nX-Client:";

    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line, header, sizeof header - 1) == 0) {
            line += sizeof header - 1;
            line += strspn(line, " \t");
            snprintf(key, cap, "%.*s", (int)strcspn(line, "\r\n"), line);
            return;
        }
    inet_ntop(AF_INET, &from->sin_addr, key, (socklen_t)cap);
}

static void *serve(void *arg)
{
    struct server *s = arg;
    const struct timeval patience = {.tv_sec = 5};

    for (;;) {
        struct sockaddr_in from;
        socklen_t len = sizeof from;
        const int fd = accept(s->listener, (struct sockaddr *)&from, &len);
        char head[REQUEST_MAX], client[KEY_MAX];

        if (fd < 0 && errno == EINVAL)
            return NULL; /* the listener was shut down */
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        if (read_head(fd, head, sizeof head)) {
            name_client(head, &from, client, sizeof client);
            answer(s, fd, client);
        } else {
            reply(fd, "400 Bad Request", "");
        }
        close(fd);
    }
}

/* One request of the demonstration: prints the status, and when to come back. */
static void ask(const struct sockaddr_in *server, const char *client)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    char text[REQUEST_MAX];
    const char *retry;

    snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: demo\r\nx-client: %s\r\n\r\n", client);
    if (connect(fd, (const struct sockaddr *)server, sizeof *server) != 0 ||
        send(fd, text, strlen(text), MSG_NOSIGNAL) < 0 || !read_head(fd, text, sizeof text)) {
        perror("demo");
        exit(1);
    }
    close(fd);
    retry = strstr(text, "Retry-After: ");
    printf("%s: %.3s%s%.*s\n", client, text + strlen("HTTP/1.1 "), retry ? ", " : "",
           retry ? (int)strcspn(retry, "\r") : 0, retry ? retry : "");
}

static void wait_for_interrupt(const sigset_t *interrupts, const struct sockaddr_in *at)
{
    int signal_number;

    printf("serving on http://127.0.0.1:%d/, until interrupted\n", ntohs(at->sin_port));
    fflush(stdout);
    sigwait(interrupts, &signal_number);
}

int main(int argc, char **argv)
{
    const bool demo = argc < 2 || strcmp(argv[1], "--demo") == 0;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    struct server s = {.listener = socket(AF_INET, SOCK_STREAM, 0)};
    struct weir_diag why;
    pthread_t thread[THREADS];
    sigset_t interrupts;

    if (weir_open(&s.w, NULL, &why) != 0 ||
        weir_policy_set(s.w, "clients", "token-bucket 10/m burst=5", &s.per_client, &why) != 0) {
        fprintf(stderr, "%s\n", why.text);
        return 1;
    }
    at.sin_port = demo ? 0 : htons((uint16_t)atoi(argv[1])); /* 0: any free port */
    setsockopt(s.listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(s.listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(s.listener, 128) != 0 ||
        getsockname(s.listener, (struct sockaddr *)&at, &len) != 0) {
        perror("listen");
        return 1;
    }
    sigemptyset(&interrupts);
    sigaddset(&interrupts, SIGINT);
    sigaddset(&interrupts, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &interrupts, NULL); /* the threads inherit it: only main waits */
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, serve, &s) != 0)
            abort();
    for (int i = 0; demo && i < 2 * DEMO_REQUESTS; i++)
        ask(&at, i % 2 ? "bob" : "alice");
    if (!demo)
        wait_for_interrupt(&interrupts, &at);
    shutdown(s.listener, SHUT_RDWR);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    close(s.listener);
    weir_close(s.w);
    return 0;
}
