/* Records the functions that a program enters and leaves, for scripts/hops.py: gcc's
 * -finstrument-functions calls the two functions below. At the end of the program the last ROOM
 * events are written to the file that WEIR_HOPS names: "THREAD > ADDRESS" and "THREAD < ADDRESS".
 */
#include <stdio.h>
#include <stdlib.h>

#define ROOM  (4u << 20)
#define QUIET __attribute__((no_instrument_function))

struct event {
    void *function;
    int thread;
    char what; /* '>' entered, '<' left */
};

static struct event *events; /* NULL: nothing is recorded */
static unsigned recorded;
static int threads;
static __thread int thread; /* from 1 */

QUIET static void record(void *function, char what)
{
    unsigned i;

    if (!events)
        return;
    if (thread == 0)
        thread = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    i = __atomic_fetch_add(&recorded, 1, __ATOMIC_RELAXED);
    events[i % ROOM] = (struct event){function, thread, what};
}

QUIET void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    record(function, '>');
}

QUIET void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)caller;
    record(function, '<');
}

__attribute__((constructor)) QUIET static void trace_begin(void)
{
    if (getenv("WEIR_HOPS"))
        events = calloc(ROOM, sizeof *events);
}

__attribute__((destructor)) QUIET static void trace_end(void)
{
    FILE *file = events ? fopen(getenv("WEIR_HOPS"), "w") : NULL;

    if (!file)
        return;
    for (unsigned i = recorded > ROOM ? recorded - ROOM : 0; i < recorded; i++) {
        const struct event *e = &events[i % ROOM];

        (void)fprintf(file, "%d %c %p\n", e->thread, e->what, e->function);
    }
    (void)fclose(file);
}
