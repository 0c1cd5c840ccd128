/* A build without libyaml reads no configuration, and says so. */
#include "config/tree.h"

void config_tree(struct config *c, struct config_file *f)
{
    config_blame_at(c, f->path, 0, 0,
                    "this weir was built without libyaml; install it and build again");
}
