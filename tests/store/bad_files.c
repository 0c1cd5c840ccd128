/* Files that are not opened, and the messages that say why; nothing is ever repaired or emptied. */
#include "trial.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Writes it, tries to open it, and sees that it is left as it is. */
static void refuses(const void *bytes, size_t n, int error, const char *part)
{
    struct trial t;

    trial_write("file", bytes, n);
    t = trial_open("file");
    trial_refused(&t, error, "/file", part);
    assert_true(trial_is("file", bytes, n));
}

static void refuses_image(struct image *i, int error, const char *part)
{
    refuses(i->at, i->bytes, error, part);
    image_free(i);
}

static void sign(struct image *i)
{
    trial_header(i)->checksum = weir__header_checksum(trial_header(i));
}

/* ---- Other files ----------------------------------------------------------------------------- */

static void opens_a_sound_file(void **state)
{
    const struct image *i = trial_sound();
    struct trial t;

    (void)state;
    trial_write("file", i->at, i->bytes);
    t = trial_open("file");
    trial_ended(&t);
    assert_int_equal(t.error, 0);
}

static void refuses_an_empty_file(void **state)
{
    (void)state;
    refuses("", 0, WEIR_EFORMAT, "empty");
}

static void refuses_a_file_shorter_than_a_header(void **state)
{
    static const size_t sizes[] = {8, 100, 1208, 4095};

    (void)state;
    for (size_t i = 0; i < LENGTH(sizes); i++)
        refuses(trial_sound()->at, sizes[i], WEIR_EFORMAT, "truncated");
}

/* Also one that begins as our files do, and one that is short. */
static void refuses_a_text(void **state)
{
    char text[20000];

    (void)state;
    memset(text, 'a', sizeof text);
    memcpy(text, "weir store of mine\n", 19);
    refuses(text, sizeof text, WEIR_EFORMAT, "not a state file");
    refuses("limits:\n  - 10/s\n", 17, WEIR_EFORMAT, "not a state file");
}

static void refuses_a_program(void **state)
{
    FILE *self = fopen("/proc/self/exe", "r");
    char bytes[30000];

    (void)state;
    assert_non_null(self);
    assert_int_equal(fread(bytes, 1, sizeof bytes, self), sizeof bytes);
    (void)fclose(self);
    refuses(bytes, sizeof bytes, WEIR_EFORMAT, "not a state file");
}

