/* A team of threads that a test starts together; see thread_team.h. */
#include "thread_team.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend.h"

#define STUCK_S (UNDER_TSAN || UNDER_ASAN ? 240 : 80)

static pthread_barrier_t start;
static const char *doing;

static void on_alarm(int number)
{
    static const char said[] = ": stuck\n";

    (void)number;
    if (write(STDOUT_FILENO, doing, strlen(doing)) < 0 ||
        write(STDOUT_FILENO, said, sizeof said - 1) < 0)
        _exit(2);
    _exit(1);
}

static void *team_thread_main(void *arg)
{
    struct team_thread *me = arg;

    (void)pthread_barrier_wait(&start);
    me->work(me);
    return NULL;
}

static void add_up(struct team_thread *sum, const struct team_thread *one, uint64_t keys)
{
    sum->granted += one->granted;
    sum->returned += one->returned;
    sum->early += one->early;
    sum->errors += one->errors;
    for (uint64_t k = 0; k < keys; k++)
        sum->book[k] += one->book[k];
}

static int64_t *new_book(uint64_t keys)
{
    int64_t *book = keys > 0 ? calloc(keys, sizeof *book) : NULL;

    if (keys > 0 && !book)
        abort();
    return book;
}

void team_run(const char *name, void (*work)(struct team_thread *me), void *arg, uint64_t keys,
              struct team_thread *sum)
{
    struct team_thread hand[TEAM_SIZE];
    pthread_t thread[TEAM_SIZE];

    doing = name;
    (void)signal(SIGALRM, on_alarm);
    (void)alarm(STUCK_S);
    (void)pthread_barrier_init(&start, NULL, TEAM_SIZE);
    *sum = (struct team_thread){.book = new_book(keys)};
    for (int i = 0; i < TEAM_SIZE; i++) {
        hand[i] = (struct team_thread){.number = i,
                                       .random = (uint64_t)i + 1,
                                       .book = new_book(keys),
                                       .arg = arg,
                                       .work = work};
        if (pthread_create(&thread[i], NULL, team_thread_main, &hand[i]) != 0)
            abort();
    }
    for (int i = 0; i < TEAM_SIZE; i++) {
        (void)pthread_join(thread[i], NULL);
        add_up(sum, &hand[i], keys);
        free(hand[i].book);
    }
    (void)pthread_barrier_destroy(&start);
    (void)alarm(0);
}

/* splitmix64 */
uint64_t team_roll(struct team_thread *me, uint64_t n)
{
    uint64_t x = me->random += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (x ^ x >> 31) % n;
}
