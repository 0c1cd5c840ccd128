/* Writes numbers and times for people. */
#include "sim/picture/words.h"

#include <stdio.h>

#include "base/date.h"
#include "base/num.h"

const char *words_count(int64_t n, char text[WORDS_MAX])
{
    struct weir__out o = {text, WORDS_MAX, 0};

    weir__out_grouped(&o, (uint64_t)n);
    (void)weir__out_end(&o);
    return text;
}

const char *words_share(int64_t n, int64_t of, char text[WORDS_MAX])
{
    int64_t tenths = 0;

    if (of > 0)
        tenths = (int64_t)((weir__wide(n) * 2000 + weir__wide(of)) / (weir__wide(of) * 2));
    if (n > 0 && tenths == 0)
        (void)snprintf(text, WORDS_MAX, "<0.1%%");
    else if (n < of && tenths == 1000)
        (void)snprintf(text, WORDS_MAX, ">99.9%%");
    else
        (void)snprintf(text, WORDS_MAX, "%lld.%lld%%", (long long)(tenths / 10),
                       (long long)(tenths % 10));
    return text;
}

static const char *time_text(int64_t ns, char between, const char *zone, char text[WORDS_MAX])
{
    const int64_t seconds = ns / WEIR__NS_PER_S, day = seconds / 86400, of_day = seconds % 86400;
    const struct weir__date date = weir__date_of(day);
    char fraction[16] = "";
    int n = 0;

    if (ns % WEIR__NS_PER_S != 0) {
        n = snprintf(fraction, sizeof fraction, ".%09lld", (long long)(ns % WEIR__NS_PER_S));
        while (n > 1 && fraction[n - 1] == '0')
            fraction[--n] = '\0';
    }
    (void)snprintf(text, WORDS_MAX, "%04lld-%02d-%02d%c%02lld:%02lld:%02lld%s%s",
                   (long long)date.year, date.month, date.day, between, (long long)(of_day / 3600),
                   (long long)(of_day / 60 % 60), (long long)(of_day % 60), fraction, zone);
    return text;
}

const char *words_time(int64_t ns, char text[WORDS_MAX])
{
    return time_text(ns, ' ', "", text);
}

const char *words_iso(int64_t ns, char text[WORDS_MAX])
{
    return time_text(ns, 'T', "Z", text);
}

const char *words_span(int64_t ns, char text[WORDS_MAX])
{
    static const struct {
        const char *name;
        int64_t ns;
    } UNITS[] = {{"d", 86400 * WEIR__NS_PER_S},
                 {"h", 3600 * WEIR__NS_PER_S},
                 {"m", 60 * WEIR__NS_PER_S},
                 {"s", WEIR__NS_PER_S},
                 {"ms", WEIR__NS_PER_MS},
                 {"us", WEIR__NS_PER_US},
                 {"ns", 1}};
    int i = 0;

    while (i < 6 && ns < UNITS[i].ns)
        i++;
    if (i == 6 || ns % UNITS[i].ns / UNITS[i + 1].ns == 0)
        (void)snprintf(text, WORDS_MAX, "%lld%s", (long long)(ns / UNITS[i].ns), UNITS[i].name);
    else
        (void)snprintf(text, WORDS_MAX, "%lld%s%lld%s", (long long)(ns / UNITS[i].ns),
                       UNITS[i].name, (long long)(ns % UNITS[i].ns / UNITS[i + 1].ns),
                       UNITS[i + 1].name);
    if (ns == 0)
        (void)snprintf(text, WORDS_MAX, "0s");
    return text;
}

const char *words_key(struct weir__slice key, size_t most, char text[WORDS_MAX])
{
    const bool cut = key.len > most;
    size_t n = 0;

    for (; n < key.len && n < most - 3 * (size_t)cut; n++) {
        const unsigned char c = (unsigned char)key.at[n];

        text[n] = (char)(c < ' ' || c > '~' ? '?' : c);
    }
    (void)snprintf(text + n, WORDS_MAX - n, "%s", cut ? "..." : "");
    return text;
}
