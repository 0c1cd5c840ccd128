/* The time counter on processors whose counter weir cannot read: the clock is then the system's. */
#include "os/ticks.h"

bool weir__ticks_usable(void)
{
    return false;
}
