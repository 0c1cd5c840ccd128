/* The clients: each sends one request, waits for a while and leaves. They come at an even rate,
 * whether or not those before them were served: that is what makes an overload. */
#define _POSIX_C_SOURCE 200809L

#include "overload.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS_MOST = 2048 };

struct client {
    int64_t sent_ns;
    int row;
    bool asked; /* the request has been sent */
};

struct load {
    struct sockaddr_in to;
    int64_t began_ns;
    struct result *r;
    int n; /* clients that wait, in no order */
    struct client client[CLIENTS_MOST];
    struct pollfd poll[CLIENTS_MOST];
};

enum end { SERVED, REFUSED, LATE };

/* ---- One client ---------------------------------------------------------------------------- */

static void say(struct load *l, int i)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: demo\r\n\r\n";

    if (send(l->poll[i].fd, text, sizeof text - 1, MSG_NOSIGNAL) != sizeof text - 1)
        return; /* not connected yet */
    l->client[i].asked = true;
    l->poll[i].events = POLLIN;
}

static void begin(struct load *l, int64_t now_ns)
{
    const struct linger at_once = {1, 0};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);

    must(fd >= 0 && l->n < CLIENTS_MOST, "there are enough sockets");
    fcntl(fd, F_SETFL, O_NONBLOCK);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    must(connect(fd, (struct sockaddr *)&l->to, sizeof l->to) == 0 || errno == EINPROGRESS,
         "a client connects");
    l->client[l->n] = (struct client){now_ns, (int)((now_ns - l->began_ns) / (ROW_MS * MS)), false};
    l->poll[l->n] = (struct pollfd){.fd = fd, .events = POLLOUT};
    say(l, l->n);
    l->n++;
}

static void end(struct load *l, int i, enum end how, int64_t now_ns)
{
    struct row *row = &l->r->row[l->client[i].row];

    row->served += how == SERVED;
    row->refused += how == REFUSED;
    row->late += how == LATE;
    if (how == SERVED && l->client[i].sent_ns - l->began_ns >= 1000 * MS)
        l->r->took_ns[l->r->timed++] = now_ns - l->client[i].sent_ns;
    close(l->poll[i].fd);
    l->n--;
    l->client[i] = l->client[l->n];
    l->poll[i] = l->poll[l->n];
}

/* Reads the answer, if it has arrived. */
static void look(struct load *l, int i, int64_t now_ns)
{
    char text[256];
    ssize_t got;

    if (now_ns - l->client[i].sent_ns > CLIENT_WAITS * MS) {
        end(l, i, LATE, now_ns);
        return;
    }
    if (l->poll[i].revents == 0)
        return;
    if (!l->client[i].asked) {
        say(l, i);
        return;
    }
    got = recv(l->poll[i].fd, text, sizeof text, 0);
    if (got < 12 && !(got < 0 && errno == EAGAIN))
        end(l, i, LATE, now_ns);
    else if (got >= 12)
        end(l, i, memcmp(text + 9, "200", 3) == 0 ? SERVED : REFUSED, now_ns);
}

/* ---- All of them --------------------------------------------------------------------------- */

static int by_length(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

void load_run(struct result *r, int port, int rate, int seconds)
{
    struct load *l = calloc(1, sizeof *l);
    int64_t sent = 0, now_ns;

    must(l != NULL, "there is memory");
    *r = (struct result){.rows = seconds * 1000 / ROW_MS,
                         .took_ns = calloc((size_t)(rate * seconds), sizeof *r->took_ns)};
    must(r->took_ns != NULL && r->rows <= ROWS_MOST, "there is room for the results");
    l->r = r;
    l->to = (struct sockaddr_in){.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr = {htonl(INADDR_LOOPBACK)}};
    l->began_ns = weir_now(NULL);
    do {
        now_ns = weir_now(NULL);
        while (sent < (int64_t)rate * seconds && l->began_ns + sent * 1000 * MS / rate <= now_ns) {
            begin(l, l->began_ns + sent * 1000 * MS / rate);
            sent++;
        }
        poll(l->poll, (nfds_t)l->n, 1);
        now_ns = weir_now(NULL);
        for (int i = l->n - 1; i >= 0; i--)
            look(l, i, now_ns);
    } while (l->n > 0 || sent < (int64_t)rate * seconds);
    qsort(r->took_ns, (size_t)r->timed, sizeof *r->took_ns, by_length);
    free(l);
}
