#include "hands.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "place.h"

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

static void *begin(void *arg)
{
    struct hand *me = arg;

    (void)pthread_barrier_wait(&start);
    me->work(me);
    return NULL;
}

static void add_up(struct hand *sum, const struct hand *one, uint64_t keys)
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

void crew_run(const char *name, void (*work)(struct hand *me), void *arg, uint64_t keys,
              struct hand *sum)
{
    struct hand hand[CREW];
    pthread_t thread[CREW];

    doing = name;
    (void)signal(SIGALRM, on_alarm);
    (void)alarm(STUCK_S);
    (void)pthread_barrier_init(&start, NULL, CREW);
    *sum = (struct hand){.book = new_book(keys)};
    for (int i = 0; i < CREW; i++) {
        hand[i] = (struct hand){
            .number = i, .dice = (uint64_t)i + 1, .book = new_book(keys), .arg = arg, .work = work};
        if (pthread_create(&thread[i], NULL, begin, &hand[i]) != 0)
            abort();
    }
    for (int i = 0; i < CREW; i++) {
        (void)pthread_join(thread[i], NULL);
        add_up(sum, &hand[i], keys);
        free(hand[i].book);
    }
    (void)pthread_barrier_destroy(&start);
    (void)alarm(0);
}

/* splitmix64 */
uint64_t crew_roll(struct hand *me, uint64_t n)
{
    uint64_t x = me->dice += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (x ^ x >> 31) % n;
}