static void refuses_what_is_not_a_file(void **state)
{
    char path[FOLDER_PATH];
    struct trial t;

    (void)state;
    folder_path(path, "folder");
    assert_int_equal(mkdir(path, 0700), 0);
    t = trial_open("folder");
    trial_refused(&t, WEIR_EIO, "/folder", "Is a directory");
    folder_path(path, "pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    t = trial_open("pipe");
    trial_refused(&t, WEIR_EFORMAT, "/pipe", "not a regular file");
}

/* ---- Versions -------------------------------------------------------------------------------- */

static void refuses_another_version(void **state)
{
    static const struct {
        uint32_t version;
        const char *part;
    } rows[] = {
        {0, "file version 0 is older"},
        {WEIR__FILE_VERSION - 1, "older"},
        {1, "file version 1 is older than this weir's 7, which cannot read it"},
        {2, "file version 2 is older than this weir's 7, which cannot read it"},
        {2, "move the file away and start with a new one"},
        {WEIR__FILE_VERSION + 1, "newer"},
        {UINT32_MAX, "newer"},
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(rows); i++) {
        struct image image = trial_copy();

        trial_header(&image)->version = rows[i].version;
        sign(&image);
        refuses_image(&image, WEIR_EVERSION, rows[i].part);
    }
}

/* Also if the rest of it makes no sense to us. */
static void refuses_a_newer_version_of_any_layout(void **state)
{
    struct image image = trial_copy();

    (void)state;
    memset(image.at, 0xee, WEIR__FILE_PAGE);
    memcpy(trial_header(&image)->magic, WEIR__FILE_MAGIC, 8);
    trial_header(&image)->version = WEIR__FILE_VERSION + 1;
    trial_header(&image)->byte_order = WEIR__BYTE_ORDER;
    refuses_image(&image, WEIR_EVERSION, "newer");
}

static void refuses_another_byte_order(void **state)
{
    struct image image = trial_copy();

    (void)state;
    trial_header(&image)->byte_order = __builtin_bswap32(WEIR__BYTE_ORDER);
    trial_header(&image)->version = __builtin_bswap32(WEIR__FILE_VERSION);
    sign(&image);
    refuses_image(&image, WEIR_EFORMAT, "byte order");
}

static void refuses_another_layout(void **state)
{
    struct image image = trial_copy();

    (void)state;
    trial_header(&image)->layout ^= 1;
    sign(&image);
    refuses_image(&image, WEIR_EVERSION, "another build");
}

/* ---- Damage ---------------------------------------------------------------------------------- */

static void refuses_a_half_written_file(void **state)
{
    struct image image = trial_copy();

    (void)state;
    atomic_store(&trial_header(&image)->ready, 0);
    refuses_image(&image, WEIR_EFORMAT, "half-written");
}

static void refuses_a_file_cut_at_any_page(void **state)
{
    const struct image *i = trial_sound();

    (void)state;
    for (size_t n = WEIR__FILE_PAGE; n < i->bytes; n += WEIR__FILE_PAGE) {
        struct trial t;

        trial_write("file", i->at, n);
        t = trial_open("file");
        trial_refused(&t, WEIR_EFORMAT, "/file", "truncated");
    }
    refuses(i->at, i->bytes - 1, WEIR_EFORMAT, "truncated");
}

static void refuses_every_changed_byte_that_the_checksum_covers(void **state)
{
    (void)state;
    for (size_t at = 0; at < offsetof(struct weir__header, ready); at++)
        for (int bit = 0; bit < 8; bit += 7) {
            struct image image = trial_copy();
            struct trial t;

            image.at[at] = (char)(image.at[at] ^ 1 << bit);
            trial_write("file", image.at, image.bytes);
            t = trial_open("file");
            trial_ended(&t);
            if (t.error != WEIR_EFORMAT && t.error != WEIR_EVERSION)
                fail_msg("byte %zu: %s", at, weir_error_name(t.error));
            assert_true(strlen(t.text) > 0);
            image_free(&image);
        }
}

/* A header whose checksum is right, and which asks for more than there can be. */
static void refuses_a_header_that_contradicts_itself(void **state)
{
    const size_t words[] = {
        offsetof(struct weir__header, max_keys),     offsetof(struct weir__header, max_policies),
        offsetof(struct weir__header, lock_owners),  offsetof(struct weir__header, journals_at),
        offsetof(struct weir__header, directory_at),
    };
    static const uint64_t values[] = {0, 1, 4097, UINT64_C(1) << 40, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < LENGTH(words); i++)
        for (size_t j = 0; j < LENGTH(values); j++) {
            struct image image = trial_copy();
            struct trial t;

            memcpy(image.at + words[i], &values[j], sizeof values[j]);
            sign(&image);
            trial_write("file", image.at, image.bytes);
            t = trial_open("file");
            trial_ended(&t);
            if (t.error == 0 && words[i] != offsetof(struct weir__header, max_keys))
                fail_msg("the word at %zu is %llu, and it is opened", words[i],
                         (unsigned long long)values[j]);
            image_free(&image);
        }
}

/* No checksum covers what the header says about its tables: here, that the second is where the
 * first is. */
static void refuses_a_table_in_the_place_of_another(void **state)
{
    struct image image = trial_copy();
    struct weir__region *table = trial_header(&image)->table;

    (void)state;
    atomic_store(&table[1].at, atomic_load(&table[0].at));
    table[1].bytes = table[0].bytes;
    refuses_image(&image, WEIR_EFORMAT, "the header contradicts itself");
}

static void refuses_a_table_of_states_of_another_size(void **state)
{
    struct image image = trial_copy();
    uint64_t *state_bytes = (void *)(image.at + atomic_load(&trial_header(&image)->table[0].at));

    (void)state;
    *state_bytes = 24;
    refuses_image(&image, WEIR_EFORMAT, "16-byte states contradicts itself");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_a_sound_file),
        cmocka_unit_test(refuses_an_empty_file),
        cmocka_unit_test(refuses_a_file_shorter_than_a_header),
        cmocka_unit_test(refuses_a_text),
        cmocka_unit_test(refuses_a_program),
        cmocka_unit_test(refuses_what_is_not_a_file),
        cmocka_unit_test(refuses_another_version),
        cmocka_unit_test(refuses_a_newer_version_of_any_layout),
        cmocka_unit_test(refuses_another_byte_order),
        cmocka_unit_test(refuses_another_layout),
        cmocka_unit_test(refuses_a_half_written_file),
        cmocka_unit_test(refuses_a_file_cut_at_any_page),
        cmocka_unit_test(refuses_every_changed_byte_that_the_checksum_covers),
        cmocka_unit_test(refuses_a_header_that_contradicts_itself),
        cmocka_unit_test(refuses_a_table_in_the_place_of_another),
        cmocka_unit_test(refuses_a_table_of_states_of_another_size),
    };

    return trials_main("store-refusals", tests, LENGTH(tests));
}
