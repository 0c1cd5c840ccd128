/* Pipelines to a healthy Redis, which pipelines.py starts. */
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../engine/backend.h"
#include "pipelines_kit.h"
#include "redis/script/scripts.h"

#define THREADS 8
#ifdef __SANITIZE_THREAD__
#define EACH 4000
#else
#define EACH 20000
#endif

void it_answers_one_after_the_other(void)
{
    struct test_command a;
    bool good = true;

    for (int i = 1; i <= 1000; i++)
        good = good && command_send(&a, LONG_MS, "INCR", "alone", NULL) == 0 && a.command.n == 1 &&
               a.command.number[0] == i;
    CHECK("each INCR is answered by its number", good);
    CHECK("nothing failed", atomic_load(&stage.failures) == 0);
}

void it_hears_every_kind_of_reply(void)
{
    struct test_command a;

    CHECK("PING is answered", command_send(&a, LONG_MS, "PING", NULL) == 0);
    CHECK("... by a status", strcmp(a.command.text, "PONG") == 0 && a.command.n == 0);
    CHECK("a string is heard", command_send(&a, LONG_MS, "ECHO", "hello", NULL) == 0);
    CHECK("... as it is", strcmp(a.command.text, "hello") == 0 && a.command.n == 0);
    CHECK("nil is heard", command_send(&a, LONG_MS, "GET", "nothing", NULL) == 0);
    CHECK("... as nothing", a.command.text[0] == '\0' && a.command.n == 0);
    CHECK("an array is heard",
          command_send(&a, LONG_MS, "EVAL", "return {1,-2,9007199254740992}", "0", NULL) == 0);
    CHECK("... all of it", a.command.n == 3 && a.command.number[0] == 1 &&
                               a.command.number[1] == -2 &&
                               a.command.number[2] == INT64_C(9007199254740992));
    CHECK("an empty array is heard",
          command_send(&a, LONG_MS, "EVAL", "return {}", "0", NULL) == 0);
    CHECK("... as nothing", a.command.n == 0);
    CHECK("what is longer than the place for it is cut",
          command_send(&a, LONG_MS, "EVAL", "return string.rep('x', 60000)", "0", NULL) == 0 &&
              strlen(a.command.text) == WEIR__REPLY_TEXT - 1);
    CHECK("nothing failed so far", atomic_load(&stage.failures) == 0);
    CHECK("an error is an error",
          command_send(&a, LONG_MS, "EVAL", "return redis.error_reply('WEIRFORM no')", "0", NULL) ==
              WEIR_EIO);
    CHECK("... with its text", strncmp(a.command.text, "WEIRFORM no", 11) == 0);
    CHECK("... and a script's own is no failure", atomic_load(&stage.failures) == 0);
    CHECK("one of Redis's is an error",
          command_send(&a, LONG_MS, "EVAL", "return redis.error_reply('OOM no')", "0", NULL) ==
              WEIR_EIO);
    CHECK("... and a failure",
          atomic_load(&stage.failures) == 1 && strncmp(stage.last_failure, "OOM no", 6) == 0);
    CHECK("the connection is still the same", command_send(&a, LONG_MS, "PING", NULL) == 0 &&
                                                  weir__pipeline_epoch(stage.pipeline) == 1);
}

/* ---- Many ------------------------------------------------------------------------------------ */

static void *hammer(void *number)
{
    const int me = (int)(intptr_t)number;
    char key[32], mark[64];
    struct test_command a;
    bool good = true;

    (void)snprintf(key, sizeof key, "crowd:%d", me);
    for (int i = 1; good && i <= EACH; i++) {
        if (i % 2 == 0) {
            (void)snprintf(mark, sizeof mark, "%d of %d", i, me);
            good = command_send(&a, LONG_MS, "ECHO", mark, NULL) == 0 &&
                   strcmp(a.command.text, mark) == 0;
        } else {
            good = command_send(&a, LONG_MS, "INCRBY", key, "3", NULL) == 0 && a.command.n == 1 &&
                   a.command.number[0] == (i + 1) / 2 * 3;
        }
    }
    CHECK("a thread among others gets its own answers", good);
    return NULL;
}

void eight_threads_each_get_their_own(void)
{
    in_threads(THREADS, hammer);
    CHECK("one connection was enough", weir__pipeline_epoch(stage.pipeline) == 1);
    CHECK("nothing failed", atomic_load(&stage.failures) == 0);
}

