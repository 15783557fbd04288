/*
 * CRCs of buffers, blocks and combined pieces. Independent of the CPU.
 *
 * To combine, multiply the CRC of the first piece by x^8 modulo the polynomial for each byte of the second, and add the
 * CRC of the second. The inversions at the beginning and end cancel out.
 */
#include "crc64_impl.h"

#define ONE (UINT64_C(1) << 63) /* x^0: the lowest power is the highest bit */
#define X_TO_8 (UINT64_C(1) << 55)

uint64_t crc64_update(uint64_t crc, const uint8_t *data, size_t size_bytes)
{
    return ~crc64_advance(~crc, data, size_bytes);
}

void crc64_blocks(const uint8_t *data, size_t size_bytes, size_t block_bytes, uint64_t *values)
{
    for (; size_bytes > block_bytes; size_bytes -= block_bytes, data += block_bytes)
        *values++ = crc64_update(0, data, block_bytes);
    if (size_bytes != 0)
        *values = crc64_update(0, data, size_bytes);
}

/* a b mod P */
static uint64_t multiply(uint64_t a, uint64_t b)
{
    uint64_t product = 0;

    for (; a != 0; a <<= 1) {
        product ^= b & (0 - (a >> 63));
        b = b >> 1 ^ (CRC64_POLYNOMIAL & (0 - (b & 1)));
    }
    return product;
}

/* x^(8 ${bytes}) mod P, by square and multiply from the lowest bit of ${bytes} */
static uint64_t find_shift(uint64_t bytes)
{
    uint64_t shift = ONE;
    uint64_t square = X_TO_8;

    for (; bytes != 0; bytes >>= 1, square = multiply(square, square))
        if ((bytes & 1) != 0)
            shift = multiply(shift, square);
    return shift;
}

uint64_t crc64_combine(uint64_t first, uint64_t second, uint64_t second_bytes)
{
    return multiply(find_shift(second_bytes), first) ^ second;
}

uint64_t crc64_combine_blocks(const uint64_t *values, size_t count, uint64_t block_bytes, uint64_t last_bytes)
{
    const uint64_t shift = find_shift(block_bytes);
    uint64_t value = 0;

    if (count == 0)
        return 0;
    for (size_t i = 0; i < count - 1; i++)
        value = multiply(shift, value) ^ values[i];
    return crc64_combine(value, values[count - 1], last_bytes);
}
