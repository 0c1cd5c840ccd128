/* Stands in for the Redis store in a library without hiredis: opening one is an error. */
#include "engine/remote.h"
#include "os/diag.h"

int weir__remote_open(struct weir__remote **f, struct weir *w, const struct weir_options *o,
                      struct weir_diag *why)
{
    (void)f;
    (void)w;
    (void)o;
    return weir__diag(why, WEIR_ESTORE,
                      "this weir was built without hiredis: redis:// stores are not supported");
}
