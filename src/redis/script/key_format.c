/* The number of the format of all keys in a Redis: what they are called, what is in them, and what
 * the scripts make of that. It goes up with every change that an older weir would misread. (Here it
 * stands alone so that a test can link a weir of another format.) */
#include "redis/script/scripts.h"

const int weir__redis_format = 1;
