/* The bytes of a file: read, kept, and put back while other processes have it mapped. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image.h"

#define PAGE 4096

static void must(int good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(2);
}

struct image_file image_open(const char *path)
{
    struct image_file f = {.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)};

    must(f.fd >= 0, path);
    f.at = mmap(NULL, IMAGE_MOST, PROT_READ | PROT_WRITE, MAP_SHARED, f.fd, 0);
    must(f.at != MAP_FAILED, "mmap");
    return f;
}

void image_close(struct image_file *f)
{
    (void)munmap(f->at, IMAGE_MOST);
    (void)close(f->fd);
}

size_t image_bytes(const struct image_file *f)
{
    struct stat st;

    must(fstat(f->fd, &st) == 0 && st.st_size <= IMAGE_MOST, "fstat");
    return (size_t)st.st_size;
}

void image_save(const struct image_file *f, struct image *i)
{
    i->bytes = image_bytes(f);
    i->at = realloc(i->at, i->bytes + 1);
    must(i->at != NULL, "realloc");
    memcpy(i->at, f->at, i->bytes);
}

void image_restore(const struct image_file *f, const struct image *i)
{
    if (image_bytes(f) != i->bytes)
        must(ftruncate(f->fd, (off_t)i->bytes) == 0, "ftruncate");
    for (size_t at = 0; at < i->bytes; at += PAGE) {
        const size_t n = i->bytes - at < PAGE ? i->bytes - at : PAGE;

        if (memcmp(f->at + at, i->at + at, n) != 0)
            memcpy(f->at + at, i->at + at, n);
    }
}

void image_copy(const struct image_file *from, const struct image_file *to)
{
    const struct image now = {image_bytes(from), from->at};

    image_restore(to, &now);
}

void image_free(struct image *i)
{
    free(i->at);
    *i = (struct image){0};
}
