/* A service under four times the load it can handle: without a guard, with bbr, and with gradient.
 *
 *     overload [SECONDS]       for each of the four scenes, 2 to 60 (default 4)
 *
 * It draws the outcome of the requests, row by row, and sums up. The service is in service.c, with
 * the few lines that guard it; its clients are in load.c.
 *
 * bbr refuses calls while the processor is hot. The work of this service is sleep, so the program
 * sets the processor signal itself: otherwise bbr would see an idle machine, and do nothing.
 */
#include "overload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 60 };

static const struct scene {
    const char *name, *limit;
    int percent;   /* of its capacity */
    bool sets_cpu; /* the processor signal that the program sets matters */
} SCENES[] = {
    {"nearly what it can do, no guard", NULL, 90, false},
    {"4 times as much, no guard", NULL, 400, false},
    {"4 times as much, bbr", "bbr", 400, true},
    {"4 times as much, gradient", "gradient min=1 max=100", 400, false},
};
enum { SCENE_COUNT = sizeof SCENES / sizeof SCENES[0] };

/* Results, without the first second. */
struct sum {
    double served, refused, late; /* per second */
    double half_ms, most_ms;      /* latency of the served: median, and 99th percentile */
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

/* -1: no request was served. */
static double ms_at(const struct result *r, int percent)
{
    return r->timed == 0 ? -1 : (double)r->took_ns[(r->timed - 1) * percent / 100] / (double)MS;
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

    printf("\n%s: %d requests a second", scene->name, rate);
    if (scene->limit)
        printf(", behind '%s'", scene->limit);
    if (scene->sets_cpu)
        printf("\n(the work here is sleep: bbr gets a processor signal of %d%%, or it would refuse "
               "nothing)",
               SIGNAL_CPU);
    printf("\n\n");
    fflush(stdout);
    load_run(&r, service_port(s), rate, seconds);
    service_close(s);
    draw(&r);
    sum = sum_up(&r);
    free(r.took_ns);
    return sum;
}

static void print_ms(double ms)
{
    if (ms < 0)
        printf(" %8s", "-");
    else
        printf(" %5.0f ms", ms);
}

static void print_sums(const struct sum sum[SCENE_COUNT])
{
    printf(
        "\nRequests a second, from the second second on. It can do %d; %% is how much of that was\n"
        "served in time. Half of those served had their answer within the first time, and 99 of "
        "100\n"
        "within the second.\n\n",
        CAPACITY);
    printf("%-32s %8s %5s %9s %8s %8s %8s\n", "", "served", "%", "refused", "in vain", "half in",
           "99% in");
    for (int i = 0; i < SCENE_COUNT; i++) {
        printf("%-32s %8.0f %4.0f%% %9.0f %8.0f", SCENES[i].name, sum[i].served,
               100 * sum[i].served / CAPACITY, sum[i].refused, sum[i].late);
        print_ms(sum[i].half_ms);
        print_ms(sum[i].most_ms);
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    const bool help = argc > 1 && strcmp(argv[1], "--help") == 0;
    const int seconds = argc > 1 ? atoi(argv[1]) : 4;
    struct sum sum[SCENE_COUNT];

    if (argc > 2 || seconds < 2 || seconds > 60) {
        fprintf(
            help ? stdout : stderr,
            "usage: overload [SECONDS]\n\nSECONDS for each of the four scenes, 2 to 60 (default "
            "4).\n");
        return help ? 0 : 2;
    }
    printf("# served within %d ms (how many stands at the end of a row), . refused at once, x in "
           "vain;\n"
           "a row is %d ms\n",
           CLIENT_WAITS, ROW_MS);
    for (int i = 0; i < SCENE_COUNT; i++)
        sum[i] = play(&SCENES[i], seconds);
    print_sums(sum);
    return 0;
}
