/* The options of `weir serve` as keys of its configuration file: one table, two ways to write. */
#include "cli/config_keys.h"

#include <string.h>

#define NAME_MOST 40

static struct config_key keys[OPTIONS_MAX + 1];
static char names[OPTIONS_MAX][NAME_MOST];
static const struct option *options[OPTIONS_MAX];

/* Options that a reload changes. */
static bool is_live_option(const char *option)
{
    static const char *const LIVE[] = {"--client-header", "--log-level", "--trust", "--trust-hops"};

    for (size_t i = 0; i < sizeof LIVE / sizeof LIVE[0]; i++)
        if (strcmp(option, LIVE[i]) == 0)
            return true;
    return false;
}

/* Options that a file does not have, or has in a form of its own. */
static bool is_no_key(const char *option)
{
    static const char *const NONE[] = {"--config",       "--clock",          "--limit", "--listen",
                                       "--admin-listen", "--metrics-listen", "--store"};

    for (size_t i = 0; i < sizeof NONE / sizeof NONE[0]; i++)
        if (strcmp(option, NONE[i]) == 0)
            return true;
    return false;
}

static enum config_type type_of(const struct option *o)
{
    switch (o->kind) {
    case OPTION_FLAG: return CONFIG_YES_NO;
    case OPTION_CHOICE: return CONFIG_CHOICE;
    case OPTION_COUNT: return CONFIG_COUNT;
    case OPTION_BYTES: return CONFIG_BYTES;
    case OPTION_DURATION: return CONFIG_DURATION;
    case OPTION_PATIENCE: return CONFIG_PATIENCE;
    case OPTION_PART: return CONFIG_PART;
    case OPTION_TEXT:
    case OPTION_OTHER: break;
    }
    return CONFIG_WORDS;
}

static void key_name(char name[NAME_MOST], const char *option)
{
    const bool log = strncmp(option, "--log-", 6) == 0;

    (void)snprintf(name, NAME_MOST, "%s%s", log ? "log." : "", option + (log ? 6 : 2));
}

const struct config_key *config_keys(void)
{
    size_t n = 0;

    if (keys[0].name)
        return keys;
    for (const struct option *o = SERVE_COMMAND.options; o->name; o++) {
        if (is_no_key(o->name))
            continue;
        key_name(names[n], o->name);
        options[n] = o;
        keys[n] =
            (struct config_key){.name = names[n],
                                .type = type_of(o),
                                .words = o->kind == OPTION_CHOICE ? o->value : NULL,
                                .least = o->least,
                                .most = o->most,
                                .times = o->times,
                                .live = is_live_option(o->name),
                                .expected = o->kind == OPTION_FLAG ? "true or false" : o->expected,
                                .usual = o->kind == OPTION_FLAG ? "false" : o->by_default,
                                .help = o->help};
        n++;
    }
    return keys;
}

const struct option *config_key_option(const struct config_key *k)
{
    return options[k - keys];
}
