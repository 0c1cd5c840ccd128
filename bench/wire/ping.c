/* The ceiling: a server that does nothing but reply.
 *
 *     ping PORT          0 is any free port; prints "listening on 127.0.0.1:PORT"
 *
 * One thread, one epoll, one read and one write a wake-up of a connection. It does not parse its
 * requests: every three lines are one PING (*1, $4, PING), and get one +PONG. The time that another
 * server takes beyond this one is its own; the time that this one takes is the kernel's.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stopwatch.h"

enum { CONNECTIONS = 4096, EVENTS = 256, READ_MOST = 65536, LINES = 3, PONG_LEN = 7 };

static unsigned lines_of[CONNECTIONS]; /* by descriptor: lines of an incomplete request */
static char pongs[(READ_MOST / LINES + 1) * PONG_LEN];

static int listen_at(uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t len = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    must(fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0 && listen(fd, 512) == 0,
         "the port is free");
    must(getsockname(fd, (struct sockaddr *)&at, &len) == 0, "the port is known");
    (void)printf("listening on 127.0.0.1:%d\n", ntohs(at.sin_port));
    (void)fflush(stdout);
    return fd;
}

static void ping_watch(int epoll, int fd)
{
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};

    must(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) == 0, "a descriptor can be watched");
}

static void let_in(int epoll, int listener)
{
    const int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK), on = 1;

    must(fd >= 0 && fd < CONNECTIONS, "a connection can be accepted");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    lines_of[fd] = 0;
    ping_watch(epoll, fd);
}

static void ping_answer(int fd)
{
    static char bytes[READ_MOST];
    const ssize_t got = read(fd, bytes, sizeof bytes);
    unsigned lines = lines_of[fd];

    if (got <= 0) {
        (void)close(fd);
        return;
    }
    for (ssize_t i = 0; i < got; i++)
        lines += bytes[i] == '\n';
    lines_of[fd] = lines % LINES;
    if (lines >= LINES)
        must(write(fd, pongs, (size_t)(lines / LINES) * PONG_LEN) > 0, "answers can be sent");
}

int main(int argc, char **argv)
{
    const int listener = listen_at((uint16_t)number_arg(argc, argv, 1));
    const int epoll = epoll_create1(0);

    (void)signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof pongs; i += PONG_LEN)
        memcpy(pongs + i, "+PONG\r\n", PONG_LEN);
    ping_watch(epoll, listener);
    for (;;) {
        struct epoll_event e[EVENTS];
        const int n = epoll_wait(epoll, e, EVENTS, -1);

        for (int i = 0; i < n; i++) {
            if (e[i].data.fd == listener)
                let_in(epoll, listener);
            else
                ping_answer(e[i].data.fd);
        }
    }
}