static void *pipe64(void *number)
{
    const int me = (int)(intptr_t)number;
    struct test_command *a = calloc(64, sizeof *a);
    char key[32], mark[64];
    bool good = true;

    (void)snprintf(key, sizeof key, "pipe:%d", me);
    for (int round = 0; good && round < EACH / 64; round++) {
        for (int i = 0; i < 64; i++) {
            (void)snprintf(mark, sizeof mark, "%d %d %d", me, round, i);
            if (i % 3 == 0)
                command_make(&a[i], LONG_MS, "INCR", key, NULL);
            else
                command_make(&a[i], LONG_MS, "ECHO", mark, NULL);
        }
        command_await(a, 64);
        for (int i = 0; i < 64; i++) {
            (void)snprintf(mark, sizeof mark, "%d %d %d", me, round, i);
            good = good && a[i].command.error == 0 &&
                   (i % 3 == 0 ? a[i].command.number[0] == round * 22 + i / 3 + 1
                               : strcmp(a[i].command.text, mark) == 0);
        }
    }
    CHECK("a pipeline's answers are in its order", good);
    free(a);
    return NULL;
}

void pipelines_of_64_keep_their_order(void)
{
    in_threads(1, pipe64);
    {
        struct test_command a;

        CHECK("the keys are gone", command_send(&a, LONG_MS, "DEL", "pipe:0", NULL) == 0);
    }
    in_threads(THREADS, pipe64);
    CHECK("nothing failed", atomic_load(&stage.failures) == 0);
}

/* ---- Scripts --------------------------------------------------------------------------------- */

/* A request without a version: the script of the mask refuses it, once it is loaded. */
static void make_scripted(struct test_command *a, unsigned mask)
{
    char blob[24 + 80 + 1];

    memset(blob, 'x', sizeof blob - 1);
    blob[sizeof blob - 1] = '\0';
    command_make(a, LONG_MS, "EVALSHA", weir__scripts[mask].sha, "1", "k", blob, NULL);
    a->command.script = mask;
}

static bool was_decided(const struct test_command *a)
{
    return a->command.error == WEIR_EIO && strncmp(a->command.text, "WEIR", 4) == 0;
}

static void *flushed(void *number)
{
    const int me = (int)(intptr_t)number;
    struct test_command *a = calloc(16, sizeof *a);
    bool good = true;

    for (int round = 0; good && round < 200; round++) {
        for (int i = 0; i < 16; i++)
            make_scripted(&a[i], i % 2 ? 1 : 2);
        if (me == 0 && round % 10 == 0)
            command_make(&a[7], LONG_MS, "SCRIPT", "FLUSH", NULL);
        command_await(a, 16);
        for (int i = 0; i < 16; i++)
            good = good && (was_decided(&a[i]) || (i == 7 && me == 0 && a[i].command.error == 0));
    }
    CHECK("every command was decided by its script", good);
    free(a);
    return NULL;
}

void scripts_that_are_flushed_are_loaded_again(void)
{
    struct test_command a;

    make_scripted(&a, 1);
    command_await(&a, 1);
    CHECK("a script that is not there is loaded", was_decided(&a));
    CHECK("... at the first try", a.command.repeats == 1);
    make_scripted(&a, 1);
    command_await(&a, 1);
    CHECK("... once", was_decided(&a) && a.command.repeats == 0);
    in_threads(4, flushed);
    CHECK("nothing failed", atomic_load(&stage.failures) == 0);
    CHECK("the connection is still the same", weir__pipeline_epoch(stage.pipeline) == 1);
}

/* pipelines.py logs in with an account that may not use SCRIPT. */
void a_script_that_may_not_be_loaded_is_an_error(void)
{
    struct test_command a[4];

    for (int i = 0; i < 4; i++)
        make_scripted(&a[i], 3);
    command_await(a, 4);
    for (int i = 0; i < 4; i++)
        CHECK("the error is what the load met",
              a[i].command.error == WEIR_EIO && strncmp(a[i].command.text, "NOPERM", 6) == 0);
    CHECK("it is a failure", atomic_load(&stage.failures) > 0);
    CHECK("other calls pass", command_send(&a[0], LONG_MS, "PING", NULL) == 0);
}

/* ---- To greet -------------------------------------------------------------------------------- */

void a_greeting_that_is_refused_says_why(void)
{
    struct test_command a;

    CHECK("there is no answer", command_send(&a, LONG_MS, "INCR", "leak", NULL) == WEIR_EDOWN);
    CHECK("it says why", strncmp(a.command.text, "WRONGPASS", 9) == 0 ||
                             strncmp(a.command.text, "NOAUTH", 6) == 0 ||
                             strncmp(a.command.text, "ERR", 3) == 0);
    CHECK("it is a failure",
          atomic_load(&stage.failures) == 1 && strcmp(stage.last_failure, a.command.text) == 0);
    (void)command_send(&a, LONG_MS, "INCR", "leak", NULL);
    CHECK("the next command tries again", weir__pipeline_epoch(stage.pipeline) == 2);
}

