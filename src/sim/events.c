/* The words of events: verbs, how a call ends, error messages. */
#include "sim/events.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const VERBS[] = {
    [SIM_TAKE] = "take",     [SIM_PEEK] = "peek",       [SIM_CHARGE] = "charge",
    [SIM_REFUND] = "refund", [SIM_CANCEL] = "cancel",   [SIM_ENTER] = "enter",
    [SIM_EXIT] = "exit",     [SIM_RESET] = "reset",     [SIM_LIMIT] = "limit",
    [SIM_SIGNAL] = "signal", [SIM_RESERVE] = "reserve", [SIM_COMMIT] = "commit",
};

const char *sim_verb_name(enum sim_verb verb)
{
    return VERBS[verb];
}

bool sim_verb_parse(struct weir__slice word, enum sim_verb *verb)
{
    for (int i = 0; word.len > 0 && i <= SIM_SIGNAL; i++) {
        if (VERBS[i][0] == word.at[0] && weir__slice_is(word, VERBS[i])) {
            *verb = (enum sim_verb)i;
            return true;
        }
    }
    return false;
}

static const char *const HOW[] = {
    [WEIR_SUCCESS] = "ok", [WEIR_ERROR] = "error", [WEIR_DROP] = "drop", [WEIR_IGNORE] = "ignore"};

const char *sim_how_name(enum weir_outcome how)
{
    return HOW[how];
}

bool sim_how_parse(struct weir__slice word, enum weir_outcome *how)
{
    for (int i = 0; i <= WEIR_IGNORE; i++) {
        if (weir__slice_is(word, HOW[i])) {
            *how = (enum weir_outcome)i;
            return true;
        }
    }
    return false;
}

bool sim_fail(struct sim_error *e, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
    return false;
}

bool sim_fail_word(struct sim_error *e, const char *before, struct weir__slice word,
                   const char *after)
{
    struct weir__out o = {e->text, sizeof e->text, 0};

    weir__out_text(&o, before);
    weir__out_quoted(&o, word);
    weir__out_text(&o, after);
    (void)weir__out_end(&o);
    return false;
}
