/* Reads the load of this process's machine and container on Linux.
 *
 * A service is bounded by its container, not by its host: with a quota of two processors, a service
 * that keeps two busy has no more, whatever sixty others do. So this file looks for the control
 * group that bounds us, from our own up to the root, and reads its numbers: version 2 where it is
 * mounted (cpu.stat, cpu.max, cpuset.cpus.effective, memory.current, memory.max, cpu.pressure),
 * else version 1 (cpuacct.usage, cpu.cfs_quota_us, cpuset.cpus, memory.usage_in_bytes,
 * memory.limit_in_bytes). If no group bounds us, the machine does: /proc/stat and /proc/meminfo.
 *
 * Invariants:
 *   (1) Among the groups on our way to the root, the one with the lowest quota counts. The usage
 *       that is compared with a quota is that of the same group, because what our neighbours in the
 *       group use is not left for us. A set of processors works the same way: it belongs to the
 *       highest group that has exactly these processors.
 *   (2) For memory, the fullest group on our way counts, relative to its own limit: the kernel
 *       kills there first. A limit that is at least the machine's memory bounds no group.
 *   (3) If our group lacks a controller (systemd gives few to a session), the nearest group above
 *       that has it bounds us.
 *   (4) If /proc/self/cgroup names a path that does not exist, we are in a container that sees only
 *       its own part of the hierarchy: then the mount itself is our group.
 *   (5) Inactive page cache does not count as memory in use: the kernel frees it on demand.
 *   (6) A file that is missing, or that we do not understand, gives a number that is not known.
 */
#include "os/load.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX       16384
#define STAT_MAX       65536                  /* a line for each processor */
#define NS_PER_TICK    (WEIR__NS_PER_S / 100) /* USER_HZ is 100 for all programs, on all machines */
#define NO_LIMIT_BYTES (INT64_C(1) << 60)     /* version 1 says "none" by a number near 2^63 */
#define LEVELS_MAX     64

/* ---- Files --------------------------------------------------------------------------------- */

/* Reads the whole file, NUL-terminated and cut at cap - 1; false if there is none. */
static bool load_read_text(const char *dir, const char *name, char *text, size_t cap)
{
    char path[WEIR__GAUGE_PATH + 64];
    size_t len = 0;
    ssize_t got = 0;
    int fd;

    if (dir[0] == '\0' || snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        return false;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    while (len < cap - 1 && (got = read(fd, text + len, cap - 1 - len)) > 0)
        len += (size_t)got;
    (void)close(fd);
    text[len] = '\0';
    return got >= 0 && len > 0;
}

static bool load_file_exists(const char *dir, const char *name)
{
    char byte[2];

    return load_read_text(dir, name, byte, sizeof byte);
}

/* The whole number at `at`; -1 if there is none, or if it is too large. *end points behind it. */
static int64_t number_at(const char *at, const char **end)
{
    int64_t n = 0;
    bool any = false;

    while (*at == ' ' || *at == '\t')
        at++;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (n > (INT64_MAX - 9) / 10)
            return -1;
        n = n * 10 + (*at - '0');
        any = true;
    }
    if (end)
        *end = at;
    return any ? n : -1;
}

/* The same with three decimals, in thousandths: "24.34" is 24340. */
static int64_t thousandths_at(const char *at)
{
    const char *dot;
    const int64_t whole = number_at(at, &dot);
    int64_t part = 0, unit = 100;

    if (whole < 0 || whole > INT64_MAX / 2000)
        return -1;
    if (*dot == '.')
        for (dot++; *dot >= '0' && *dot <= '9' && unit > 0; dot++, unit /= 10)
            part += (*dot - '0') * unit;
    return whole * 1000 + part;
}

