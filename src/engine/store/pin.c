/* Pinning: a private page over the part of a shared table from which addresses are computed. */
#include "engine/store/pin.h"

#include <sys/mman.h>

#include "table/layout.h"

bool weir__table_pin(struct weir__table *t, const struct weir__table_options *o)
{
    void *page = mmap(t, WEIR__TABLE_PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

    if (page == MAP_FAILED)
        return false;
    (void)weir__table_init(page, o);
    return mprotect(page, WEIR__TABLE_PAGE, PROT_READ) == 0;
}
