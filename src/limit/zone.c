/* Reads TZif files (RFC 8536), version 2 and later: 64-bit transition times, then a POSIX rule for
 * all time after the last of them.
 *
 * The file is the system's, but its name is the user's, and either may be damaged: every length is
 * checked against the size of the file, and a name may not lead out of the directory.
 */
#include "limit/zone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir.h>

#include "limit/calendar.h"

#define ZONE_DIR       "/usr/share/zoneinfo/"
#define FILE_MAX_BYTES 65536
#define CHANGES_MAX    4096

/* One half of a POSIX rule: on the week-th weekday of a month, at a time of day. */
struct zone_when {
    int kind; /* 'M', 'J' (1..365, February 29 never counted) or '0' (0..365) */
    int month, week, day;
    int64_t time_s;
};

struct zone_rule {
    bool seasons; /* else `standard` all year */
    int64_t standard, summer;
    struct zone_when to_summer, to_standard;
};

struct weir__zone {
    int64_t first_offset;
    struct zone_rule rule;
    int n;
    struct zone_change {
        int64_t at_s, offset;
    } change[];
};

/* ---- The POSIX rule: CET-1CEST,M3.5.0,M10.5.0/3 ------------------------------------------------
 */

struct zone_text {
    const char *at;
    bool bad;
};

static int64_t zone_read_number(struct zone_text *t, int64_t most)
{
    int64_t n = 0;
    int digits = 0;

    for (; *t->at >= '0' && *t->at <= '9' && digits < 4; t->at++, digits++)
        n = n * 10 + (*t->at - '0');
    t->bad = t->bad || digits == 0 || n > most;
    return n;
}

static bool zone_skip(struct zone_text *t, char c)
{
    if (*t->at != c)
        return false;
    t->at++;
    return true;
}

static int64_t zone_read_time(struct zone_text *t)
{
    const bool minus = zone_skip(t, '-');
    int64_t s;

    (void)zone_skip(t, '+');
    s = zone_read_number(t, 167) * 3600;

    if (zone_skip(t, ':'))
        s += zone_read_number(t, 59) * 60;
    if (zone_skip(t, ':'))
        s += zone_read_number(t, 59);
    return minus ? -s : s;
}

static void zone_skip_name(struct zone_text *t)
{
    const char *start = t->at;
    const bool quoted = zone_skip(t, '<');

    while (*t->at && (quoted ? *t->at != '>' : !strchr("+-,0123456789", *t->at)))
        t->at++;
    if (quoted)
        t->bad = t->bad || !zone_skip(t, '>');
    t->bad = t->bad || t->at == start;
}

static struct zone_when zone_read_when(struct zone_text *t)
{
    struct zone_when w = {.kind = '0', .time_s = 7200};

    t->bad = t->bad || !zone_skip(t, ',');
    if (zone_skip(t, 'M')) {
        w.kind = 'M';
        w.month = (int)zone_read_number(t, 12);
        t->bad = t->bad || !zone_skip(t, '.');
        w.week = (int)zone_read_number(t, 5);
        t->bad = t->bad || !zone_skip(t, '.') || w.month == 0 || w.week == 0;
        w.day = (int)zone_read_number(t, 6);
    } else {
        w.kind = zone_skip(t, 'J') ? 'J' : '0';
        w.day = (int)zone_read_number(t, 365);
    }
    if (zone_skip(t, '/'))
        w.time_s = zone_read_time(t);
    return w;
}

static bool zone_read_rule(struct zone_rule *r, const char *line)
{
    struct zone_text t = {line, false};

    zone_skip_name(&t);
    r->standard = -zone_read_time(&t);
    if (*t.at == '\0')
        return !t.bad;
    zone_skip_name(&t);
    r->summer = *t.at == ',' ? r->standard + 3600 : -zone_read_time(&t);
    r->to_summer = zone_read_when(&t);
    r->to_standard = zone_read_when(&t);
    r->seasons = true;
    return !t.bad && *t.at == '\0';
}

