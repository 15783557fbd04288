/*
 * Template of a compression function for many chains, one per vector lane. Include it once per width.
 *
 * Define for the instruction set:
 *
 *   VECTOR, VECTOR_LANES            the vector type, and its number of 32-bit words
 *   V_LOAD(from), V_STORE(to, v)    VECTOR_LANES words at any address
 *   V_SET(constant), V_ADD(v, w)    modulo 2^32 in each lane
 *   V_ROTATE(v, bits)               rotate left
 *   V_MIX_F(a, b, c, d) ... V_MIX_I a plus the mixing function of a round; V_I_CONSTANT is added to constants of I
 *   v_gather(blocks, at, w)         load word k of the block at blocks[i] + at into lane i of w[k]
 *
 * Define for each inclusion SETS, the number of vectors, and FUNCTION, the name.
 *
 * Each step depends on the previous one. Independent sets take turns to hide that latency. Message words stay in
 * memory, where an addition reads them at no extra cost. This leaves the registers to the chains.
 */

#define STEP(mix, a, b, c, d, k, bits, constant) \
    for (int set = 0; set < SETS; set++) { \
        a[set] = V_ADD(a[set], V_ADD(w[set][k], V_SET(constant))); \
        a[set] = mix(a[set], b[set], c[set], d[set]); \
        a[set] = V_ADD(V_ROTATE(a[set], bits), b[set]); \
    }
#define STEP_F(a, b, c, d, k, bits, constant) STEP(V_MIX_F, a, b, c, d, k, bits, constant)
#define STEP_G(a, b, c, d, k, bits, constant) STEP(V_MIX_G, a, b, c, d, k, bits, constant)
#define STEP_H(a, b, c, d, k, bits, constant) STEP(V_MIX_H, a, b, c, d, k, bits, constant)
#define STEP_I(a, b, c, d, k, bits, constant) STEP(V_MIX_I, a, b, c, d, k, bits, (constant) + V_I_CONSTANT)

void FUNCTION(uint32_t words[4][MD5_MOST_LANES], const uint8_t *const *blocks, size_t count)
{
    VECTOR a[SETS], b[SETS], c[SETS], d[SETS], w[SETS][16];

    for (int set = 0; set < SETS; set++) {
        a[set] = V_LOAD(words[0] + VECTOR_LANES * set);
        b[set] = V_LOAD(words[1] + VECTOR_LANES * set);
        c[set] = V_LOAD(words[2] + VECTOR_LANES * set);
        d[set] = V_LOAD(words[3] + VECTOR_LANES * set);
    }
    for (size_t at = 0; at != count * MD5_BLOCK_BYTES; at += MD5_BLOCK_BYTES) {
        VECTOR a0[SETS], b0[SETS], c0[SETS], d0[SETS];

        for (int set = 0; set < SETS; set++) {
            v_gather(blocks + VECTOR_LANES * set, at, w[set]);
            a0[set] = a[set];
            b0[set] = b[set];
            c0[set] = c[set];
            d0[set] = d[set];
        }
        ALL_STEPS(STEP_F, STEP_G, STEP_H, STEP_I)
        for (int set = 0; set < SETS; set++) {
            a[set] = V_ADD(a[set], a0[set]);
            b[set] = V_ADD(b[set], b0[set]);
            c[set] = V_ADD(c[set], c0[set]);
            d[set] = V_ADD(d[set], d0[set]);
        }
    }
    for (int set = 0; set < SETS; set++) {
        V_STORE(words[0] + VECTOR_LANES * set, a[set]);
        V_STORE(words[1] + VECTOR_LANES * set, b[set]);
        V_STORE(words[2] + VECTOR_LANES * set, c[set]);
        V_STORE(words[3] + VECTOR_LANES * set, d[set]);
    }
}

#undef STEP
#undef STEP_F
#undef STEP_G
#undef STEP_H
#undef STEP_I
#undef SETS
#undef FUNCTION
