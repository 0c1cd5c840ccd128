/* Pipelines to servers that fail, each in its own way, which pipelines.py arranges. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipelines_kit.h"

#define TIMEOUT_MS 50
#define THREADS    8

/* ---- Threads that go on asking --------------------------------------------------------------- */

static _Atomic bool enough;
static _Atomic int answered, unanswered, wrong;
static _Atomic int64_t worst_ns;

static void *send_all_the_time(void *number)
{
    char mark[64];
    struct test_command a;

    for (int i = 0; !atomic_load(&enough); i++) {
        const int64_t began = now_ns();
        int64_t worst = atomic_load(&worst_ns), took;

        (void)snprintf(mark, sizeof mark, "%d of %d", i, (int)(intptr_t)number);
        if (command_send(&a, TIMEOUT_MS, "ECHO", mark, NULL) == 0)
            atomic_fetch_add(strcmp(a.command.text, mark) == 0 ? &answered : &wrong, 1);
        else
            atomic_fetch_add(a.command.error == WEIR_EDOWN ? &unanswered : &wrong, 1);
        took = now_ns() - began;
        while (took > worst && !atomic_compare_exchange_weak(&worst_ns, &worst, took))
            continue;
        if (a.command.error)
            (void)usleep(500); /* a caller would do something else */
    }
    return NULL;
}

static void answers_come(const char *sentence)
{
    const int before = atomic_load(&answered);
    const int64_t until = now_ns() + LONG_MS * MS;

    while (atomic_load(&answered) < before + 100 && now_ns() < until)
        (void)usleep(200);
    CHECK(sentence, atomic_load(&answered) >= before + 100);
}

static void under_fire(void (*fire)(void))
{
    pthread_t thread[THREADS];

    for (int i = 0; i < THREADS; i++)
        (void)pthread_create(&thread[i], NULL, send_all_the_time, (void *)(intptr_t)i);
    answers_come("at first all is well");
    fire();
    atomic_store(&enough, true);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(thread[i], NULL);
    CHECK("no thread got another's reply", atomic_load(&wrong) == 0);
    CHECK("some got no answer", atomic_load(&unanswered) > 0);
    CHECK("it was told", atomic_load(&stage.failures) > 0);
    (void)printf("  %d answered, %d not, the longest wait %.1f ms\n", atomic_load(&answered),
                 atomic_load(&unanswered), (double)atomic_load(&worst_ns) / 1e6);
    CHECK("no thread waited past its deadline",
          atomic_load(&worst_ns) < TIMEOUT_MS * MS + SLACK_NS);
}

static void killed(void)
{
    meet("kill");
    meet("start");
    answers_come("when it is back there are answers");
}

void the_server_is_killed_and_comes_back(void)
{
    under_fire(killed);
}

static void stopped(void)
{
    meet("stop"); /* and 300 ms later it goes on */
    answers_come("when it goes on there are answers");
}

void the_server_stands_still(void)
{
    under_fire(stopped);
}

static void cut(void)
{
    for (int i = 0; i < 20; i++)
        answers_come("between two cuts there are answers");
}

void it_is_cut_again_and_again(void)
{
    under_fire(cut);
    CHECK("there were many connections", weir__pipeline_epoch(stage.pipeline) > 10);
}

/* ---- No answer ------------------------------------------------------------------------------- */

static void *find_no_host(void *unused)
{
    struct test_command a[3];
    const int64_t began = now_ns();

    (void)unused;
    for (int i = 0; i < 3; i++)
        command_make(&a[i], TIMEOUT_MS, "PING", NULL);
    command_await(a, 3);
    for (int i = 0; i < 3; i++)
        CHECK("there is no answer",
              a[i].command.error == WEIR_EDOWN && a[i].command.text[0] != '\0');
    CHECK("no thread waits past its deadline", now_ns() - began < TIMEOUT_MS * MS + SLACK_NS);
    return NULL;
}

void no_server_answers(void)
{
    for (int i = 0; i < 3; i++)
        in_threads(THREADS, find_no_host);
    CHECK("it was told", atomic_load(&stage.failures) > 0);
    (void)printf("  %s\n", stage.last_failure);
}

static void *wait_long(void *a)
{
    CHECK("the other's failure is everybody's",
          command_send(a, LONG_MS, "BRPOPLPUSH", "never", "gone", "0", NULL) == WEIR_EDOWN);
    return NULL;
}

