/* Unit tests of addresses and networks. */
#include "check.h"

#include <string.h>

#include "proto/address.h"

static void addresses_are_keys(void **state)
{
    static const struct {
        const char *text;
        int prefix;
        const char *key; /* NULL: not an address */
    } ROWS[] = {
        {"192.0.2.7", 64, "192.0.2.7"},
        {"192.0.2.7", 1, "192.0.2.7"},
        {"192.0.2.7:4711", 64, "192.0.2.7"},
        {"[192.0.2.7]:4711", 64, "192.0.2.7"},
        {"::ffff:192.0.2.7", 64, "192.0.2.7"},
        {"::ffff:c000:207", 64, "192.0.2.7"},
        {"[::ffff:192.0.2.7]:80", 64, "192.0.2.7"},
        {"::ffff:192.0.2.7%eth0", 64, "192.0.2.7"},
        {"64:ff9b::192.0.2.7", 64, "192.0.2.7"},
        {"64:ff9b:1::192.0.2.7", 64, "64:ff9b:1::/64"},
        {"::192.0.2.7", 64, "::/64"},
        {"::fffe:192.0.2.7", 128, "::fffe:c000:207"},
        {"2001:db8:1:2:3:4:5:6", 64, "2001:db8:1:2::/64"},
        {"2001:DB8:1:2::", 64, "2001:db8:1:2::/64"},
        {"2001:db8:1:ffff::1", 56, "2001:db8:1:ff00::/56"},
        {"2001:db8:1:ffff::1", 127, "2001:db8:1:ffff::/127"},
        {"2001:db8:1:ffff::1", 128, "2001:db8:1:ffff::1"},
        {"fe80::1%eth0", 64, "fe80::/64"},
        {"[2001:db8::1", 64, "2001:db8::/64"},
        {"", 64, NULL},
        {"[", 64, NULL},
        {":", 64, NULL},
        {"%", 64, NULL},
        {"unknown", 64, NULL},
        {"192.0.2.256", 64, NULL},
        {"192.0.2", 64, NULL},
        {"1:2:3", 64, NULL},
        {"192.0.2.7, 10.0.0.1", 64, NULL},
        {"2001:db8:1111:2222:3333:4444:5555:6666:7777:8888", 64, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct address a;
        char key[ADDRESS_KEY_MOST];

        if (address_read(weir__slice_of(ROWS[i].text), &a) != (ROWS[i].key != NULL))
            fail_msg("'%s' is read otherwise", ROWS[i].text);
        if (!ROWS[i].key)
            continue;
        assert_int_equal(address_key(&a, ROWS[i].prefix, key), strlen(ROWS[i].key));
        assert_string_equal(key, ROWS[i].key);
    }
}

static void a_zero_byte_is_no_end(void **state)
{
    struct address a;

    (void)state;
    assert_false(address_read((struct weir__slice){"192.0.2.7\0evil", 14}, &a));
}

static void networks_have_addresses(void **state)
{
    static const struct {
        const char *network, *address;
        bool has;
    } ROWS[] = {
        {"10.0.0.0/8", "10.255.255.255", true},
        {"10.0.0.0/8", "11.0.0.0", false},
        {"10.0.0.0/8", "::ffff:10.1.2.3", true},
        {"0.0.0.0/0", "255.255.255.255", true},
        {"0.0.0.0/0", "::1", false},
        {"::/0", "2001:db8::1", true},
        {"::/0", "10.0.0.1", false},
        {"::/0", "::ffff:10.0.0.1", false},
        {"192.0.2.7", "192.0.2.7", true},
        {"192.0.2.7", "192.0.2.6", false},
        {"192.0.2.6/31", "192.0.2.7", true},
        {"192.0.2.6/31", "192.0.2.8", false},
        {"2001:db8::/33", "2001:db8:7::1", true},
        {"2001:db8::/33", "2001:db8:8000::", false},
        {"::1", "::1", true},
        {"::1", "::2", false},
        {"::ffff:10.0.0.0/104", "10.9.9.9", true},
        {"::ffff:10.0.0.0/104", "11.9.9.9", false},
        {"::ffff:10.0.0.1", "10.0.0.1", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct network n;
        struct address a;

        assert_int_equal(network_read(weir__slice_of(ROWS[i].network), &n), NETWORK_OK);
        assert_true(address_read(weir__slice_of(ROWS[i].address), &a));
        if (network_has(&n, &a) != ROWS[i].has)
            fail_msg("%s in %s: expected %d", ROWS[i].address, ROWS[i].network, ROWS[i].has);
    }
}

static void other_text_is_no_network(void **state)
{
    static const char *const BAD[] = {"",         "/8",        "10.0.0.0/",     "10.0.0.0/33",
                                      "::/129",   "10.0.0/8",  "10.0.0.0/8/8",  "10.0.0.1:80",
                                      "[::1]",    "::1%lo",    "10.0.0.0/-1",   "10.0.0.0/ 8",
                                      "loopback", "10.0.0.0 ", "::ffff:0:0/95", "10.0.0.0/8x"};
    struct network n;

    (void)state;
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        if (network_read(weir__slice_of(BAD[i]), &n) != NETWORK_BAD)
            fail_msg("'%s' is read as a network", BAD[i]);
    assert_int_equal(network_read(weir__slice_of("10.0.0.1/8"), &n), NETWORK_LONGER);
    assert_int_equal(network_read(weir__slice_of("2001:db8::1/32"), &n), NETWORK_LONGER);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(addresses_are_keys),
    cmocka_unit_test(a_zero_byte_is_no_end),
    cmocka_unit_test(networks_have_addresses),
    cmocka_unit_test(other_text_is_no_network),
};

RUN("address", TESTS)
