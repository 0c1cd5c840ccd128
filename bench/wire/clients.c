/* Connections to one server: opening them, sending batches and counting the replies. */
#include "clients.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "stopwatch.h"

enum { READ_MOST = 1 << 18, EVENTS = 256 };

static int connect_unix(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    must(strlen(path) < sizeof to.sun_path, "the path of a socket is short");
    memcpy(to.sun_path, path, strlen(path) + 1);
    must(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0, "the server accepts");
    return fd;
}

static int connect_tcp(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    const int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    const char *colon = strrchr(address, ':');
    char host[64];

    must(colon && (size_t)(colon - address) < sizeof host, "an address is HOST:PORT");
    memcpy(host, address, (size_t)(colon - address));
    host[colon - address] = 0;
    to.sin_port = htons((uint16_t)atoi(colon + 1));
    must(inet_pton(AF_INET, host, &to.sin_addr) == 1, "HOST is an IPv4 address");
    must(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0, "the server accepts");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static int connect_to(const char *address)
{
    return strncmp(address, "unix:", 5) == 0 ? connect_unix(address + 5) : connect_tcp(address);
}

/* Sends one request on a connection of its own, to learn the form of a reply. */
static void clients_learn_shape(struct wire_clients *c, const char *address, char *const *words,
                                size_t n)
{
    const int fd = connect_to(address);
    struct requests one;
    char reply[512];
    ssize_t got;

    requests_open(&one, words, n, 1);
    must(write(fd, one.bytes, one.each) == (ssize_t)one.each, "a request is sent");
    got = read(fd, reply, sizeof reply - 1);
    must(got > 0, "a request is answered");
    reply[got] = 0;
    if (reply[0] == '-')
        (void)fprintf(stderr, "the server says: %s", reply);
    must(reply[0] != '-', "a request is not answered with an error");
    c->reply_lines = reply_lines(reply, (size_t)got);
    must(c->reply_lines > 0, "replies are integers, simple strings, or arrays of these");
    c->batch_lines = c->reply_lines * c->depth;
    c->arrays = reply[0] == '*';
    free(one.bytes);
    (void)close(fd);
}

static void client_open(struct wire_clients *c, struct wire_client *m, const char *address,
                        char *const *words, size_t n)
{
    /* Edge-triggered: a socket that has been read to its end costs nothing more. */
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = m};

    m->fd = connect_to(address);
    memset(m->carry, '\n', sizeof m->carry);
    requests_open(&m->rq, words, n, c->depth);
    must(epoll_ctl(c->epoll, EPOLL_CTL_ADD, m->fd, &e) == 0, "a connection can be watched");
}

void clients_open(struct wire_clients *c, const char *address, size_t members, size_t depth,
                  char *const *words, size_t n)
{
    c->members = members;
    c->depth = depth;
    clients_learn_shape(c, address, words, n);
    c->epoll = epoll_create1(0);
    c->member = calloc(members, sizeof *c->member);
    must(c->epoll >= 0 && c->member != NULL, "there is memory for the connections");
    for (size_t i = 0; i < members; i++)
        client_open(c, &c->member[i], address, words, n);
}

void clients_close(struct wire_clients *c)
{
    for (size_t i = 0; i < c->members; i++) {
        (void)close(c->member[i].fd);
        free(c->member[i].rq.bytes);
    }
    (void)close(c->epoll);
    free(c->member);
}

bool client_is_free(const struct wire_client *m)
{
    return m->unsent == 0 && m->batches < CLIENT_BATCHES;
}

void client_flush(struct wire_client *m)
{
    const char *end = m->rq.bytes + m->rq.each * m->rq.count;
    const ssize_t did = send(m->fd, end - m->unsent, m->unsent, MSG_DONTWAIT | MSG_NOSIGNAL);

    must(did >= 0 || errno == EAGAIN, "a connection can be written to");
    m->unsent -= did > 0 ? (size_t)did : 0;
}

void client_send(struct wire_clients *c, struct wire_client *m, int64_t due_ns)
{
    requests_draw(&m->rq, &c->draw);
    m->due_ns[(m->oldest + m->batches) % CLIENT_BATCHES] = due_ns;
    m->batches++;
    c->batches++;
    m->unsent = m->rq.each * m->rq.count;
    client_flush(m);
}

/* Assigns the lines that have come to the batches, in order. */
static void client_finish(struct wire_clients *c, struct wire_client *m, uint64_t lines,
                          client_replied *each, void *arg)
{
    while (lines > 0) {
        const uint64_t left = c->batch_lines - m->lines;
        const uint64_t now = lines < left ? lines : left;
        const uint64_t replies = (m->lines + now) / c->reply_lines - m->lines / c->reply_lines;

        must(m->batches > 0, "every reply belongs to a request");
        each(arg, m->due_ns[m->oldest], replies);
        lines -= now;
        m->lines += now;
        if (m->lines == c->batch_lines) {
            m->lines = 0;
            m->oldest = (m->oldest + 1) % CLIENT_BATCHES;
            m->batches--;
            c->batches--;
        }
    }
}

void client_receive(struct wire_clients *c, struct wire_client *m, client_replied *each, void *arg)
{
    static char buffer[REPLY_CARRY + READ_MOST];
    char *bytes = buffer + REPLY_CARRY;
    ssize_t got = READ_MOST;

    while (got == READ_MOST) {
        const uint64_t lines = c->tally.lines;

        got = recv(m->fd, bytes, READ_MOST, MSG_DONTWAIT);
        must(got > 0 || (got < 0 && errno == EAGAIN), "the server stays");
        if (got < 0)
            return;
        memcpy(buffer, m->carry, REPLY_CARRY);
        reply_tally_add(&c->tally, bytes, (size_t)got);
        memcpy(m->carry, bytes + got - REPLY_CARRY, REPLY_CARRY);
        client_finish(c, m, c->tally.lines - lines, each, arg);
    }
}

size_t clients_wait(struct wire_clients *c, struct wire_client **ready, size_t most, bool wait)
{
    struct epoll_event e[EVENTS];
    const int room = most < EVENTS ? (int)most : EVENTS;
    const int n = epoll_wait(c->epoll, e, room, wait ? 1000 : 0);

    must(n >= 0 || errno == EINTR, "connections can be waited for");
    for (int i = 0; i < n; i++)
        ready[i] = e[i].data.ptr;
    return n > 0 ? (size_t)n : 0;
}
