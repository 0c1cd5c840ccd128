/* A service that is offered four times what it can do: without a guard, with bbr, and with gradient.
 *
 *     overload [SECONDS]       of each of the four scenes; 4 unless told
 *
 * It draws what became of the requests, row by row, and sums up. The service is in service.c, with the
 * few lines that guard it; its clients are in load.c.
 */
#include "overload.h"

#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 60 };

static const struct scene {
    const char *name, *limit;
    int percent; /* of what it can do */
} SCENES[] = {
    {"nearly what it can do, no guard", NULL, 90},
    {"4 times as much, no guard", NULL, 400},
    {"4 times as much, bbr", "bbr", 400},
    {"4 times as much, gradient", "gradient min=1 max=100", 400},
};
enum { SCENE_COUNT = sizeof SCENES / sizeof SCENES[0] };

/* From the second second on. */
struct sum {
    double served, refused, late; /* a second */
    double half_ms, most_ms;      /* of those served: the middle one, and the 99th of 100 */
};

void must(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "overload: not so: %s\n", what);
    exit(1);
}

/* ---- The picture --------------------------------------------------------------------------- */

static void draw_some(char mark, int n, int whole)
{
    for (int i = 0; i < n * WIDTH / whole; i++)
        putchar(mark);
}

static void draw(const struct result *r)
{
    const int whole = 4 * CAPACITY * ROW_MS / 1000;

    for (int i = 0; i < r->rows; i++) {
        const struct row *at = &r->row[i];

        printf("%5d ms  ", i * ROW_MS);
        draw_some('#', at->served, whole);
        draw_some('.', at->refused, whole);
        draw_some('x', at->late, whole);
        printf(" %d\n", at->served);
    }
}

static double ms_at(const struct result *r, int percent)
{
    return r->timed == 0 ? 0 : (double)r->took_ns[(r->timed - 1) * percent / 100] / (double)MS;
}

static struct sum sum_up(const struct result *r)
{
    const int first = 1000 / ROW_MS;
    const double seconds = (double)(r->rows - first) * ROW_MS / 1000;
    struct sum s = {.half_ms = ms_at(r, 50), .most_ms = ms_at(r, 99)};

    for (int i = first; i < r->rows; i++) {
        s.served += r->row[i].served / seconds;
        s.refused += r->row[i].refused / seconds;
        s.late += r->row[i].late / seconds;
    }
    return s;
}

/* ---- The scenes ---------------------------------------------------------------------------- */

static struct sum play(const struct scene *scene, int seconds)
{
    struct service *s = service_open(scene->limit);
    const int rate = CAPACITY * scene->percent / 100;
    struct result r;
    struct sum sum;

    printf("\n%s: %d requests a second\n\n", scene->name, rate);
    fflush(stdout);
    load_run(&r, service_port(s), rate, seconds);
    service_close(s);
    draw(&r);
    sum = sum_up(&r);
    free(r.took_ns);
    return sum;
}

int main(int argc, char **argv)
{
    const int seconds = argc > 1 ? atoi(argv[1]) : 4;
    struct sum sum[SCENE_COUNT];

    must(seconds >= 2 && seconds * 1000 / ROW_MS <= ROWS_MOST, "2 to 60 seconds are asked for");
    printf("# served within %d ms, . refused at once, x in vain; a row is %d ms\n", CLIENT_WAITS,
           ROW_MS);
    for (int i = 0; i < SCENE_COUNT; i++)
        sum[i] = play(&SCENES[i], seconds);
    printf("\nIt can do %d a second. %% is how much of that was served in time.\n\n", CAPACITY);
    printf("%-32s %8s %5s %9s %8s %8s %8s\n", "", "served", "%", "refused", "in vain", "half",
           "99%");
    for (int i = 0; i < SCENE_COUNT; i++)
        printf("%-32s %8.0f %4.0f%% %9.0f %8.0f %5.0f ms %5.0f ms\n", SCENES[i].name, sum[i].served,
               100 * sum[i].served / CAPACITY, sum[i].refused, sum[i].late, sum[i].half_ms,
               sum[i].most_ms);
    return 0;
}
