/* What is read of the system, from trees that look like /proc and /sys/fs/cgroup; and what is made
 * of it. */
#include "engine_test.h"

#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/load.h"

#define FILES_MOST 16
#define NONE       WEIR_NONE
#define MS         INT64_C(1000000)

/* ---- Trees --------------------------------------------------------------------------------- */

static char root[64];

struct file {
    const char *path, *text;
};

/* The file, and the directories before it. */
static void plant(const struct file *f)
{
    char path[512];
    FILE *out;

    (void)snprintf(path, sizeof path, "%s/%s", root, f->path);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
    out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fputs(f->text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static int fell(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static void clear(void)
{
    if (root[0] != '\0')
        (void)nftw(root, fell, 16, FTW_DEPTH | FTW_PHYS);
}

static void begin_tree(void)
{
    clear();
    (void)snprintf(root, sizeof root, "/tmp/weir-gauge-XXXXXX");
    assert_non_null(mkdtemp(root));
}

static struct weir__reading read_tree(void)
{
    char proc[128], cgroup[128];
    struct weir__gauge g;
    struct weir__reading r;

    (void)snprintf(proc, sizeof proc, "%s/proc", root);
    (void)snprintf(cgroup, sizeof cgroup, "%s/cgroup", root);
    weir__gauge_find(&g, proc, cgroup);
    weir__gauge_read(&g, &r);
    return r;
}

#define STAT_4                                     \
    "cpu  1000 20 300 90000 500 10 70 100 400 0\n" \
    "cpu0 250 5 75 22500 125 3 18 25 100 0\n"      \
    "cpu1 250 5 75 22500 125 3 18 25 100 0\n"      \
    "cpu2 250 5 75 22500 125 2 17 25 100 0\n"      \
    "cpu3 250 5 75 22500 125 2 17 25 100 0\n"      \
    "intr 5 0 0\nctxt 7\nbtime 1700000000\nprocesses 10\n"
#define MEMINFO \
    "MemTotal:        1000000 kB\nMemFree:          100000 kB\nMemAvailable:     250000 kB\n"
#define STAT_4_NS (INT64_C(1500) * 10 * MS) /* all but idle and iowait */

static const struct {
    const char *sentence;
    struct file file[FILES_MOST];
    struct weir__reading read;
} TREES[] = {
    {"nothing is known of an empty tree", {{"proc/none", ""}}, {0, 0, 0, NONE, NONE, NONE}},
    {"the machine bounds a process that is in no group",
     {{"proc/stat", STAT_4},
      {"proc/meminfo", MEMINFO},
      {"proc/loadavg", "2.57 3.63 3.49 2/102 9\n"}},
     {WEIR__CPU_MACHINE, STAT_4_NS, 4000, 750, 2570, NONE}},
    {"pressure is that of the machine where groups have none",
     {{"proc/pressure/cpu",
       "some avg10=24.36 avg60=33.66 avg300=51.24 total=9\nfull avg10=0.00\n"}},
     {0, 0, 0, NONE, NONE, 244}},
    {"version 2: quota, usage, memory and pressure of our group",
     {{"proc/stat", STAT_4},
      {"proc/meminfo", MEMINFO},
      {"proc/pressure/cpu", "some avg10=99.00 avg60=0 avg300=0 total=9\n"},
      {"proc/self/cgroup", "0::/box\n"},
      {"cgroup/cgroup.controllers", "cpu memory\n"},
      {"cgroup/box/cpu.stat", "usage_usec 12345\nuser_usec 10000\n"},
      {"cgroup/box/cpu.max", "150000 100000\n"},
      {"cgroup/box/cpuset.cpus.effective", "0-3\n"},
      {"cgroup/box/memory.current", "600000\n"},
      {"cgroup/box/memory.max", "1000000\n"},
      {"cgroup/box/memory.stat", "anon 7\ninactive_anon 5\ninactive_file 100000\nfile 9\n"},
      {"cgroup/box/cpu.pressure", "some avg10=1.00 avg60=0.00 avg300=0.00 total=9\n"}},
     {WEIR__CPU_CONTAINER, 12345000, 1500, 500, NONE, 10}},
    {"a container that sees only its own part has the mount itself",
     {{"proc/self/cgroup", "0::/kubepods/pod7/c9\n"},
      {"cgroup/cgroup.controllers", "cpu memory\n"},
      {"cgroup/cpu.stat", "usage_usec 5\n"},
      {"cgroup/cpu.max", "50000 100000\n"},
      {"cgroup/memory.current", "900\n"},
      {"cgroup/memory.max", "1000\n"}},
     {WEIR__CPU_CONTAINER, 5000, 500, 900, NONE, NONE}},
    {"no quota, and all processors: the machine bounds us",
     {{"proc/stat", STAT_4},
      {"proc/self/cgroup", "0::/box\n"},
      {"cgroup/cgroup.controllers", "cpu\n"},
      {"cgroup/box/cpu.stat", "usage_usec 12345\n"},
      {"cgroup/box/cpu.max", "max 100000\n"},
      {"cgroup/box/cpuset.cpus.effective", "0-3\n"}},
     {WEIR__CPU_MACHINE, STAT_4_NS, 4000, NONE, NONE, NONE}},
    {"a quota wider than the machine is no bound",
     {{"proc/stat", STAT_4},
      {"proc/self/cgroup", "0::/box\n"},
      {"cgroup/cgroup.controllers", "cpu\n"},
      {"cgroup/box/cpu.stat", "usage_usec 12345\n"},
      {"cgroup/box/cpu.max", "800000 100000\n"}},
     {WEIR__CPU_MACHINE, STAT_4_NS, 4000, NONE, NONE, NONE}},
    {"some of the processors, and no quota",
     {{"proc/stat", STAT_4},
      {"proc/self/cgroup", "0::/box\n"},
      {"cgroup/cgroup.controllers", "cpu\n"},
      {"cgroup/box/cpu.stat", "usage_usec 12345\n"},
      {"cgroup/box/cpuset.cpus.effective", "0,2-3\n"}},
     {WEIR__CPU_SET, 12345000, 3000, NONE, NONE, NONE}},
    {"of the groups above us that with the least quota counts, with its own usage",
     {{"proc/stat", STAT_4},
      {"proc/self/cgroup", "0::/slice/service/worker\n"},
      {"cgroup/cgroup.controllers", "cpu\n"},
      {"cgroup/cpu.stat", "usage_usec 4000\n"},
      {"cgroup/slice/cpu.stat", "usage_usec 3000\n"},
      {"cgroup/slice/cpu.max", "300000 100000\n"},
      {"cgroup/slice/service/cpu.stat", "usage_usec 2000\n"},
      {"cgroup/slice/service/cpu.max", "100000 50000\n"},
      {"cgroup/slice/service/worker/cpu.stat", "usage_usec 1000\n"},
      {"cgroup/slice/service/worker/cpu.max", "max 100000\n"},
      {"cgroup/slice/memory.current", "10\n"},
      {"cgroup/slice/memory.max", "40\n"},
      {"cgroup/slice/service/worker/memory.current", "5\n"},
      {"cgroup/slice/service/worker/memory.max", "max\n"}},
     {WEIR__CPU_CONTAINER, 2000000, 2000, 250, NONE, NONE}},
    {"what our group has no controller for, the nearest above bounds",
     {{"proc/stat", STAT_4},
      {"proc/meminfo", MEMINFO},
      {"proc/self/cgroup", "0::/user/session/shell\n"},
      {"cgroup/cgroup.controllers", "cpu memory cpuset\n"},
      {"cgroup/cpu.stat", "usage_usec 4000\n"},
      {"cgroup/cpuset.cpus.effective", "0-3\n"},
      {"cgroup/cpu.pressure", "some avg10=9.00 avg60=0 avg300=0 total=9\n"},
      {"cgroup/user/cpu.stat", "usage_usec 3000\n"},
      {"cgroup/user/cpuset.cpus.effective", "0-1\n"},
      {"cgroup/user/memory.current", "900\n"},
      {"cgroup/user/memory.max", "1000\n"},
      {"cgroup/user/cpu.pressure", "some avg10=3.00 avg60=0 avg300=0 total=9\n"},
      {"cgroup/user/session/cpu.stat", "usage_usec 2000\n"},
      {"cgroup/user/session/shell/cpu.stat", "usage_usec 1000\n"}},
     {WEIR__CPU_SET, 3000000, 2000, 900, NONE, 30}},
    {"a group in a container's own part that is named as it is outside is not ours",
     {{"proc/self/cgroup", "0::/docker/c9\n"},
      {"cgroup/cgroup.controllers", "cpu memory\n"},
      {"cgroup/cpu.stat", "usage_usec 5\n"},
      {"cgroup/cpu.max", "50000 100000\n"},
      {"cgroup/memory.current", "900\n"},
      {"cgroup/memory.max", "1000\n"},
      {"cgroup/docker/cpu.stat", "usage_usec 1\n"},
      {"cgroup/docker/cpu.max", "10000 100000\n"},
      {"cgroup/docker/memory.current", "99\n"},
      {"cgroup/docker/memory.max", "100\n"}},
     {WEIR__CPU_CONTAINER, 5000, 500, 900, NONE, NONE}},
    {"of memory the fullest counts, be it above us and narrower",
     {{"proc/meminfo", MEMINFO},
      {"proc/self/cgroup", "0::/slice/box\n"},
      {"cgroup/cgroup.controllers", "memory\n"},
      {"cgroup/slice/memory.current", "1000\n"},
      {"cgroup/slice/memory.stat", "inactive_file 100\n"},
      {"cgroup/slice/memory.max", "1000\n"},
      {"cgroup/slice/box/memory.current", "800\n"},
      {"cgroup/slice/box/memory.max", "8000\n"}},
     {0, 0, 0, 900, NONE, NONE}},
    {"or above us and wider",
     {{"proc/meminfo", MEMINFO},
      {"proc/self/cgroup", "0::/slice/box\n"},
      {"cgroup/cgroup.controllers", "memory\n"},
      {"cgroup/slice/memory.current", "7800\n"},
      {"cgroup/slice/memory.max", "8000\n"},
      {"cgroup/slice/box/memory.current", "100\n"},
      {"cgroup/slice/box/memory.max", "1000\n"}},
     {0, 0, 0, 975, NONE, NONE}},
    {"or our own, whatever has no limit, or one wider than the machine, above it",
     {{"proc/meminfo", MEMINFO},
      {"proc/self/cgroup", "0::/all/slice/box\n"},
      {"cgroup/cgroup.controllers", "memory\n"},
      {"cgroup/all/memory.current", "999\n"},
      {"cgroup/all/memory.max", "max\n"},
      {"cgroup/all/slice/memory.current", "1023999999\n"},
      {"cgroup/all/slice/memory.max", "1024000000\n"},
      {"cgroup/all/slice/box/memory.current", "200\n"},
      {"cgroup/all/slice/box/memory.max", "1000\n"}},
     {0, 0, 0, 200, NONE, NONE}},
    {"a quota above us, fewer processors of our own: what we use of those",
     {{"proc/stat", STAT_4},
      {"proc/self/cgroup", "0::/slice/box\n"},
      {"cgroup/cgroup.controllers", "cpu cpuset\n"},
      {"cgroup/cpuset.cpus.effective", "0-3\n"},
      {"cgroup/slice/cpu.stat", "usage_usec 7000\n"},
      {"cgroup/slice/cpu.max", "300000 100000\n"},
      {"cgroup/slice/cpuset.cpus.effective", "0-3\n"},
      {"cgroup/slice/box/cpu.stat", "usage_usec 500\n"},
      {"cgroup/slice/box/cpu.max", "max 100000\n"},
      {"cgroup/slice/box/cpuset.cpus.effective", "0-1\n"}},
     {WEIR__CPU_SET, 500000, 2000, NONE, NONE, NONE}},
    {"a quota above us that is the narrower: what is used of that",
     {{"proc/stat", STAT_4},
      {"proc/self/cgroup", "0::/slice/box\n"},
      {"cgroup/cgroup.controllers", "cpu cpuset\n"},
      {"cgroup/slice/cpu.stat", "usage_usec 7000\n"},
      {"cgroup/slice/cpu.max", "150000 100000\n"},
      {"cgroup/slice/box/cpu.stat", "usage_usec 500\n"},
      {"cgroup/slice/box/cpuset.cpus.effective", "0-1\n"}},
     {WEIR__CPU_CONTAINER, 7000000, 1500, NONE, NONE, NONE}},
    {"processors that we share with the group above us are used by all of it",
     {{"proc/stat", STAT_4},
      {"proc/self/cgroup", "0::/slice/pod/box\n"},
      {"cgroup/cgroup.controllers", "cpu cpuset\n"},
      {"cgroup/slice/cpu.stat", "usage_usec 7000\n"},
      {"cgroup/slice/cpuset.cpus.effective", "0-2\n"},
      {"cgroup/slice/pod/cpu.stat", "usage_usec 2000\n"},
      {"cgroup/slice/pod/cpuset.cpus.effective", "0-1\n"},
      {"cgroup/slice/pod/box/cpu.stat", "usage_usec 500\n"},
      {"cgroup/slice/pod/box/cpuset.cpus.effective", "0-1\n"}},
     {WEIR__CPU_SET, 2000000, 2000, NONE, NONE, NONE}},
    {"version 1: a quota above us, fewer processors of our own, and the fullest memory",
     {{"proc/stat", STAT_4},
      {"proc/self/cgroup", "4:memory:/p/c\n3:cpuset:/p/c\n2:cpu,cpuacct:/p/c\n"},
      {"cgroup/cpu,cpuacct/p/cpuacct.usage", "888\n"},
      {"cgroup/cpu,cpuacct/p/cpu.cfs_quota_us", "300000\n"},
      {"cgroup/cpu,cpuacct/p/cpu.cfs_period_us", "100000\n"},
      {"cgroup/cpu,cpuacct/p/c/cpuacct.usage", "777\n"},
      {"cgroup/cpu,cpuacct/p/c/cpu.cfs_quota_us", "-1\n"},
      {"cgroup/cpuset/cpuset.cpus", "0-3\n"},
      {"cgroup/cpuset/p/cpuset.cpus", "0-3\n"},
      {"cgroup/cpuset/p/c/cpuset.cpus", "2-3\n"},
      {"cgroup/memory/p/memory.usage_in_bytes", "950\n"},
      {"cgroup/memory/p/memory.limit_in_bytes", "1000\n"},
      {"cgroup/memory/p/c/memory.usage_in_bytes", "100\n"},
      {"cgroup/memory/p/c/memory.limit_in_bytes", "2000\n"}},
     {WEIR__CPU_SET, 777, 2000, 950, NONE, NONE}},
    {"version 1, each controller in a hierarchy of its own",
     {{"proc/stat", STAT_4},
      {"proc/meminfo", MEMINFO},
      {"proc/self/cgroup", "4:memory:/m\n3:cpuset:/\n2:cpu,cpuacct:/a/b\n1:name=systemd:/\n0::/\n"},
      {"cgroup/cpu,cpuacct/a/b/cpuacct.usage", "777\n"},
      {"cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "200000\n"},
      {"cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n"},
      {"cgroup/cpuset/cpuset.cpus", "1\n"},
      {"cgroup/memory/m/memory.usage_in_bytes", "300\n"},
      {"cgroup/memory/m/memory.limit_in_bytes", "400\n"},
      {"cgroup/memory/m/memory.stat", "inactive_file 1\ntotal_inactive_file 100\n"}},
     {WEIR__CPU_SET, 777, 1000, 500, NONE, NONE}},
    {"version 1: links named after one controller, no quota, no limit",
     {{"proc/stat", STAT_4},
      {"proc/meminfo", MEMINFO},
      {"proc/self/cgroup", "2:cpuacct,cpu:/docker/77\n3:cpuset:/docker/77\n4:memory:/docker/77\n"},
      {"cgroup/cpuacct/cpuacct.usage", "777\n"},
      {"cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
      {"cgroup/cpu/cpu.cfs_period_us", "100000\n"},
      {"cgroup/cpuset/cpuset.cpus", "0-1\n"},
      {"cgroup/memory/memory.usage_in_bytes", "300\n"},
      {"cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"}},
     {WEIR__CPU_SET, 777, 2000, 750, NONE, NONE}},
    {"what is not a number is not known",
     {{"proc/stat", "cpu a b c\n"},
      {"proc/meminfo", "MemTotal: much\nMemAvailable: 5 kB\n"},
      {"proc/loadavg", "high\n"},
      {"proc/pressure/cpu", "some avg10=\n"},
      {"proc/self/cgroup", "nonsense\n::\n0:/\n"},
      {"cgroup/cgroup.controllers", "cpu\n"},
      {"cgroup/cpu.stat", "usage_usec 99999999999999999999999999\n"},
      {"cgroup/cpu.max", "-5 0\n"}},
     {0, 0, 0, NONE, NONE, NONE}},
};

static void each_tree_is_read_as_it_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(TREES); i++) {
        const struct weir__reading *want = &TREES[i].read;
        struct weir__reading r;

        print_message("  %s\n", TREES[i].sentence);
        begin_tree();
        for (size_t f = 0; f < FILES_MOST && TREES[i].file[f].path; f++)
            plant(&TREES[i].file[f]);
        r = read_tree();
        assert_int_equal(r.cpu_of, want->cpu_of);
        if (want->cpu_of != WEIR__CPU_UNKNOWN) {
            assert_int_equal(r.used_ns, want->used_ns);
            assert_int_equal(r.cores_milli, want->cores_milli);
        }
        assert_int_equal(r.memory_milli, want->memory_milli);
        assert_int_equal(r.load_milli, want->load_milli);
        assert_int_equal(r.pressure_milli, want->pressure_milli);
    }
    clear();
}

/* ---- What is made of readings -------------------------------------------------------------- */

static void usage_is_a_share_of_the_quota(void **state)
{
    static const struct {
        const char *sentence;
        struct weir__reading before, now;
        int64_t elapsed_ns, milli;
    } ROWS[] = {
        {"half of one", {2, 0, 1000, 0, 0, 0}, {2, 250 * MS, 1000, 0, 0, 0}, 500 * MS, 500},
        {"all of a half", {2, 0, 500, 0, 0, 0}, {2, 250 * MS, 500, 0, 0, 0}, 500 * MS, 1000},
        {"a quarter of four",
         {1, 7, 4000, 0, 0, 0},
         {1, 7 + 500 * MS, 4000, 0, 0, 0},
         500 * MS,
         250},
        {"never more than all",
         {2, 0, 1000, 0, 0, 0},
         {2, 900 * MS, 1000, 0, 0, 0},
         500 * MS,
         1000},
        {"a counter that went back", {2, 9, 1000, 0, 0, 0}, {2, 8, 1000, 0, 0, 0}, 500 * MS, NONE},
        {"another counter", {1, 0, 1000, 0, 0, 0}, {2, 9, 1000, 0, 0, 0}, 500 * MS, NONE},
        {"another group's", {2, 0, 1000, 0, 0, 0}, {3, 9, 1000, 0, 0, 0}, 500 * MS, NONE},
        {"nothing read", {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, 500 * MS, NONE},
        {"no time between", {2, 0, 1000, 0, 0, 0}, {2, 9, 1000, 0, 0, 0}, 0, NONE},
        {"the quota of now", {2, 0, 1000, 0, 0, 0}, {2, 500 * MS, 2000, 0, 0, 0}, 500 * MS, 500},
        {"years of many", {1, 0, 1, 0, 0, 0}, {1, INT64_MAX, INT64_MAX, 0, 0, 0}, 1 << 30, 0},
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        print_message("  %s\n", ROWS[i].sentence);
        assert_int_equal(weir__usage_between(&ROWS[i].before, &ROWS[i].now, ROWS[i].elapsed_ns),
                         ROWS[i].milli);
    }
}

static void means_arrive_where_samples_are(void **state)
{
    static const int64_t AT[] = {0, 1, 333, 799, 800, 999, 1000};

    (void)state;
    for (size_t from = 0; from < LENGTH(AT); from++)
        for (size_t to = 0; to < LENGTH(AT); to++) {
            struct weir__mean m = {0};

            weir__mean_add(&m, AT[from], 600);
            assert_int_equal(weir__mean_milli(&m), AT[from]);
            for (int i = 0; i < 600; i++)
                weir__mean_add(&m, AT[to], 1);
            assert_int_equal(weir__mean_milli(&m), AT[to]);
        }
}

static void means_move_by_a_twentieth(void **state)
{
    struct weir__mean m = {0}, many = {0};

    (void)state;
    weir__mean_add(&m, 1000, 1);
    assert_int_equal(weir__mean_milli(&m), 50);
    weir__mean_add(&m, 1000, 1);
    assert_int_equal(weir__mean_milli(&m), 98); /* 97.5 */
    weir__mean_add(&many, 1000, 2);
    assert_int_equal(many.scaled, m.scaled);
    weir__mean_add(&m, 1000, 30);
    assert_in_range(weir__mean_milli(&m), 805, 807); /* 0.95^32: over 80% after 16 seconds */
    weir__mean_add(&m, 0, INT64_MAX);
    assert_int_equal(weir__mean_milli(&m), 0);
}

/* ---- The sampler --------------------------------------------------------------------------- */

static const struct weir_signals NOTHING = {NONE, NONE, NONE, NONE};

static bool knows_within(struct weir__load *s, int ms)
{
    for (int i = 0; i < ms && weir__load_shown(s).load_milli == NONE; i++)
        (void)usleep(1000);
    return weir__load_shown(s).load_milli != NONE;
}

static void what_is_injected_stands_in_the_place_of_samples(void **state)
{
    struct weir__load s;

    (void)state;
    weir__load_init(&s);
    assert_int_equal(weir__load_shown(&s).cpu_milli, NONE);
    assert_int_equal(weir__load_inject(&s, &(struct weir_signals){850, 1, 2, 3}), 0);
    assert_int_equal(weir__load_want(&s), 0);
    assert_false(s.running); /* there is nothing to sample */
    assert_int_equal(weir__load_shown(&s).cpu_milli, 850);
    assert_int_equal(weir__load_shown(&s).memory_milli, 1);
    assert_int_equal(weir__load_shown(&s).load_milli, 2);
    assert_int_equal(weir__load_shown(&s).pressure_milli, 3);
    assert_int_equal(weir__load_inject(&s, &NOTHING), 0);
    assert_true(s.running);
    assert_int_equal(weir__load_want(&s), 0); /* once is enough */
    assert_true(access("/proc/loadavg", R_OK) != 0 || knows_within(&s, 30000));
    assert_int_equal(weir__load_inject(&s, &(struct weir_signals){NONE, NONE, 123456789, NONE}), 0);
    assert_int_equal(weir__load_shown(&s).load_milli, 123456789);
    weir__load_close(&s);
}

static void the_load_is_not_sampled_unasked(void **state)
{
    struct weir__load s;

    (void)state;
    weir__load_init(&s);
    assert_int_equal(weir__load_inject(&s, &NOTHING), 0);
    assert_false(s.running);
    weir__load_close(&s);
}

/* Of a child with one thread less. */
static void a_child_samples_for_itself_when_it_is_asked(void **state)
{
    struct weir__load s;
    pid_t child;
    int status = 1;

    (void)state;
    if (UNDER_TSAN) /* which knows no threads in the child of a program that had some */
        return;
    weir__load_init(&s);
    assert_int_equal(weir__load_want(&s), 0);
    (void)knows_within(&s, 30000);
    (void)pthread_mutex_lock(&s.lock);
    child = fork();
    if (child == 0) {
        const int64_t before = weir__load_shown(&s).load_milli;

        weir__load_forked(&s);
        if (s.running || !atomic_load(&s.missing) || weir__load_shown(&s).load_milli != before)
            _exit(2);
        if (weir__load_want(&s) != 0 || !s.running || atomic_load(&s.missing))
            _exit(3);
        weir__load_close(&s);
        _exit(0);
    }
    (void)pthread_mutex_unlock(&s.lock);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    weir__load_close(&s);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(each_tree_is_read_as_it_says),
    cmocka_unit_test(usage_is_a_share_of_the_quota),
    cmocka_unit_test(means_arrive_where_samples_are),
    cmocka_unit_test(means_move_by_a_twentieth),
    cmocka_unit_test(what_is_injected_stands_in_the_place_of_samples),
    cmocka_unit_test(the_load_is_not_sampled_unasked),
    cmocka_unit_test(a_child_samples_for_itself_when_it_is_asked),
};

RUN("gauges", TESTS)
