/* Threads that begin together, each with its own random numbers and records. */
#ifndef WEIR_TESTS_ENGINE_THREAD_TEAM_H
#define WEIR_TESTS_ENGINE_THREAD_TEAM_H

#include <stdatomic.h>
#include <stdint.h>

#define TEAM_SIZE 8

struct team_thread {
    int number;
    uint64_t random;
    int64_t granted, returned; /* what it was given, and what it gave back */
    int64_t early;             /* refused because of what others owe in the key's cells */
    int errors;                /* calls that failed, answers that cannot be */
    int64_t *book;             /* per key, where a test asks for it */
    void *arg;
    void (*work)(struct team_thread *me);
};

/* Runs work in CREW threads, with `arg` for all and, if keys > 0, a book with a line for each key;
 * adds up into *sum (its book too, which the caller frees). A crew that does not end within a
 * minute or so (more under sanitizers) ends the program: it is stuck. */
void team_run(const char *name, void (*work)(struct team_thread *me), void *arg, uint64_t keys,
              struct team_thread *sum);

/* 0..n-1. */
uint64_t team_roll(struct team_thread *me, uint64_t n);

#endif
