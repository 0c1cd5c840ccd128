/* Prints advice for programs. docs/reference/advise.md has the shape. */
#include "sim/advise/advise.h"
#include "sim/report.h"

static void json_number(struct weir__json *j, const char *name, int64_t value)
{
    weir__json_key(j, name);
    if (value == ENVELOPE_MORE)
        weir__json_null(j);
    else
        weir__json_int(j, value);
}

static void json_part(struct weir__json *j, const char *name, const struct advise_part *p)
{
    weir__json_key(j, name);
    weir__json_open(j, '{');
    json_number(j, "clients", p->clients);
    json_number(j, "clients_refused", p->clients_refused);
    json_number(j, "requests", p->requests);
    json_number(j, "requests_refused", p->requests_refused);
    json_number(j, "cost", p->cost);
    json_number(j, "cost_refused", p->cost_refused);
    weir__json_close(j, '}');
}

static void json_point(struct weir__json *j, const struct advise_point *p)
{
    weir__json_open(j, '{');
    weir__json_key(j, "limit");
    weir__json_text(j, p->text);
    json_number(j, "count", p->rate.count);
    json_number(j, "period_ns", p->rate.period_ns);
    json_number(j, "burst", p->burst);
    json_number(j, "needed", p->needed);
    json_number(j, "everyone", p->everyone);
    json_number(j, "most", p->most);
    json_part(j, "seen", &p->seen);
    json_part(j, "unseen", &p->unseen);
    weir__json_close(j, '}');
}

static void json_deciding(struct weir__json *j, const struct advise *a)
{
    weir__json_key(j, "deciding");
    weir__json_open(j, '[');
    for (uint32_t i = 0; i < a->deciding; i++) {
        weir__json_open(j, '{');
        weir__json_key(j, "key");
        weir__json_string(j, roster_key(a->intake->clients, a->decides[i].client));
        json_number(j, "requests", a->decides[i].requests);
        json_number(j, "cost", a->decides[i].cost);
        json_number(j, "burst", a->decides[i].burst);
        weir__json_close(j, '}');
    }
    weir__json_close(j, ']');
}

void advise_json(const struct advise *a, FILE *to)
{
    struct weir__json j = sim_json_to(to);

    weir__json_open(&j, '{');
    replay_json_log(a->intake, &j);
    json_number(&j, "refuse_milli_percent", a->options.refuse_milli);
    json_number(&j, "over_ns", a->options.over_ns);
    weir__json_key(&j, "recommended");
    if (a->best >= 0)
        weir__json_text(&j, a->point[a->best].text);
    else
        weir__json_null(&j);
    weir__json_key(&j, "frontier");
    weir__json_open(&j, '[');
    for (int i = 0; i < a->points; i++)
        json_point(&j, &a->point[i]);
    weir__json_close(&j, ']');
    json_deciding(&j, a);
    weir__json_close(&j, '}');
    (void)fputc('\n', to);
}
