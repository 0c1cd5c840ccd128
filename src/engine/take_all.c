/* weir_take_all and weir_reserve: several requests decided as one, again if a limit changed meanwhile. */
#include "engine/engine.h"
#include "engine/far.h"

static int refresh_all(const struct weir_request *rq, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const int error = weir__policy_refresh(rq[i].policy);

        if (error)
            return error;
    }
    return WEIR__STALE;
}

/* The strictest of the policies' fallbacks answers. */
static int fall_back(struct weir *w, const struct weir_request *rq, size_t n, int error,
                     struct weir__memo *memo, struct weir_verdict *v)
{
    struct weir_verdict one = {.allowed = true};

    for (size_t i = 0; i < n && one.allowed; i++) {
        const int still = weir__answer_error(w, rq[i].policy, error, &one);

        if (still)
            return still;
        one.which = one.allowed ? -1 : (int)i;
    }
    *v = one;
    if (memo && memo->reservation)
        *memo->reservation = (struct weir_reservation){0};
    if (memo && memo->ticket)
        memo->ticket->n = 0; /* nobody has counted it */
    return 0;
}

int weir__all(struct weir *w, const struct weir_request *rq, size_t n, enum weir__verb verb,
              struct weir__moment at, struct weir__memo *memo, struct weir_verdict *v)
{
    int error;

    if (n < 1 || n > WEIR_TERMS_MAX || !weir__now_fits(at.now_ns))
        return WEIR_EINVAL;
    for (size_t i = 0; i < n; i++)
        if (!weir__request_fits(&rq[i]))
            return WEIR_EINVAL;
    if (w->far)
        return w->far->ops->decide(w->far, rq, n, verb, at, memo, v);
    do {
        weir__readers_enter();
        error = weir__several(w, rq, n, verb, at, memo, v);
        weir__readers_exit();
        if (error == WEIR__STALE)
            error = refresh_all(rq, n);
    } while (error == WEIR__STALE);
    return error ? fall_back(w, rq, n, error, memo, v) : 0;
}

int weir_take_all_at(struct weir *w, const struct weir_request *rq, size_t n, int64_t now_ns,
                     struct weir_verdict *v)
{
    return weir__all(w, rq, n, WEIR__TAKE_ALL, weir__moment_at(now_ns), NULL, v);
}

int weir_take_all(struct weir *w, const struct weir_request *rq, size_t n, struct weir_verdict *v)
{
    return weir__all(w, rq, n, WEIR__TAKE_ALL, weir__moment_of(w), NULL, v);
}

int weir_reserve_at(struct weir *w, const struct weir_request *rq, size_t n, int64_t now_ns,
                    struct weir_reservation *r, struct weir_verdict *v)
{
    struct weir__memo memo = {.reservation = r};

    return weir__all(w, rq, n, WEIR__TAKE_ALL, weir__moment_at(now_ns), &memo, v);
}

int weir_reserve(struct weir *w, const struct weir_request *rq, size_t n,
                 struct weir_reservation *r, struct weir_verdict *v)
{
    struct weir__memo memo = {.reservation = r};

    return weir__all(w, rq, n, WEIR__TAKE_ALL, weir__moment_of(w), &memo, v);
}
