/* How many commands a second a pipeline carries. pipelines.py --measure runs redis-benchmark as
 * well, and divides. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines_kit.h"

#define THREADS_MOST 16

static _Atomic long done, bad;
static int64_t until_ns;
static int batch;
static char bytes[4096];
static size_t len;

static void *pace(void *unused)
{
    struct weir__command *command = calloc((size_t)batch, sizeof *command);
    struct weir__command **c = calloc((size_t)batch, sizeof *c);
    long n = 0;

    (void)unused;
    for (int i = 0; i < batch; i++) {
        c[i] = &command[i];
        c[i]->bytes = bytes;
        c[i]->len = len;
    }
    while (now_ns() < until_ns) {
        const int64_t deadline = now_ns() + LONG_MS * MS;

        for (int i = 0; i < batch; i++)
            c[i]->deadline_ns = deadline;
        if (!weir__pipeline_submit(stage.pipeline, c, (size_t)batch))
            exit(8);
        weir__pipeline_await(stage.pipeline, c, (size_t)batch);
        for (int i = 0; i < batch; i++)
            atomic_fetch_add(&bad, c[i]->error != 0);
        n += batch;
    }
    atomic_fetch_add(&done, n);
    free(c);
    free(command);
    return NULL;
}

static void read_hex(const char *hex)
{
    unsigned byte;

    for (len = 0; len < sizeof bytes && sscanf(hex + 2 * len, "%2x", &byte) == 1; len++)
        bytes[len] = (char)byte;
}

/* For each line "THREADS BATCH MILLISECONDS COMMAND_IN_HEX": "pace CALLS_PER_SECOND". */
void measure(void)
{
    char hex[2 * sizeof bytes + 1];
    int threads, ms;

    while (scanf("%d %d %d %8192s", &threads, &batch, &ms, hex) == 4 && threads <= THREADS_MOST) {
        const int64_t began = now_ns();

        read_hex(hex);
        until_ns = began + ms * MS;
        atomic_store(&done, 0);
        in_threads(threads, pace);
        (void)printf("pace %.0f\n", (double)atomic_load(&done) * 1e9 / (double)(now_ns() - began));
        (void)fflush(stdout);
    }
    CHECK("no command failed", atomic_load(&bad) == 0);
}
