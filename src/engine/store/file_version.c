/* The version of the format of a state file. It goes up with every change that an older weir would
 * misread; docs/reference/store.md has the list. (Here it stands alone so that a test can link a
 * weir of another version.) */
#include "engine/store/format.h"

const uint32_t weir__file_version = WEIR__FILE_VERSION;
