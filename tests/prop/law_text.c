/* parse(print(limit)) == limit, and one meaning has one text. */
#include "prop.h"

#include <stdio.h>
#include <string.h>

/* The options that any term may carry, and a zone. */
static void write_common(struct prop_rng *r, const struct weir_term *t, char *text, size_t cap)
{
    static const char *const fallback[] = {"", "", " fallback=local", " fallback=allow",
                                           " fallback=deny"};
    static const char *const zone[] = {"", " tz=UTC", " tz=Europe/Berlin", " tz=Asia/Kathmandu"};
    const char *shadow = prop_odds(r, 4) ? " shadow" : "";
    const char *down = fallback[prop_range(r, 0, 4)];
    const char *where = t->align == WEIR_ALIGN_CLOCK ? zone[prop_range(r, 0, 3)] : "";

    snprintf(text, cap, "%s%s%s", shadow, down, where);
}

static bool write_limit(struct prop_case *c, char *text, size_t cap, struct weir_limit *limit)
{
    const int terms = (int)prop_range(&c->rng, 1, prop_odds(&c->rng, 5) ? WEIR_TERMS_MAX : 3);
    size_t used = 0;

    for (int i = 0; i < terms && used < cap; i++) {
        const enum weir_algorithm a =
            i == 0 ? c->algorithm
                   : (enum weir_algorithm)prop_range(&c->rng, 0, PROP_ALGORITHMS - 1);
        char one[PROP_TEXT], common[64];
        struct weir_term t;

        prop_term(&c->rng, a, PROP_ANY, &t, one);
        write_common(&c->rng, &t, common, sizeof common);
        used +=
            (size_t)snprintf(text + used, cap - used, "%s%s%s", i > 0 ? " + " : "", one, common);
    }
    /* A machine may have no zone files. */
    return used < cap && weir_limit_parse(limit, text, NULL) != WEIR_ENOZONE;
}

void prop_law_text(struct prop_case *c)
{
    char text[WEIR_LIMIT_TEXT_MAX], printed[WEIR_LIMIT_TEXT_MAX], again[WEIR_LIMIT_TEXT_MAX];
    struct weir_limit limit, parsed;
    struct weir_diag why = {0, ""};
    size_t length;

    memset(&limit, 0x5a, sizeof limit);
    memset(&parsed, 0xa5, sizeof parsed);
    if (!write_limit(c, text, sizeof text, &limit))
        return;
    snprintf(c->text[0], sizeof c->text[0], "%.*s", PROP_TEXT - 1, text);
    prop_expect(c, weir_limit_parse(&limit, text, &why) == 0, "refused: %.400s", why.text);
    length = weir_limit_print(&limit, printed, sizeof printed);
    prop_expect(c, length == strlen(printed), "print returned %zu", length);
    prop_expect(c, weir_limit_parse(&parsed, printed, &why) == 0, "%.200s: refused: %.200s",
                printed, why.text);
    prop_expect(c, memcmp(&limit, &parsed, sizeof limit) == 0, "printed as %.400s: another limit",
                printed);
    weir_limit_print(&parsed, again, sizeof again);
    prop_expect(c, strcmp(printed, again) == 0, "printed as %.200s, then as %.200s", printed,
                again);
}
