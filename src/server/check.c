/* Requests that the rules decide (check.h).
 *
 * The rules belong to the configuration file. A worker reads them inside of names_enter; a reload
 * replaces them while no worker is there. A check that waits for a remote store has copies of its
 * keys and of the names of its rules.
 */
#include "server/check.h"

#include <stdio.h>
#include <string.h>

#include "server/access/access.h"
#include "server/internal.h"
#include "server/limits/limit_names.h"

void server_set_rules(struct server *s, const struct rules *rules)
{
    names_enter(s->names);
    names_change_begins(s->names);
    s->rules = rules;
    names_change_ends(s->names);
    names_leave(s->names);
}

static bool check_because(struct check_why *why, int status, const char *text)
{
    why->status = status;
    (void)snprintf(why->text, sizeof why->text, "%s", text);
    return false;
}

static bool check_because_of(struct check_why *why, int status, const char *before,
                             struct weir__slice word, const char *after)
{
    struct weir__out o = {why->text, sizeof why->text, 0};

    why->status = status;
    weir__out_text(&o, before);
    weir__out_quoted(&o, word);
    weir__out_text(&o, after);
    (void)weir__out_end(&o);
    return false;
}

/* ---- What a request is ----------------------------------------------------------------------- */

bool check_begin(struct conn *c, struct check *k, struct check_why *why)
{
    static _Thread_local char scratch[RULES_SCRATCH];
    const struct server *s = c->worker->server;

    k->conn = c;
    k->cost = 1;
    k->patience_ns = WEIR_WAIT_DEFAULT;
    if (!s->rules)
        return check_because(why, 404,
                             "there are no rules: the configuration file has none, or there is no "
                             "configuration file");
    rules_request_init(&k->request, s->rules, scratch, sizeof scratch, s->options.ipv6_prefix);
    if (c->tls && tls_first_name(c).at)
        (void)rules_request_set(&k->request, weir__slice_of("attr.certificate"), tls_first_name(c));
    return true;
}

bool check_was_set(enum rules_set set, struct weir__slice name, struct check_why *why)
{
    switch (set) {
    case RULES_SET: return true;
    case RULES_TWICE: return check_because_of(why, 400, "", name, " is given twice");
    case RULES_BAD_IP: return check_because_of(why, 400, "", name, ": expected an address");
    case RULES_LONG_PATH:
        return check_because(why, 400, "the path is too long: at most 8192 bytes");
    case RULES_NO_SCRATCH: break;
    }
    return check_because(why, 400, "the request is too long: its fields have at most 65536 bytes");
}

bool check_set(struct check *k, struct weir__slice name, struct weir__slice value,
               struct check_why *why)
{
    if (weir__slice_is(name, "certificate") || weir__slice_is(name, "attr.certificate"))
        return check_because_of(why, 400, "", name,
                                ": a request cannot set it; it is the name of the client's "
                                "certificate");
    return check_was_set(rules_request_set(&k->request, name, value), name, why);
}

/* ---- What it takes --------------------------------------------------------------------------- */

#define NAMES_ROOM (RULES_APPLIED * RULES_NAME_ROOM)

/* The operations of a check, and the names of their rules: a byte for the length before each. */
struct check_ops {
    size_t n;
    struct limit_op op[RULES_APPLIED];
    char names[NAMES_ROOM];
    size_t names_len;
};

static void ops_put_rule(struct check_ops *o, const struct rules *r, uint32_t rule)
{
    char text[RULES_NAME_ROOM];
    const struct weir__slice name = rules_name(r, rule, text);

    o->names[o->names_len++] = (char)name.len;
    memcpy(o->names + o->names_len, name.at, name.len);
    o->names_len += name.len;
}

static bool ops_add(struct check *k, struct check_ops *o, uint32_t rule, size_t i,
                    struct check_why *why)
{
    const struct rules_applied a = rules_applied(k->request.rules, rule, i);
    const struct limit_entry *h = names_find(k->conn->worker->server->names, a.limit);
    struct limit_op *op = &o->op[o->n];

    if (!h)
        return check_because_of(why, 503, "a rule applies the limit ", a.limit,
                                ", which was deleted while the daemon runs");
    if (o->n == RULES_APPLIED)
        return check_because(why, 503, "the rules apply more than 16 limits");
    *op = (struct limit_op){.limit = &h->limit,
                            .patience_ns = k->patience_ns,
                            .reply = k->reply,
                            .shape = k->shape,
                            .names_lone = true};
    if (__builtin_mul_overflow(a.cost, k->cost, &op->cost))
        op->cost = INT64_MAX;
    if (!rules_key(&k->request, rule, i, &op->key))
        return check_because(why, 400, "the keys of the rules are too long: at most 65536 bytes");
    if (op->key.len > k->conn->worker->server->options.max_key)
        return check_because(why, 400, "a key of the rules is longer than --max-key");
    if (!access_key_is_permitted(conn_access(k->conn), op->key))
        return check_because(why, 403, "not allowed: " ACCESS_OTHER_KEY);
    ops_put_rule(o, k->request.rules, rule);
    o->n++;
    return true;
}

/* No limit applies: as `unlimited` would answer. */
static void check_reply_free(struct check *k)
{
    const struct weir_verdict v = {.allowed = true,
                                   .reason = WEIR_OK,
                                   .which = -1,
                                   .limit = WEIR_COUNT_MAX,
                                   .remaining = WEIR_COUNT_MAX};
    const struct limit_op op = {.shape = k->shape, .cost = k->cost};

    batch_flush(k->conn);
    batch_tally_all(k->conn->worker, NULL, 0, 0, &v);
    k->reply(k->conn, &op, 0, &v);
}

bool check_run(struct check *k, struct check_why *why)
{
    struct rules_matches found;
    struct check_ops o;

    o.n = o.names_len = 0;
    rules_match(&k->request, &found);
    for (size_t m = 0; m < found.n; m++)
        for (size_t i = 0; i < rules_applies(k->request.rules, found.rule[m]); i++)
            if (!ops_add(k, &o, found.rule[m], i, why))
                return false;
    if (o.n == 0) {
        check_reply_free(k);
        return true;
    }
    o.op[0].name = (struct weir__slice){o.names, o.names_len};
    batch_take_all(k->conn, o.op, o.n);
    return true;
}

/* ---- Replies --------------------------------------------------------------------------------- */

bool check_next_rule(struct weir__slice *rules, struct weir__slice *name)
{
    size_t len;

    if (rules->len == 0)
        return false;
    len = (unsigned char)rules->at[0];
    *name = (struct weir__slice){rules->at + 1, len};
    *rules = (struct weir__slice){rules->at + 1 + len, rules->len - 1 - len};
    return true;
}

struct weir__slice check_rule_of(const struct limit_op *op, const struct weir_verdict *v)
{
    const int named = v->which >= 0 ? v->which : v->shadow - 1;
    struct weir__slice rules = op->name, name;

    for (int i = 0; check_next_rule(&rules, &name); i++)
        if (i == named)
            return name;
    return (struct weir__slice){NULL, 0};
}