void the_greeting_logs_in_and_selects(void)
{
    struct test_command a;

    CHECK("it is answered", command_send(&a, LONG_MS, "CLIENT", "GETNAME", NULL) == 0);
    CHECK("the connection has a name", strcmp(a.command.text, "weir") == 0);
    CHECK("what was kept in that database is there",
          command_send(&a, LONG_MS, "GET", "where", NULL) == 0);
    CHECK("... and only there", strcmp(a.command.text, "here") == 0);
    CHECK("the user is the one",
          command_send(&a, LONG_MS, "ACL", "WHOAMI", NULL) == 0 &&
              strcmp(a.command.text, stage.address.user[0] ? stage.address.user : "default") == 0);
}

/* ---- A loop ---------------------------------------------------------------------------------- */

static int told, told_badly, chain, chained;

static void submit_with_done(int number);

static void count_done(struct weir__command *c)
{
    told++;
    if (chain > 0) {
        chain--;
        submit_with_done(++chained); /* from within */
    }
    told_badly += c->error != 0 || c->n != 1 || c->number[0] != (int64_t)(intptr_t)c->arg;
    memset(c, 0x5a, sizeof *c); /* it is ours from now on */
    free(c);
}

/* Until `enough` commands are done, as an event loop would. */
static void loop_until(int enough)
{
    while (told < enough) {
        struct pollfd p = {.fd = weir__pipeline_fd(stage.pipeline),
                           .events = weir__pipeline_events(stage.pipeline)};
        const int64_t left = weir__pipeline_deadline(stage.pipeline) - now_ns();

        if (left > 0)
            (void)poll(&p, 1, left > 60000 * MS ? 60000 : (int)(left / MS + 1));
        weir__pipeline_step(stage.pipeline);
    }
}

static void submit_with_done(int number)
{
    struct test_command *a = calloc(1, sizeof *a);
    struct weir__command *c = &a->command;

    command_make(a, LONG_MS, "INCR", "loop", NULL);
    c->done = count_done;
    c->arg = (void *)(intptr_t)number;
    if (!weir__pipeline_submit(stage.pipeline, &c, 1))
        exit(7);
}

void a_loop_steps_it(void)
{
    int n = 0;

    CHECK("before the first command there is nothing to wait for",
          weir__pipeline_fd(stage.pipeline) == -1 &&
              weir__pipeline_deadline(stage.pipeline) == INT64_MAX);
    for (int round = 0; round < 500; round++) {
        for (int i = 0; i < round % 64 + 1; i++)
            submit_with_done(++n);
        CHECK("what was submitted is due",
              weir__pipeline_deadline(stage.pipeline) == 0 || round == 0);
        if (round % 3 == 1) {
            const int before = told;

            weir__pipeline_flush(stage.pipeline);
            CHECK("to send finishes no command", told == before);
            CHECK("... and then it is sent", weir__pipeline_deadline(stage.pipeline) > 0);
        }
        loop_until(n - round % 7); /* some are left under way */
    }
    loop_until(n);
    CHECK("each was told its own number", told_badly == 0 && told == n);
    chain = 100;
    chained = n + 1;
    submit_with_done(chained);
    loop_until(n + 101);
    CHECK("one that is told may ask the next", told_badly == 0 && told == n + 101);
    CHECK("nothing is left to wait for", weir__pipeline_deadline(stage.pipeline) == INT64_MAX);
    CHECK("one connection was enough", weir__pipeline_epoch(stage.pipeline) == 1);
}

static void count_mine(struct weir__command *c)
{
    atomic_fetch_add((_Atomic int *)c->arg, 1);
    free(c);
}

static void *await_all_mine(void *unused)
{
    _Atomic int mine = 0;
    int n = 0;
    bool good = true;

    (void)unused;
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < round % 5; i++, n++) {
            struct test_command *a = calloc(1, sizeof *a);
            struct weir__command *c = &a->command;

            command_make(a, LONG_MS, "PING", NULL);
            c->done = count_mine;
            c->arg = (void *)&mine;
            if (!weir__pipeline_submit(stage.pipeline, &c, 1))
                exit(7);
        }
        weir__pipeline_await_all(stage.pipeline);
        good = good && atomic_load(&mine) == n;
    }
    CHECK("all own commands are done, whichever thread led", good);
    return NULL;
}

void commands_that_are_not_awaited_finish(void)
{
    int n = 0;

    weir__pipeline_await_all(stage.pipeline);
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 10; i++)
            submit_with_done(++n);
        weir__pipeline_await_all(stage.pipeline);
        CHECK("all that was submitted was told", told == n && told_badly == 0);
    }
    in_threads(THREADS, await_all_mine);
    submit_with_done(-1);
}