/* The text after the name at the start of a line; NULL if no line starts with the name. */
static const char *line_after(const char *text, const char *name)
{
    const size_t len = strlen(name);

    while (text) {
        if (strncmp(text, name, len) == 0)
            return text + len;
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return NULL;
}

/* -1: no such file, or no number. */
static int64_t load_read_number(const char *dir, const char *name)
{
    char text[64];

    return load_read_text(dir, name, text, sizeof text) ? number_at(text, NULL) : -1;
}

static int64_t read_line_number(const char *dir, const char *name, const char *line)
{
    char text[TEXT_MAX];
    const char *at = load_read_text(dir, name, text, sizeof text) ? line_after(text, line) : NULL;

    return at ? number_at(at, NULL) : -1;
}

/* ---- Quotas -------------------------------------------------------------------------------- */

static int64_t quota_of(int64_t quota_us, int64_t period_us)
{
    if (quota_us <= 0 || period_us <= 0 || quota_us > INT64_MAX / 1000)
        return INT64_MAX;
    return weir__max(1, quota_us * 1000 / period_us);
}

/* The quota in thousandths of a processor; INT64_MAX: none. */
static int64_t read_quota(const struct weir__gauge *g, const char *dir)
{
    char text[64];
    const char *rest = NULL;
    int64_t quota_us;

    if (!g->unified)
        return quota_of(load_read_number(dir, "cpu.cfs_quota_us"),
                        load_read_number(dir, "cpu.cfs_period_us"));
    if (!load_read_text(dir, "cpu.max", text, sizeof text))
        return INT64_MAX;
    quota_us = number_at(text, &rest); /* "max 100000" has none */
    return quota_us < 0 ? INT64_MAX : quota_of(quota_us, number_at(rest, NULL));
}

/* The number of processors in a list such as 0-3,7. */
static int64_t count_list(const char *at)
{
    int64_t n = 0;

    for (;;) {
        const int64_t from = number_at(at, &at);
        const int64_t to = *at == '-' ? number_at(at + 1, &at) : from;

        if (from < 0 || to < from)
            return n;
        n += to - from + 1;
        if (*at++ != ',')
            return n;
    }
}

/* The set of processors, in thousandths of a processor; INT64_MAX: not known. */
static int64_t read_cpuset(const struct weir__gauge *g, const char *dir)
{
    char text[4096];
    const bool known = g->unified
                           ? load_read_text(dir, "cpuset.cpus.effective", text, sizeof text)
                           : load_read_text(dir, "cpuset.effective_cpus", text, sizeof text) ||
                                 load_read_text(dir, "cpuset.cpus", text, sizeof text);
    const int64_t n = known ? count_list(text) : 0;

    return n > 0 ? n * 1000 : INT64_MAX;
}

/* The limit in bytes; INT64_MAX: none. */
static int64_t read_memory_limit(const struct weir__gauge *g, const char *dir)
{
    const int64_t bytes =
        load_read_number(dir, g->unified ? "memory.max" : "memory.limit_in_bytes");

    return bytes <= 0 || bytes >= NO_LIMIT_BYTES ? INT64_MAX : bytes;
}

/* ---- Finding the groups -------------------------------------------------------------------- */

/* Whether a list such as cpu,cpuacct contains the word. */
static bool list_has(const char *list, size_t len, const char *word)
{
    const size_t n = strlen(word);

    for (const char *at = list; at + n <= list + len; at++)
        if ((at == list || at[-1] == ',') && memcmp(at, word, n) == 0 &&
            (at + n == list + len || at[n] == ','))
            return true;
    return false;
}

/* Our path in the hierarchy of a controller ("" for the unified one), from /proc/self/cgroup: lines
 * of "number:controllers:path". Also the controllers, because the mount may be named after them. */
static bool find_path(const struct weir__gauge *g, const char *controller, char *mount, char *path)
{
    char text[TEXT_MAX];

    if (!load_read_text(g->proc, "self/cgroup", text, sizeof text))
        return false;
    for (char *line = text, *next; line && *line; line = next) {
        char *list, *at;

        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        list = strchr(line, ':');
        at = list ? strchr(list + 1, ':') : NULL;
        if (!at)
            continue;
        if (controller[0] == '\0' ? at != list + 1
                                  : !list_has(list + 1, (size_t)(at - list - 1), controller))
            continue;
        *at = '\0';
        (void)snprintf(mount, WEIR__GAUGE_PATH, "%s", list + 1);
        (void)snprintf(path, WEIR__GAUGE_PATH, "%s", strcmp(at + 1, "/") == 0 ? "" : at + 1);
        return true;
    }
    return false;
}

/* One group up; false at the mount. */
static bool cgroup_climb(char *dir, const char *root)
{
    char *slash = strrchr(dir, '/');

    if (!slash || strlen(dir) <= strlen(root))
        return false;
    *slash = '\0';
    return true;
}

/* The group of that path under the mount, or the nearest group above it, that has the file. If the
 * path does not exist, the search starts at the mount (invariant 4), and not at a group in it that
 * happens to have our name. */
static bool find_group_dir(char *out, const char *root, const char *mount, const char *path,
                           const char *file)
{
    char top[WEIR__GAUGE_PATH];

    if (snprintf(top, sizeof top, "%s%s%s", root, mount[0] ? "/" : "", mount) < (int)sizeof top) {
        if (snprintf(out, WEIR__GAUGE_PATH, "%s%s", top, path) >= WEIR__GAUGE_PATH ||
            access(out, F_OK) != 0)
            memcpy(out, top, sizeof top);
        do {
            if (load_file_exists(out, file))
                return true;
        } while (cgroup_climb(out, top));
    }
    out[0] = '\0';
    return false;
}

/* Our own group of a controller. */
static void find_group(const struct weir__gauge *g, const char *controller, const char *file,
                       char *out)
{
    char mount[WEIR__GAUGE_PATH], path[WEIR__GAUGE_PATH];

    out[0] = '\0';
    if (g->unified) {
        if (!find_path(g, "", mount, path))
            path[0] = '\0';
        (void)find_group_dir(out, g->cgroup, "", path, file);
        return;
    }
    if (find_path(g, controller, mount, path) && !find_group_dir(out, g->cgroup, mount, path, file))
        (void)find_group_dir(out, g->cgroup, controller, path, file);
}

static const char *usage_file(const struct weir__gauge *g)
{
    return g->unified ? "cpu.stat" : "cpuacct.usage";
}

/* Finds the group with the lowest quota, from our own group upwards. Version 1 counts usage in
 * another hierarchy, which has the same groups. */
static void find_quota(struct weir__gauge *g)
{
    char quota[WEIR__GAUGE_PATH], usage[WEIR__GAUGE_PATH];
    int64_t least = INT64_MAX;

    memcpy(quota, g->quota, sizeof quota);
    memcpy(usage, g->usage, sizeof usage);
    for (int level = 0; level < LEVELS_MAX; level++) {
        const int64_t milli = read_quota(g, quota);

        if (milli < least && load_file_exists(usage, usage_file(g))) {
            least = milli;
            memcpy(g->quota, quota, sizeof quota);
            memcpy(g->usage, usage, sizeof usage);
        }
        if (!cgroup_climb(quota, g->cgroup) || !cgroup_climb(usage, g->cgroup))
            return;
    }
}

/* Finds the highest group that has exactly our processors, from our own group upwards. */
static void find_cpuset(struct weir__gauge *g)
{
    const int64_t own = read_cpuset(g, g->cpuset);
    char set[WEIR__GAUGE_PATH], usage[WEIR__GAUGE_PATH];

    memcpy(set, g->cpuset, sizeof set);
    memcpy(usage, g->cpuset_usage, sizeof usage);
    while (cgroup_climb(set, g->cgroup) && cgroup_climb(usage, g->cgroup) &&
           read_cpuset(g, set) == own && load_file_exists(usage, usage_file(g))) {
        memcpy(g->cpuset, set, sizeof set);
        memcpy(g->cpuset_usage, usage, sizeof usage);
    }
}

void weir__gauge_find(struct weir__gauge *g, const char *proc, const char *cgroup)
{
    const char *const root = cgroup ? cgroup : "/sys/fs/cgroup";

    *g = (struct weir__gauge){.unified = load_file_exists(root, "cgroup.controllers")};
    (void)snprintf(g->proc, sizeof g->proc, "%s", proc ? proc : "/proc");
    (void)snprintf(g->cgroup, sizeof g->cgroup, "%s", root);
    find_group(g, "cpuacct", usage_file(g), g->usage);
    find_group(g, "cpu", g->unified ? "cpu.stat" : "cpu.cfs_quota_us", g->quota);
    find_group(g, "cpuset", g->unified ? "cpuset.cpus.effective" : "cpuset.cpus", g->cpuset);
    find_group(g, "memory", g->unified ? "memory.current" : "memory.usage_in_bytes", g->memory);
    if (g->unified)
        find_group(g, "cpu", "cpu.pressure", g->pressure);
    memcpy(g->cpuset_usage, g->unified ? g->cpuset : g->usage, sizeof g->cpuset_usage);
    find_quota(g);
    find_cpuset(g);
}

/* ---- Reading ------------------------------------------------------------------------------- */

/* The busy time of all processors, and their number. */
static bool read_machine(const struct weir__gauge *g, int64_t *used_ns, int64_t *cores_milli)
{
    char text[STAT_MAX];
    const char *at =
        load_read_text(g->proc, "stat", text, sizeof text) ? line_after(text, "cpu ") : NULL;
    int64_t busy = 0;

    /* user nice system idle iowait irq softirq steal; user already includes the time of guests. */
    for (int field = 0; at && field < 8; field++) {
        const int64_t ticks = number_at(at, &at);

        if (ticks < 0)
            break; /* an old kernel has fewer */
        busy += field == 3 || field == 4 ? 0 : ticks;
    }
    *cores_milli = 0;
    for (const char *line = at; line && (line = strstr(line, "\ncpu")); line++)
        *cores_milli += 1000;
    *used_ns = weir__mul_sat(busy, NS_PER_TICK);
    return at != NULL && *cores_milli > 0;
}

static int64_t read_usage_ns(const struct weir__gauge *g, const char *dir)
{
    const int64_t us = g->unified ? read_line_number(dir, "cpu.stat", "usage_usec ") : -1;

    if (g->unified)
        return us < 0 ? -1 : weir__mul_sat(us, 1000);
    return load_read_number(dir, "cpuacct.usage");
}

static void read_cpu(const struct weir__gauge *g, struct weir__reading *out)
{
    const int64_t quota = read_quota(g, g->quota), set = read_cpuset(g, g->cpuset);
    const int64_t bound = weir__min(quota, set);
    int64_t machine_milli = 0, container_ns;
    const bool machine = read_machine(g, &out->used_ns, &machine_milli);

    out->cpu_of = machine ? WEIR__CPU_MACHINE : WEIR__CPU_UNKNOWN;
    out->cores_milli = machine_milli;
    if (bound == INT64_MAX || (machine && bound >= machine_milli))
        return; /* the machine is the narrower */
    container_ns = read_usage_ns(g, set < quota ? g->cpuset_usage : g->usage);
    if (container_ns < 0)
        return;
    out->cpu_of = set < quota ? WEIR__CPU_SET : WEIR__CPU_CONTAINER;
    out->used_ns = container_ns;
    out->cores_milli = bound;
}

static int64_t load_share(int64_t part, int64_t whole)
{
    if (part < 0 || whole <= 0)
        return WEIR_NONE;
    return weir__min(1000, weir__mul_div(weir__min(part, whole), 1000, whole));
}

static int64_t read_group_memory(const struct weir__gauge *g, const char *dir, int64_t limit)
{
    const int64_t used =
        load_read_number(dir, g->unified ? "memory.current" : "memory.usage_in_bytes");
    const int64_t idle = read_line_number(dir, "memory.stat",
                                          g->unified ? "inactive_file " : "total_inactive_file ");

    return load_share(used - weir__max(0, weir__min(idle, used)), limit);
}

/* Whether a limit below `total` bounds us; *milli is then the share in use of the fullest group. */
static bool read_container_memory(const struct weir__gauge *g, int64_t total, int64_t *milli)
{
    char dir[WEIR__GAUGE_PATH];
    bool bound = false;

    *milli = WEIR_NONE;
    memcpy(dir, g->memory, sizeof dir);
    for (int level = 0; level < LEVELS_MAX; level++) {
        const int64_t limit = read_memory_limit(g, dir);

        if (limit < total) {
            bound = true;
            *milli = weir__max(*milli, read_group_memory(g, dir, limit));
        }
        if (!cgroup_climb(dir, g->cgroup))
            break;
    }
    return bound;
}

static int64_t read_memory(const struct weir__gauge *g)
{
    const int64_t total = read_line_number(g->proc, "meminfo", "MemTotal:");
    const int64_t available = read_line_number(g->proc, "meminfo", "MemAvailable:");
    int64_t milli;

    if (read_container_memory(g, total > 0 ? weir__mul_sat(total, 1024) : INT64_MAX, &milli))
        return milli;
    return available < 0 || total < available ? WEIR_NONE : load_share(total - available, total);
}

static int64_t read_load(const struct weir__gauge *g)
{
    char text[128];
    const int64_t milli =
        load_read_text(g->proc, "loadavg", text, sizeof text) ? thousandths_at(text) : -1;

    return milli < 0 ? WEIR_NONE : milli;
}

/* Reads "some avg10=24.34 ...", which is per cent, and returns thousandths: 243. */
static int64_t read_pressure(const struct weir__gauge *g)
{
    char text[512];
    const bool known = load_read_text(g->pressure, "cpu.pressure", text, sizeof text) ||
                       load_read_text(g->proc, "pressure/cpu", text, sizeof text);
    const char *at = known ? line_after(text, "some avg10=") : NULL;
    const int64_t percent_milli = at ? thousandths_at(at) : -1;

    return percent_milli < 0 ? WEIR_NONE : weir__min(1000, (percent_milli + 50) / 100);
}

void weir__gauge_read(const struct weir__gauge *g, struct weir__reading *out)
{
    *out = (struct weir__reading){0};
    read_cpu(g, out);
    out->memory_milli = read_memory(g);
    out->load_milli = read_load(g);
    out->pressure_milli = read_pressure(g);
}