/* Seconds since the epoch, on the local clock before the change. */
static int64_t local_time_of(const struct zone_when *w, int64_t year)
{
    const int64_t first = weir__days_of(year, 1, 1);
    const bool leap = weir__days_of(year + 1, 1, 1) - first == 366;
    int64_t day = first + w->day;

    if (w->kind == 'J')
        day = first + w->day - 1 + (leap && w->day > 59);
    if (w->kind == 'M') {
        const int64_t month = weir__days_of(year, w->month, 1);
        const int64_t next =
            w->month == 12 ? weir__days_of(year + 1, 1, 1) : weir__days_of(year, w->month + 1, 1);
        const int64_t weekday = ((month + 4) % 7 + 7) % 7; /* of the 1st; Sunday is 0 */

        day = month + (w->day - weekday + 7) % 7 + (w->week - 1) * 7;
        if (day >= next)
            day -= 7; /* the fifth is the last */
    }
    return day * 86400 + w->time_s;
}

/* The k-th change of a year, in the order of the rule: to summer, to standard. */
static struct zone_change change_of_year(const struct zone_rule *r, int64_t year, int k)
{
    if (k == 0)
        return (struct zone_change){local_time_of(&r->to_summer, year) - r->standard, r->summer};
    return (struct zone_change){local_time_of(&r->to_standard, year) - r->summer, r->standard};
}

static int64_t year_of(int64_t at_s)
{
    return weir__date_of(at_s / 86400 - (at_s % 86400 < 0)).year;
}

/* The last change at or before at_s (which = -1), or the first after it (which = 1). */
static struct zone_change nearest_by_rule(const struct zone_rule *r, int64_t at_s, int which)
{
    const int64_t year = year_of(at_s);
    struct zone_change best = {which < 0 ? INT64_MIN : INT64_MAX, r->standard};

    for (int64_t y = year - 1; y <= year + 1; y++) {
        for (int k = 0; k < 2; k++) {
            const struct zone_change c = change_of_year(r, y, k);

            if (which < 0 ? c.at_s <= at_s && c.at_s > best.at_s
                          : c.at_s > at_s && c.at_s < best.at_s)
                best = c;
        }
    }
    return best;
}

/* ---- The file ----------------------------------------------------------------------------------
 */

struct zone_bytes {
    const unsigned char *at;
    size_t len;
};

static int64_t big_endian(const unsigned char *at, int bytes)
{
    uint64_t n = at[0] & 0x80 ? UINT64_MAX : 0;

    for (int i = 0; i < bytes; i++)
        n = n << 8 | at[i];
    return (int64_t)n;
}

struct zone_counts {
    size_t utc, wall, leap, time, type, chars;
};

static bool zone_read_header(struct zone_bytes b, struct zone_counts *c)
{
    size_t *const field[] = {&c->utc, &c->wall, &c->leap, &c->time, &c->type, &c->chars};

    if (b.len < 44 || memcmp(b.at, "TZif", 4) != 0)
        return false;
    for (int i = 0; i < 6; i++) {
        const int64_t n = big_endian(b.at + 20 + 4 * i, 4);

        if (n < 0 || n > FILE_MAX_BYTES)
            return false;
        *field[i] = (size_t)n;
    }
    return true;
}

static size_t body_bytes(const struct zone_counts *c, size_t time)
{
    return c->time * (time + 1) + c->type * 6 + c->chars + c->leap * (time + 4) + c->wall + c->utc;
}

static bool zone_skip_bytes(struct zone_bytes *b, size_t n)
{
    if (b->len < n)
        return false;
    b->at += n;
    b->len -= n;
    return true;
}

static bool zone_read_body(struct weir__zone *z, struct zone_bytes b, const struct zone_counts *c)
{
    const unsigned char *times = b.at, *kinds = times + c->time * 8, *types = kinds + c->time;

    z->first_offset = big_endian(types, 4);
    for (size_t i = 0; i < c->time; i++) {
        if (kinds[i] >= c->type)
            return false;
        z->change[z->n] = (struct zone_change){.at_s = big_endian(times + 8 * i, 8),
                                               .offset = big_endian(types + 6 * kinds[i], 4)};
        if (z->n > 0 && z->change[z->n].at_s <= z->change[z->n - 1].at_s)
            return false; /* calendar.c walks from change to change: they must rise */
        z->n++;
    }
    return true;
}

