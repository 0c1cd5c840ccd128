/* Prints what the client would send, for plan.py to read.
 *
 *     plan_hex < LINES        a line is BORN_US, WALL_NS, NOW_US, VERB, COST, PATIENCE_NS, ACT_US,
 *                             ACTS (of the terms, with commas), ONLY, TICKET, SCOPE, KEY, LIMIT,
 *                             with tabs between them; "-" is none. Prints "MASK TERMS HEX", or
 *                             "error" and why.
 *     plan_hex --scripts      prints number, SHA-1, length and text (in hex) of every script
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/script/plan.h"
#include "redis/script/scripts.h"

enum {
    CREATED,
    WALL,
    NOW,
    VERB,
    COST,
    PATIENCE,
    ACT,
    ACTS,
    ONLY,
    TICKET,
    SCOPE,
    KEY,
    LIMIT,
    FIELDS
};

static void print_hex(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        (void)printf("%02x", (unsigned char)bytes[i]);
}

static int print_scripts(void)
{
    for (int i = 1; i < WEIR__SCRIPT_COUNT; i++) {
        const struct weir__script *s = &weir__scripts[i];

        (void)printf("%d %s %zu ", i, s->sha, s->len);
        for (const struct weir__piece *p = s->piece; p->text; p++)
            print_hex(p->text, p->len);
        (void)puts("");
    }
    return 0;
}

static struct weir__slice slice_of(const char *text)
{
    return strcmp(text, "-") == 0 ? (struct weir__slice){NULL, 0} : weir__slice_of(text);
}

static void split(char *line, char *field[FIELDS])
{
    line[strcspn(line, "\n")] = '\0';
    for (int i = 0; i < FIELDS; i++) {
        char *tab = i + 1 < FIELDS ? strchr(line, '\t') : NULL;

        field[i] = line;
        if (tab)
            *tab = '\0';
        line = tab ? tab + 1 : line + strlen(line);
    }
}

static int64_t number(const char *text)
{
    return strtoll(text, NULL, 10);
}

static void write_one(const struct weir__plan *plan, char *field[FIELDS])
{
    int64_t acts[WEIR_TERMS_MAX] = {0};
    char scope[1024], small[64];
    char *rest = field[ACTS];
    struct weir__plan_part part = {.plan = plan,
                                   .key = slice_of(field[KEY]),
                                   .cost = number(field[COST]),
                                   .patience_ns = number(field[PATIENCE]),
                                   .act_us = strcmp(rest, "-") == 0 ? NULL : acts,
                                   .only = (unsigned)number(field[ONLY])};
    const struct weir__plan_request request = {.verb = (enum weir__plan_verb)number(field[VERB]),
                                               .now_us = number(field[NOW]),
                                               .wall_ns = number(field[WALL]),
                                               .act_us = number(field[ACT]),
                                               .prefix = weir__slice_of("weir"),
                                               .ticket = slice_of(field[TICKET]),
                                               .part = &part,
                                               .n = 1};
    unsigned mask;
    int terms;
    size_t room, len;
    char *out;

    for (int i = 0; i < WEIR_TERMS_MAX && *rest; i++, rest += *rest == ',')
        acts[i] = strtoll(rest, &rest, 10);
    part.scope = (struct weir__slice){
        scope, weir__scope_encode(field[SCOPE], strlen(field[SCOPE]), scope, sizeof scope)};
    room = weir__plan_encoded_size(&request);
    out = malloc(room); /* no byte more: a sanitizer sees a write beyond it */
    len = out ? weir__plan_encode(&request, out, room, &mask, &terms) : 0;
    if (len == 0 || len > room ||
        weir__plan_encode(&request, small, sizeof small, &mask, &terms) != len)
        (void)printf("error the room is not what is needed\n");
    (void)printf("%u %d ", mask, terms);
    print_hex(out, len);
    (void)puts("");
    free(out);
}

int main(int argc, char **argv)
{
    static char line[3 * WEIR_LIMIT_TEXT_MAX];

    if (argc > 1 && strcmp(argv[1], "--scripts") == 0)
        return print_scripts();
    while (fgets(line, sizeof line, stdin)) {
        char *field[FIELDS];
        struct weir_limit limit;
        struct weir_diag why;
        struct weir__plan *plan;

        split(line, field);
        if (weir_limit_parse(&limit, field[LIMIT], &why) != 0 ||
            weir__plan_open(&plan, &limit, number(field[CREATED]), &why) != 0) {
            (void)printf("error %s\n", why.text);
            continue;
        }
        write_one(plan, field);
        weir__plan_close(plan);
    }
    return 0;
}
