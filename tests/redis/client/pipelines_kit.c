/* The kit of the pipeline scenes. See pipelines_kit.h. */
#include "pipelines_kit.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pipeline_stage stage = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static int passed, failed;

void check_that(bool holds, const char *sentence, const char *detail)
{
    (void)pthread_mutex_lock(&counting);
    if (holds)
        passed++;
    else if (++failed < 20)
        (void)printf("FAILED: %s\n  %s\n", sentence, detail);
    (void)pthread_mutex_unlock(&counting);
}

int64_t now_ns(void)
{
    return weir__clock_now();
}

void meet(const char *word)
{
    char line[64];

    (void)printf("ready %s\n", word);
    (void)fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        exit(2);
}

static void make(struct test_command *a, int timeout_ms, va_list words)
{
    const char *word[16];
    size_t at;
    int n = 0;

    while ((word[n] = va_arg(words, const char *)) != NULL)
        n++;
    at = (size_t)snprintf(a->bytes, sizeof a->bytes, "*%d\r\n", n);
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(a->bytes + at, sizeof a->bytes - at, "$%zu\r\n%s\r\n",
                               strlen(word[i]), word[i]);
    assert(at < sizeof a->bytes);
    a->command.bytes = a->bytes;
    a->command.len = at;
    a->command.script = 0;
    a->command.done = NULL;
    a->command.deadline_ns = now_ns() + timeout_ms * MS;
}

void command_make(struct test_command *a, int timeout_ms, ...)
{
    va_list words;

    va_start(words, timeout_ms);
    make(a, timeout_ms, words);
    va_end(words);
}

int command_send(struct test_command *a, int timeout_ms, ...)
{
    va_list words;

    va_start(words, timeout_ms);
    make(a, timeout_ms, words);
    va_end(words);
    command_await(a, 1);
    return a->command.error;
}

bool command_submit(struct test_command *a, size_t n)
{
    struct weir__command *c[64] = {0};

    assert(n <= 64);
    for (size_t i = 0; i < n; i++)
        c[i] = &a[i].command;
    return weir__pipeline_submit(stage.pipeline, c, n);
}

void command_await(struct test_command *a, size_t n)
{
    struct weir__command *c[64] = {0};

    if (!command_submit(a, n))
        exit(3);
    for (size_t i = 0; i < n; i++)
        c[i] = &a[i].command;
    weir__pipeline_await(stage.pipeline, c, n);
    for (size_t i = 0; i < n; i++)
        if (atomic_load(&c[i]->finished) != 1)
            exit(4);
}

void in_threads(int n, void *(*f)(void *number))
{
    pthread_t thread[16];

    assert(n <= 16);
    for (int i = 0; i < n; i++)
        if (pthread_create(&thread[i], NULL, f, (void *)(intptr_t)i) != 0)
            exit(5);
    for (int i = 0; i < n; i++)
        (void)pthread_join(thread[i], NULL);
}

/* ---- The stage ------------------------------------------------------------------------------- */

static void note_failure(void *arg, const char *why)
{
    struct pipeline_stage *s = arg;

    (void)pthread_mutex_lock(&s->lock);
    (void)snprintf(s->last_failure, sizeof s->last_failure, "%s", why);
    (void)pthread_mutex_unlock(&s->lock);
    atomic_fetch_add(&s->failures, 1);
}

static void give_address(void *arg, struct weir__address *a)
{
    *a = ((struct pipeline_stage *)arg)->address;
}

static const struct {
    const char *name;
    void (*play)(void);
} SCENES[] = {
#define SCENE(f) \
    {            \
#f, f    \
    }
    SCENE(it_answers_one_after_the_other),
    SCENE(it_hears_every_kind_of_reply),
    SCENE(eight_threads_each_get_their_own),
    SCENE(pipelines_of_64_keep_their_order),
    SCENE(scripts_that_are_flushed_are_loaded_again),
    SCENE(a_script_that_may_not_be_loaded_is_an_error),
    SCENE(a_greeting_that_is_refused_says_why),
    SCENE(the_greeting_logs_in_and_selects),
    SCENE(the_server_is_killed_and_comes_back),
    SCENE(the_server_stands_still),
    SCENE(no_server_answers),
    SCENE(a_sooner_deadline_is_kept),
    SCENE(what_is_no_reply_breaks_the_connection),
    SCENE(it_is_cut_in_the_midst_of_a_reply),
    SCENE(it_is_cut_again_and_again),
    SCENE(there_is_room_for_so_many),
    SCENE(a_loop_steps_it),
    SCENE(a_loop_hears_of_failure),
    SCENE(large_commands_pass_through_a_narrow_pipe),
    SCENE(a_cancelled_thread_leaves_a_pipeline_that_works),
    SCENE(a_child_has_a_connection_of_its_own),
    SCENE(children_begin_while_others_ask),
    SCENE(signals_disturb_no_caller),
    SCENE(commands_that_are_not_awaited_finish),
    SCENE(a_connection_that_was_closed_while_idle_is_replaced),
    SCENE(a_replica_is_left),
    SCENE(measure),
};

/* host=127.0.0.1 port=6379 user=u password=p db=1; a host with a slash is a socket. */
static void read_option(const char *word)
{
    struct weir__address *a = &stage.address;
    const char *value = strchr(word, '=');

    if (!value++)
        return;
    if (strncmp(word, "host=", 5) == 0)
        (void)snprintf(a->host, sizeof a->host, "%s", value);
    else if (strncmp(word, "port=", 5) == 0)
        a->port = atoi(value);
    else if (strncmp(word, "user=", 5) == 0)
        (void)snprintf(a->user, sizeof a->user, "%s", value);
    else if (strncmp(word, "password=", 9) == 0)
        (void)snprintf(a->password, sizeof a->password, "%s", value);
    else if (strncmp(word, "db=", 3) == 0)
        a->db = atoi(value);
    a->local = strchr(a->host, '/') != NULL;
}

int main(int argc, char **argv)
{
    const struct weir__pipeline_watch watch = {note_failure, give_address, &stage};
    bool found = false;

    (void)snprintf(stage.address.host, sizeof stage.address.host, "127.0.0.1");
    for (int i = 2; i < argc; i++)
        read_option(argv[i]);
    for (size_t i = 0; argc > 1 && i < sizeof SCENES / sizeof SCENES[0]; i++) {
        if (strcmp(argv[1], SCENES[i].name) != 0)
            continue;
        found = true;
        if (weir__pipeline_open(&stage.pipeline, &watch) != 0)
            return 6;
        SCENES[i].play();
        weir__pipeline_close(stage.pipeline);
    }
    (void)printf("counted %d %d\n", passed, failed);
    return failed > 0 || !found;
}