void a_sooner_deadline_is_kept(void)
{
    struct test_command a, b;
    pthread_t other;
    int64_t began;

    CHECK("it is greeted", command_send(&b, LONG_MS, "PING", NULL) == 0);
    (void)pthread_create(&other, NULL, wait_long, &a);
    meet("blocked");
    began = now_ns();
    CHECK("there is no answer", command_send(&b, TIMEOUT_MS, "PING", NULL) == WEIR_EDOWN);
    CHECK("the leader keeps the sooner deadline", now_ns() - began < TIMEOUT_MS * MS + SLACK_NS);
    (void)pthread_join(other, NULL);
    CHECK("others are answered", command_send(&b, LONG_MS, "PING", NULL) == 0);
}

/* ---- Answers that are none ------------------------------------------------------------------- */

/* The server completes the handshake and answers the first command; then comes garbage,
 * different each time. */
void what_is_no_reply_breaks_the_connection(void)
{
    struct test_command a;
    char word[200];
    int sort = 0;

    for (;;) {
        const unsigned before = weir__pipeline_epoch(stage.pipeline);

        CHECK("a reply is a reply", command_send(&a, LONG_MS, "first", NULL) == 0);
        if (strcmp(a.command.text, "no more") == 0)
            break;
        CHECK("it is another connection", weir__pipeline_epoch(stage.pipeline) == before + 1);
        (void)snprintf(word, sizeof word, "%s: this is no reply", a.command.text);
        check_that(command_send(&a, LONG_MS, "second", NULL) == WEIR_EDOWN, word, a.command.text);
        CHECK("it is known at once", !strstr(a.command.text, "in time"));
        sort++;
    }
    CHECK("there was something to be heard", sort > 10);
    CHECK("each was told", atomic_load(&stage.failures) == sort);
}

void it_is_cut_in_the_midst_of_a_reply(void)
{
    struct test_command a[3];
    int whole = 0, cut = 0;

    /* The proxy lets a few bytes more through each time. */
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 3; k++)
            command_make(&a[k], LONG_MS, "EVAL", "return {1000001,2,3,4}", "0", NULL);
        command_await(a, 3);
        for (int k = 0; k < 3; k++) {
            const struct weir__command *c = &a[k].command;
            const bool good = c->error == 0 && c->n == 4 && c->number[0] == 1000001 &&
                              c->number[1] == 2 && c->number[2] == 3 && c->number[3] == 4;

            whole += good;
            cut += c->error == WEIR_EDOWN;
            CHECK("an answer is whole, or none", good || c->error == WEIR_EDOWN);
            CHECK("none follows one that is missing",
                  !good || k == 0 || a[k - 1].command.error == 0);
        }
    }
    CHECK("some were cut, some were not", whole > 0 && cut > 0);
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

void there_is_room_for_so_many(void)
{
    struct test_command *a = calloc(WEIR__PIPELINE_COMMANDS + 1, sizeof *a);
    struct weir__command **c = calloc(WEIR__PIPELINE_COMMANDS + 1, sizeof(struct weir__command *));
    const size_t large = WEIR__PIPELINE_BYTES / 4 + 1;
    char *bytes = calloc(1, large);
    bool good = true;

    for (int i = 0; i <= WEIR__PIPELINE_COMMANDS; i++) {
        command_make(&a[i], 500, "PING", NULL);
        c[i] = &a[i].command;
    }
    CHECK("one more than all is too many",
          !weir__pipeline_submit(stage.pipeline, c, WEIR__PIPELINE_COMMANDS + 1));
    CHECK("all but one find room",
          weir__pipeline_submit(stage.pipeline, c, WEIR__PIPELINE_COMMANDS - 1));
    CHECK("... not two more",
          !weir__pipeline_submit(stage.pipeline, c + WEIR__PIPELINE_COMMANDS - 1, 2));
    CHECK("... but one", weir__pipeline_submit(stage.pipeline, c + WEIR__PIPELINE_COMMANDS - 1, 1));
    CHECK("... and then none",
          !weir__pipeline_submit(stage.pipeline, c + WEIR__PIPELINE_COMMANDS, 1));
    weir__pipeline_await(stage.pipeline, c, WEIR__PIPELINE_COMMANDS);
    for (int i = 0; i < WEIR__PIPELINE_COMMANDS; i++)
        good = good && atomic_load(&c[i]->finished) == 1 && c[i]->error == WEIR_EDOWN;
    CHECK("all failed: no server answered", good);

    for (int i = 0; i < 4; i++) {
        c[i]->bytes = bytes;
        c[i]->len = large;
        c[i]->deadline_ns = now_ns() + 500 * MS;
    }
    CHECK("three large ones find room", weir__pipeline_submit(stage.pipeline, c, 3));
    CHECK("... a fourth does not", !weir__pipeline_submit(stage.pipeline, c + 3, 1));
    weir__pipeline_await(stage.pipeline, c, 3);
    CHECK("there is room again", weir__pipeline_submit(stage.pipeline, c, 3));
    weir__pipeline_await(stage.pipeline, c, 3);
    free(bytes);
    free(c);
    free(a);
}

