/* An HTTP service of fixed capacity.
 *
 * Four workers take 20 ms for each request: 200 a second. Like real services (locks, caches,
 * memory, a garbage collector) it gets slower the more requests are in flight: from 32 on in
 * proportion. So once requests come faster than they are done, each makes all others slower, and
 * when one is done its client has left long ago.
 *
 * handle() calls weir: enter, work, exit with the outcome; or refuse at once, which costs nothing.
 */
#define _POSIX_C_SOURCE 200809L

#include "overload.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct service {
    int listener, port;
    struct weir *w; /* NULL: unguarded */
    struct weir_policy *policy;
    sem_t workers;
    atomic_int in_flight;
    atomic_bool closing;
    pthread_t handler[HANDLERS];
};

/* ---- The work ------------------------------------------------------------------------------ */

static void work(struct service *s)
{
    int64_t ns = WORK_MS * MS;
    struct timespec t;
    int others;

    atomic_fetch_add(&s->in_flight, 1);
    while (sem_wait(&s->workers) != 0 && errno == EINTR)
        continue;
    others = atomic_load(&s->in_flight);
    if (others > SLOW_FROM)
        ns += ns * (others - SLOW_FROM) / SLOW_FROM;
    t = (struct timespec){ns / (1000 * MS), ns % (1000 * MS)};
    if (!atomic_load(&s->closing))
        nanosleep(&t, NULL);
    sem_post(&s->workers);
    atomic_fetch_sub(&s->in_flight, 1);
}

/* ---- HTTP ---------------------------------------------------------------------------------- */

static void reply(int fd, const char *status)
{
    static const char rest[] = "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    char text[128] = "HTTP/1.1 ";

    strcat(strcat(text, status), rest);
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL); /* a client that has left reads no reply */
}

static bool read_head(int fd)
{
    char text[1024];
    size_t len = 0;

    while (len + 1 < sizeof text) {
        const ssize_t got = recv(fd, text + len, sizeof text - 1 - len, 0);

        if (got <= 0)
            return false;
        len += (size_t)got;
        text[len] = '\0';
        if (strstr(text, "\r\n\r\n"))
            return true;
    }
    return false;
}

/* One key for the whole service; it could as well be the client, or the route. */
static void handle(struct service *s, int fd)
{
    struct weir_request rq;
    struct weir_verdict v;
    struct weir_ticket t;

    if (!s->w) {
        work(s);
        reply(fd, "200 OK");
        return;
    }
    rq = weir_request_of(s->policy, "", 0);
    if (weir_enter(s->w, &rq, &t, &v) != 0 || !v.allowed) {
        reply(fd, "503 Service Unavailable");
        return;
    }
    work(s);
    reply(fd, "200 OK");
    weir_exit(s->w, &t, weir_now(s->w) - t.entered_ns > TOO_LATE * MS ? WEIR_DROP : WEIR_SUCCESS);
}

static void *serve(void *arg)
{
    struct service *s = arg;
    const struct timeval patience = {.tv_sec = 1};

    while (!atomic_load(&s->closing)) {
        const int fd = accept(s->listener, NULL, NULL);

        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        if (read_head(fd))
            handle(s, fd);
        close(fd);
    }
    return NULL;
}

/* ---- Open and close ------------------------------------------------------------------------ */

/* The work of this service is sleep, so its processor is never hot, and bbr would refuse nothing:
 * the program sets the signal. A service that computes would leave this out; one that waits for
 * others, as this one does, would use gradient, which looks at the calls alone. */
static void guard(struct service *s, const char *limit)
{
    const struct weir_signals hot = {.cpu_milli = 10 * SIGNAL_CPU,
                                     .memory_milli = WEIR_NONE,
                                     .load_milli = WEIR_NONE,
                                     .pressure_milli = WEIR_NONE};
    struct weir_diag why;

    must(weir_open(&s->w, NULL, &why) == 0, "an engine opens");
    must(weir_signals_set(s->w, &hot) == 0, "the signals can be set");
    must(weir_policy_set(s->w, "service", limit, &s->policy, &why) == 0, why.text);
}

struct service *service_open(const char *limit)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    struct service *s = calloc(1, sizeof *s);
    pthread_attr_t small;

    must(s != NULL, "there is memory");
    if (limit)
        guard(s, limit);
    s->listener = socket(AF_INET, SOCK_STREAM, 0);
    must(bind(s->listener, (struct sockaddr *)&at, sizeof at) == 0 &&
             listen(s->listener, 4096) == 0 &&
             getsockname(s->listener, (struct sockaddr *)&at, &len) == 0,
         "the service listens");
    s->port = ntohs(at.sin_port);
    sem_init(&s->workers, 0, WORKERS);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 * 1024);
    for (int i = 0; i < HANDLERS; i++)
        must(pthread_create(&s->handler[i], &small, serve, s) == 0, "a thread starts");
    pthread_attr_destroy(&small);
    return s;
}

int service_port(const struct service *s)
{
    return s->port;
}

void service_close(struct service *s)
{
    atomic_store(&s->closing, true);
    shutdown(s->listener, SHUT_RDWR);
    for (int i = 0; i < HANDLERS; i++)
        pthread_join(s->handler[i], NULL);
    close(s->listener);
    sem_destroy(&s->workers);
    weir_close(s->w);
    free(s);
}
