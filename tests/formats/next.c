/* The formats of a weir that is one version ahead. A program that is linked with this file gets its
 * numbers from here, and all else from the libraries. */
#include "engine/store/format.h"
#include "redis/script/scripts.h"

const int weir__redis_format = 2;
const uint32_t weir__file_version = WEIR__FILE_VERSION + 1;