static void *large_and_small(void *number)
{
    const int me = (int)(intptr_t)number;
    const size_t size = me % 2 ? 3 << 20 : 10;
    char *bytes = malloc(size + 100), mark[32];
    struct test_command a;
    bool good = true;

    for (int round = 0; good && round < 6; round++) {
        int len = snprintf(bytes, 100, "*3\r\n$3\r\nSET\r\n$4\r\nbig%d\r\n$%zu\r\n", me, size);

        memset(bytes + len, 'x', size);
        memcpy(bytes + len + size, "\r\n", 2);
        command_make(&a, LONG_MS, "PING", NULL);
        a.command.bytes = bytes;
        a.command.len = (size_t)len + size + 2;
        command_await(&a, 1);
        good = a.command.error == 0 && strcmp(a.command.text, "OK") == 0;
        (void)snprintf(mark, sizeof mark, "%d %d", me, round);
        good = good && command_send(&a, LONG_MS, "ECHO", mark, NULL) == 0 &&
               strcmp(a.command.text, mark) == 0;
    }
    CHECK("commands larger than a socket's buffer arrive whole", good);
    free(bytes);
    return NULL;
}

void large_commands_pass_through_a_narrow_pipe(void)
{
    in_threads(6, large_and_small);
    CHECK("nothing failed", atomic_load(&stage.failures) == 0);
    CHECK("one connection was enough", weir__pipeline_epoch(stage.pipeline) == 1);
}

/* ---- A loop ---------------------------------------------------------------------------------- */

static int told, failed_down;

static void count_failed(struct weir__command *c)
{
    told++;
    failed_down += c->error == WEIR_EDOWN;
}

void a_loop_hears_of_failure(void)
{
    struct test_command a[8];
    struct weir__command *c[8];
    const int64_t began = now_ns();
    int turns = 0;

    for (int i = 0; i < 8; i++) {
        command_make(&a[i], TIMEOUT_MS, "PING", NULL);
        a[i].command.done = count_failed;
        c[i] = &a[i].command;
    }
    CHECK("there is room", weir__pipeline_submit(stage.pipeline, c, 8));
    for (; told < 8 && turns < 1000; turns++) {
        struct pollfd p = {.fd = weir__pipeline_fd(stage.pipeline),
                           .events = weir__pipeline_events(stage.pipeline)};
        const int64_t left = weir__pipeline_deadline(stage.pipeline) - now_ns();

        if (left > 0)
            (void)poll(&p, 1, (int)(left / MS + 1));
        weir__pipeline_step(stage.pipeline);
    }
    CHECK("all are told that there is no answer", told == 8 && failed_down == 8);
    CHECK("... in time", now_ns() - began < TIMEOUT_MS * MS + SLACK_NS);
    CHECK("the loop does not spin", turns < 20);
    CHECK("nothing is left to wait for", weir__pipeline_deadline(stage.pipeline) == INT64_MAX);
}

/* ---- Connections that end -------------------------------------------------------------------- */

void a_connection_that_was_closed_while_idle_is_replaced(void)
{
    struct test_command a;

    CHECK("it is greeted", command_send(&a, LONG_MS, "PING", NULL) == 0);
    meet("idle"); /* more than 100 ms, and the server closes it */
    CHECK("no caller notices", command_send(&a, LONG_MS, "PING", NULL) == 0);
    CHECK("it is another connection", weir__pipeline_epoch(stage.pipeline) == 2);
    CHECK("nothing failed", atomic_load(&stage.failures) == 0);
}

void a_replica_is_left(void)
{
    struct test_command a;

    CHECK("to write to a replica is an error",
          command_send(&a, LONG_MS, "SET", "x", "1", NULL) == WEIR_EIO &&
              strncmp(a.command.text, "READONLY", 8) == 0);
    CHECK("it was told", atomic_load(&stage.failures) == 1);
    meet("promote");
    CHECK("the next is answered", command_send(&a, LONG_MS, "SET", "x", "1", NULL) == 0);
    CHECK("... on another connection", weir__pipeline_epoch(stage.pipeline) == 2);
}
