/* The names of a certificate (server/tls/tls_names.c). */
#include "check.h"

#include <openssl/x509v3.h>
#include <string.h>

#include "server/tls/tls_openssl.h"

/* A common name, or an alternative one; with its length, for it may have any byte in it. */
struct name {
    int kind; /* -1: a common name; otherwise GEN_... */
    const char *bytes;
    int len;
};

#define COMMON(text)               \
    {                              \
        -1, text, sizeof(text) - 1 \
    }
#define OTHER(kind, text)            \
    {                                \
        kind, text, sizeof(text) - 1 \
    }

static X509 *certificate(const struct name *name, size_t n)
{
    X509 *cert = X509_new();
    GENERAL_NAMES *others = GENERAL_NAMES_new();

    for (size_t i = 0; i < n; i++) {
        if (name[i].kind < 0) {
            assert_int_equal(X509_NAME_add_entry_by_NID(
                                 X509_get_subject_name(cert), NID_commonName, MBSTRING_UTF8,
                                 (const unsigned char *)name[i].bytes, name[i].len, -1, 0),
                             1);
        } else {
            GENERAL_NAME *one = GENERAL_NAME_new();
            ASN1_IA5STRING *text = ASN1_IA5STRING_new();

            assert_int_equal(ASN1_STRING_set(text, name[i].bytes, name[i].len), 1);
            GENERAL_NAME_set0_value(one, name[i].kind, text);
            assert_int_not_equal(sk_GENERAL_NAME_push(others, one), 0);
        }
    }
    if (sk_GENERAL_NAME_num(others) > 0)
        assert_int_equal(X509_add1_ext_i2d(cert, NID_subject_alt_name, others, 0, 0), 1);
    GENERAL_NAMES_free(others);
    return cert;
}

/* Checks that the names are these, each with a NUL behind it. */
static void expect_names(const struct name *name, size_t n, const char *wanted, size_t len)
{
    char names[TLS_NAMES_ROOM];
    X509 *cert = certificate(name, n);

    memset(names, 'x', sizeof names);
    assert_int_equal(tls_names_of(cert, names), len);
    assert_memory_equal(names, wanted, len);
    X509_free(cert);
}

#define EXPECT(wanted, ...)                                                   \
    do {                                                                      \
        const struct name all[] = {__VA_ARGS__};                              \
        expect_names(all, sizeof all / sizeof all[0], wanted, sizeof wanted); \
    } while (0)

static void common_names_come_first(void **state)
{
    (void)state;
    EXPECT("shop\0shop.test\0spiffe://x/shop\0ops@x.test\0", OTHER(GEN_DNS, "shop.test"),
           OTHER(GEN_URI, "spiffe://x/shop"), OTHER(GEN_EMAIL, "ops@x.test"), COMMON("shop"));
    EXPECT("a\0b\0", COMMON("a"), COMMON("b"));
}

/* An authority that reads such a name as text signs "ops" for the owner of evil.test. */
static void a_nul_makes_no_name(void **state)
{
    (void)state;
    EXPECT("", COMMON("ops\0.evil.test"), OTHER(GEN_DNS, "ops\0.evil.test"),
           OTHER(GEN_DNS, "ops\0"));
}

static void only_printable_ascii_of_63_bytes_counts(void **state)
{
    (void)state;
    EXPECT("", COMMON("two words"), COMMON("caf\xc3\xa9"), OTHER(GEN_DNS, ""), COMMON("tab\there"));
    EXPECT("123456789-123456789-123456789-123456789-123456789-123456789-123\0",
           COMMON("123456789-123456789-123456789-123456789-123456789-123456789-123"),
           COMMON("123456789-123456789-123456789-123456789-123456789-123456789-1234"));
}

static void many_names_are_cut_off(void **state)
{
    static const char LONG[] = "123456789-123456789-123456789-123456789-123456789-123456789-123";
    struct name all[3 * TLS_NAMES];
    char names[TLS_NAMES_ROOM];
    X509 *cert;

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        all[i] = (struct name){GEN_DNS, LONG, sizeof LONG - 1};
    cert = certificate(all, sizeof all / sizeof all[0]);
    assert_int_equal(tls_names_of(cert, names), TLS_NAMES_ROOM);
    X509_free(cert);
}

static void none_is_none(void **state)
{
    (void)state;
    expect_names(NULL, 0, "", 1);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(common_names_come_first),
    cmocka_unit_test(a_nul_makes_no_name),
    cmocka_unit_test(only_printable_ascii_of_63_bytes_counts),
    cmocka_unit_test(many_names_are_cut_off),
    cmocka_unit_test(none_is_none),
};

RUN("tls names", TESTS)