/* ---- Threads that end, processes that begin -------------------------------------------------- */

static void *wait_for_ever(void *unused)
{
    struct test_command *a = unused;

    (void)command_send(a, LONG_MS, "BRPOPLPUSH", "never", "gone", "0", NULL);
    return NULL;
}

void a_cancelled_thread_leaves_a_pipeline_that_works(void)
{
    struct test_command a[2] = {0};
    pthread_t one, two;

    CHECK("it is greeted", command_send(&a[0], LONG_MS, "PING", NULL) == 0);
    (void)pthread_create(&one, NULL, wait_for_ever, &a[0]);
    meet("driven");
    (void)pthread_create(&two, NULL, wait_for_ever, &a[1]);
    meet("followed");
    (void)pthread_cancel(one);
    (void)pthread_cancel(two);
    meet("cancelled"); /* pipelines.py pushes */
    while (!atomic_load(&a[0].command.finished) && !atomic_load(&a[1].command.finished))
        (void)sched_yield();
    meet("one");
    (void)pthread_join(one, NULL);
    (void)pthread_join(two, NULL);
    CHECK("their calls were answered all the same",
          a[0].command.error == 0 && a[1].command.error == 0 && strlen(a[0].command.text) == 3 &&
              strlen(a[1].command.text) == 3);
    CHECK("others are answered", command_send(&a[0], LONG_MS, "PING", NULL) == 0);
}

/* Redis's number of the connection. */
static int64_t connection_number(void)
{
    struct test_command a;

    return command_send(&a, LONG_MS, "CLIENT", "ID", NULL) == 0 ? a.command.number[0] : -1;
}

void a_child_has_a_connection_of_its_own(void)
{
    const int64_t number = connection_number();
    int status = -1;
    pid_t child;

    CHECK("the parent is answered", number > 0);
    child = fork();
    if (child == 0) {
        weir__pipeline_forked(stage.pipeline);
        _exit(connection_number() > number ? 0 : 1);
    }
    (void)waitpid(child, &status, 0);
    CHECK("the child is answered, through another connection",
          WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK("the parent still is, through its old one", connection_number() == number);
}

/* ---- While others are at it ------------------------------------------------------------------ */

static _Atomic bool enough;

static void *send_until_enough(void *number)
{
    char mark[32];
    struct test_command a;
    bool good = true;

    for (int i = 0; good && !atomic_load(&enough); i++) {
        (void)snprintf(mark, sizeof mark, "%d of %d", i, (int)(intptr_t)number);
        good =
            command_send(&a, LONG_MS, "ECHO", mark, NULL) == 0 && strcmp(a.command.text, mark) == 0;
    }
    CHECK("all are answered", good);
    return NULL;
}

static void beside_others(void (*what)(void))
{
    pthread_t thread[4];

    for (int i = 0; i < 4; i++)
        (void)pthread_create(&thread[i], NULL, send_until_enough, (void *)(intptr_t)i);
    what();
    atomic_store(&enough, true);
    for (int i = 0; i < 4; i++)
        (void)pthread_join(thread[i], NULL);
    CHECK("nothing failed", atomic_load(&stage.failures) == 0);
    CHECK("one connection was enough", weir__pipeline_epoch(stage.pipeline) == 1);
}

static void fork_often(void)
{
    struct test_command a;

    for (int i = 0; i < 50; i++) {
        int status = -1;
        const pid_t child = fork();

        if (child == 0) {
            weir__pipeline_forked(stage.pipeline);
            _exit(command_send(&a, LONG_MS, "ECHO", "child", NULL) == 0 &&
                          strcmp(a.command.text, "child") == 0
                      ? 0
                      : 1);
        }
        (void)waitpid(child, &status, 0);
        CHECK("a child is answered, whatever its parent was doing",
              WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

void children_begin_while_others_ask(void)
{
    if (!UNDER_ASAN) /* its allocator may be locked by a thread that the child does not have */
        beside_others(fork_often);
}

static void ignore(int number)
{
    (void)number;
}

static void be_interrupted(void)
{
    const struct itimerval often = {{0, 200}, {0, 200}}, never = {0};
    const struct sigaction handler = {.sa_handler = ignore}; /* calls are not restarted */
    const int64_t until = now_ns() + 500 * MS;
    struct test_command a;

    (void)sigaction(SIGALRM, &handler, NULL);
    (void)setitimer(ITIMER_REAL, &often, NULL);
    while (now_ns() < until)
        CHECK("it is answered", command_send(&a, LONG_MS, "PING", NULL) == 0);
    (void)setitimer(ITIMER_REAL, &never, NULL);
}

void signals_disturb_no_caller(void)
{
    beside_others(be_interrupted);
}