static bool zone_read_footer(struct weir__zone *z, struct zone_bytes b)
{
    char line[128];
    const unsigned char *end;

    if (b.len < 2 || b.at[0] != '\n' || !(end = memchr(b.at + 1, '\n', b.len - 1)))
        return false;
    if ((size_t)(end - b.at - 1) >= sizeof line)
        return false;
    memcpy(line, b.at + 1, (size_t)(end - b.at - 1));
    line[end - b.at - 1] = '\0';
    z->rule.standard = z->n > 0 ? z->change[z->n - 1].offset : z->first_offset;
    return line[0] == '\0' || zone_read_rule(&z->rule, line);
}

static int zone_parse(struct weir__zone **zone, struct zone_bytes b)
{
    struct zone_counts c;
    struct weir__zone *z;

    if (!zone_read_header(b, &c) || !zone_skip_bytes(&b, 44 + body_bytes(&c, 4)))
        return WEIR_ENOZONE; /* the first part, with 32-bit times, is skipped */
    if (!zone_read_header(b, &c) || !zone_skip_bytes(&b, 44) || c.time > CHANGES_MAX ||
        c.type == 0 || c.leap > 0 ||
        b.len < body_bytes(&c, 8)) /* zones that count leap seconds are not UTC's */
        return WEIR_ENOZONE;
    z = calloc(1, sizeof *z + c.time * sizeof z->change[0]);
    if (!z)
        return WEIR_ENOMEM;
    if (!zone_read_body(z, b, &c) || !zone_skip_bytes(&b, body_bytes(&c, 8)) ||
        !zone_read_footer(z, b)) {
        free(z);
        return WEIR_ENOZONE;
    }
    *zone = z;
    return 0;
}

static bool name_is_safe(const char *name)
{
    return name[0] != '\0' && name[0] != '/' && name[0] != '.' && !strstr(name, "/.") &&
           !strstr(name, "//") && strlen(name) < WEIR_ZONE_MAX;
}

int weir__zone_load(struct weir__zone **zone, const char *name)
{
    unsigned char bytes[FILE_MAX_BYTES];
    char path[sizeof ZONE_DIR + WEIR_ZONE_MAX];
    size_t len;
    FILE *f;

    *zone = NULL;
    if (strcmp(name, "UTC") == 0)
        return 0;
    if (!name_is_safe(name))
        return WEIR_ENOZONE;
    (void)snprintf(path, sizeof path, "%s%s", ZONE_DIR, name);
    f = fopen(path, "rb");
    if (!f)
        return WEIR_ENOZONE;
    len = fread(bytes, 1, sizeof bytes, f);
    (void)fclose(f);
    return zone_parse(zone, (struct zone_bytes){bytes, len});
}

void weir__zone_free(struct weir__zone *zone)
{
    free(zone);
}

/* How many of the file's changes are at or before at_s. */
static int changes_until(const struct weir__zone *z, int64_t at_s)
{
    int lo = 0, hi = z->n;

    while (lo < hi) {
        const int middle = (lo + hi) / 2;

        if (z->change[middle].at_s <= at_s)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

int64_t weir__zone_offset(const struct weir__zone *z, int64_t at_s)
{
    int past;

    if (!z)
        return 0;
    past = changes_until(z, at_s);
    if (past < z->n)
        return past == 0 ? z->first_offset : z->change[past - 1].offset;
    return z->rule.seasons ? nearest_by_rule(&z->rule, at_s, -1).offset : z->rule.standard;
}

int64_t weir__zone_next_change(const struct weir__zone *z, int64_t at_s)
{
    int past;

    if (!z)
        return INT64_MAX;
    past = changes_until(z, at_s);
    if (past < z->n)
        return z->change[past].at_s;
    return z->rule.seasons ? nearest_by_rule(&z->rule, at_s, 1).at_s : INT64_MAX;
}

int64_t weir__zone_standard(const struct weir__zone *z)
{
    return z ? z->rule.standard : 0;
}
