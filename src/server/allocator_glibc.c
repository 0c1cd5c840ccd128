/* What the daemon asks of glibc's allocator: to give freed memory back to the system.
 *
 * glibc keeps what was freed for the thread that freed it, and puts ever larger pieces into its
 * heaps once such pieces were freed. So a daemon whose clients filled one thread's heap and then
 * another's would hold twice the memory that it needs.
 */
#include <malloc.h>

#include "server/memory.h"

void allocator_init(void)
{
    /* this is the default; setting it keeps glibc from raising it */
    (void)mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    (void)mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
}

void allocator_trim(void)
{
    (void)malloc_trim(0);
}
