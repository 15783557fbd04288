/*
 * CRC-64 in portable C: eight bytes per step with eight tables (technique: M. Kounavis and F. Berry, slicing-by-8).
 *
 * tables[k][b] is the CRC of byte b followed by k zero bytes. The CRC is linear, so each entry is the XOR of the
 * entries of its bits. The compiler computes all 2,048 entries from 64 constants, x^64 to x^127 mod P.
 */
#include "crc64_impl.h"

#include "bytes.h"

#define BIT(n, bit, value) ((((n) >> (bit)) & 1U) != 0 ? UINT64_C(value) : 0)
#define ENTRY(n, b7, b6, b5, b4, b3, b2, b1, b0) \
    (BIT(n, 7, b7) ^ BIT(n, 6, b6) ^ BIT(n, 5, b5) ^ BIT(n, 4, b4) ^ BIT(n, 3, b3) ^ BIT(n, 2, b2) ^ BIT(n, 1, b1) ^ \
     BIT(n, 0, b0))
#define ENTRIES_4(n, ...) \
    ENTRY(n, __VA_ARGS__), ENTRY((n) + 1U, __VA_ARGS__), ENTRY((n) + 2U, __VA_ARGS__), ENTRY((n) + 3U, __VA_ARGS__)
#define ENTRIES_16(n, ...) \
    ENTRIES_4(n, __VA_ARGS__), ENTRIES_4((n) + 4U, __VA_ARGS__), ENTRIES_4((n) + 8U, __VA_ARGS__), \
        ENTRIES_4((n) + 12U, __VA_ARGS__)
#define ENTRIES_64(n, ...) \
    ENTRIES_16(n, __VA_ARGS__), ENTRIES_16((n) + 16U, __VA_ARGS__), ENTRIES_16((n) + 32U, __VA_ARGS__), \
        ENTRIES_16((n) + 48U, __VA_ARGS__)
#define TABLE(...) \
    { \
        ENTRIES_64(0U, __VA_ARGS__), ENTRIES_64(64U, __VA_ARGS__), ENTRIES_64(128U, __VA_ARGS__), \
            ENTRIES_64(192U, __VA_ARGS__) \
    }

static const uint64_t tables[8][256] = {
    TABLE(0x9a6c9329ac4bc9b5, 0xd75adabd7a6e2d6f, 0xf1c1fe77117cdf02, 0x78e0ff3b88be6f81,
          0xa61cecb46814fe75, 0xc962e5739841b68f, 0xfedde190606b12f2, 0x7f6ef0c830358979),
    TABLE(0xa5dbeb4db4510d09, 0xc881668f76634f31, 0xfe2c206e177a6e2d, 0xe57a831ea7f6fea3,
          0xe8d1d2a6ffb0b6e4, 0x7468e9537fd85b72, 0x3a3474a9bfec2db9, 0x8776a97d73bddf69),
    TABLE(0xd9d7c79715952601, 0xf68770e226815ab5, 0xe12f2b58bf0b64ef, 0xeafb0685f3ce7bc2,
          0x757d8342f9e73de1, 0xa0d25288d0b85745, 0xca05ba6dc417e217, 0xff6e4e1f4e4038be),
    TABLE(0x7fb7270fa7201c5f, 0xa5b700ae7fdbc79a, 0x52db80573fede3cd, 0xb301530233bd3853,
          0xc3ec3aa8b595559c, 0x61f61d545acaaace, 0x30fb0eaa2d655567, 0x8211147cbaf96306),
    TABLE(0x41088a3e5d7cb183, 0xbae8d63682f59174, 0x5d746b1b417ac8ba, 0x2eba358da0bd645d,
          0x8d3189ef7c157b9b, 0xdcf457de12417478, 0x6e7a2bef0920ba3c, 0x373d15f784905d1e),
    TABLE(0x1b9e8afbc2482e8f, 0x97a3d6544d6fdef2, 0x4bd1eb2a26b7ef79, 0xbf8466bcbf103e09,
          0xc5aea077f3c3d6b1, 0xf8bbc31255aa22ed, 0xe63172a0869ed8c3, 0xe9742a79ef04a5d4),
    TABLE(0x74ba153cf78252ea, 0x3a5d0a9e7bc12975, 0x8742166691ab5d0f, 0xd9cd981ae49e6732,
          0x6ce6cc0d724f3399, 0xac1ff52f156c5079, 0xcc6369be26fde189, 0xfc5d27f6bf353971),
    TABLE(0xe44200d2f3d1550d, 0xe84d9340d5a36333, 0xee4a5a89c69a782c, 0x77252d44e34d3c16,
          0x3b9296a271a69e0b, 0x87a5d878949886b0, 0x43d2ec3c4a4c4358, 0x21e9761e252621ac),
};

uint64_t crc64_path_table(uint64_t state, const uint8_t *data, size_t size_bytes)
{
    for (; size_bytes >= 8; size_bytes -= 8, data += 8) {
        const uint64_t word = state ^ load_u64(data);

        state = tables[7][word & 0xff] ^ tables[6][word >> 8 & 0xff] ^ tables[5][word >> 16 & 0xff] ^
                tables[4][word >> 24 & 0xff] ^ tables[3][word >> 32 & 0xff] ^ tables[2][word >> 40 & 0xff] ^
                tables[1][word >> 48 & 0xff] ^ tables[0][word >> 56];
    }
    for (; size_bytes != 0; size_bytes--, data++)
        state = state >> 8 ^ tables[0][(state ^ *data) & 0xff];
    return state;
}
