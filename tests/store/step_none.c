/* No way to step is known for this machine. */
#include <stdlib.h>

#include "step.h"

bool step_works(void)
{
    return false;
}

struct step_trace *step_trace_open(size_t cap)
{
    (void)cap;
    return NULL;
}

void step_trace_close(struct step_trace *t)
{
    (void)t;
}

void step_rehearse(const struct step_deed *d, struct step_trace *t)
{
    (void)d, (void)t;
    abort();
}

void step_index(struct step_trace *t)
{
    (void)t;
}

void step_die_at(const struct step_deed *d, const struct step_trace *t, size_t k)
{
    (void)d, (void)t, (void)k;
    abort();
}
