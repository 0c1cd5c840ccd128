/* A file's bytes: looked at, kept, and put back, while others have it mapped.
 *
 * The descriptor stays open as long as the process lives: to close one would drop the record locks
 * that an engine of the same process has on the file.
 */
#ifndef WEIR_TESTS_IMAGE_H
#define WEIR_TESTS_IMAGE_H

#include <stddef.h>

#define IMAGE_MOST (32 << 20)

struct image_file {
    int fd;
    char *at; /* IMAGE_MOST bytes of address space; only the file's own may be touched */
};

struct image {
    size_t bytes;
    char *at;
};

/* Maps the file; makes an empty one if it is not there. What cannot be done ends the program. */
struct image_file image_open(const char *path);
void image_close(struct image_file *f);
size_t image_bytes(const struct image_file *f);

void image_save(const struct image_file *f, struct image *i);
/* Writes only what differs, and makes the file as long as it was. */
void image_restore(const struct image_file *f, const struct image *i);
/* Makes one file as another is now. */
void image_copy(const struct image_file *from, const struct image_file *to);
void image_free(struct image *i);

#endif
