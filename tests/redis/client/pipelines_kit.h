/* What the scenes of the pipelines share: a pipeline to a server that pipelines.py has started,
 * commands, and counting.
 *
 * A scene and pipelines.py take turns: the scene says `ready` and waits, pipelines.py does
 * something to the server and says go. So nothing sleeps to let something else happen.
 */
#ifndef WEIR_TESTS_REDIS_PIPELINES_KIT_H
#define WEIR_TESTS_REDIS_PIPELINES_KIT_H

#include <pthread.h>
#include <stdatomic.h>

#include "os/clock.h"
#include "redis/client/pipeline.h"

#define MS WEIR__NS_PER_MS

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define ROOMY 10
#else
#define ROOMY 1
#endif
#define SLACK_NS (ROOMY * 40 * MS) /* how late a busy machine may be */
#define LONG_MS  (20 * 1000)       /* a deadline that is not to be met */

struct pipeline_stage {
    struct weir__address address;
    struct weir__pipeline *pipeline;
    _Atomic int failures;
    pthread_mutex_t lock;
    char last_failure[WEIR__REPLY_TEXT];
};

/* A command with its bytes. */
struct test_command {
    struct weir__command command;
    char bytes[480];
};

extern struct pipeline_stage stage;

/* Counts; the sentence is printed if it does not hold. */
void check_that(bool holds, const char *sentence, const char *detail);
#define CHECK(sentence, holds) check_that((holds), (sentence), #holds)

/* The words of a command, the last followed by NULL. */
void command_make(struct test_command *a, int timeout_ms, ...);
/* Makes, submits, awaits. Returns the command's error. */
int command_send(struct test_command *a, int timeout_ms, ...);
/* A submit that must find room, and an await. */
void command_await(struct test_command *a, size_t n);
bool command_submit(struct test_command *a, size_t n);

int64_t now_ns(void);
/* `ready WORD`, and waits for pipelines.py. */
void meet(const char *word);

/* Each of n threads runs f with its number from 0. */
void in_threads(int n, void *(*f)(void *number));

/* The scenes; see the table in pipelines.c. */
void it_answers_one_after_the_other(void);
void it_hears_every_kind_of_reply(void);
void eight_threads_each_get_their_own(void);
void pipelines_of_64_keep_their_order(void);
void scripts_that_are_flushed_are_loaded_again(void);
void a_script_that_may_not_be_loaded_is_an_error(void);
void a_greeting_that_is_refused_says_why(void);
void the_greeting_logs_in_and_selects(void);
void the_server_is_killed_and_comes_back(void);
void the_server_stands_still(void);
void no_server_answers(void);
void a_sooner_deadline_is_kept(void);
void what_is_no_reply_breaks_the_connection(void);
void it_is_cut_in_the_midst_of_a_reply(void);
void it_is_cut_again_and_again(void);
void there_is_room_for_so_many(void);
void a_loop_steps_it(void);
void a_loop_hears_of_failure(void);
void large_commands_pass_through_a_narrow_pipe(void);
void a_cancelled_thread_leaves_a_pipeline_that_works(void);
void a_child_has_a_connection_of_its_own(void);
void children_begin_while_others_ask(void);
void signals_disturb_no_caller(void);
void commands_that_are_not_awaited_finish(void);
void a_connection_that_was_closed_while_idle_is_replaced(void);
void a_replica_is_left(void);
void measure(void);

#endif
