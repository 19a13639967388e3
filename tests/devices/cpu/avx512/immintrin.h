/* The AVX-512 instructions of the forms in plain C, for machines without these instructions. */
#ifndef AVX512_IN_C_H
#define AVX512_IN_C_H

#include_next <immintrin.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

/* Functions for AVX-512 become ordinary functions. */
#define target(instructions) unused

struct wide {
    int32_t lanes[16];
};

#define __m512i struct wide
#define __m512 struct wide /* the bits of floats */

#define LANES(name, parameters, lane) \
    static inline __m512i name parameters \
    { \
        __m512i r; \
        for (int i = 0; i < 16; ++i) { \
            r.lanes[i] = (int32_t)(lane); \
        } \
        return r; \
    }

/* The 64-bit lane that contains a 32-bit lane, signed. */
#define LONG(v, i) ((int64_t)(((uint64_t)(uint32_t)v.lanes[(i) | 1] << 32) | (uint32_t)v.lanes[(i) & ~1]))
#define HALF(value, i) ((uint64_t)(value) >> 32 * ((i) & 1))
#define BYTE(v, i, t, type) (type)((uint32_t)v.lanes[i] >> 8 * (t))
#define WORD(v, i, t) (int16_t)((uint32_t)v.lanes[i] >> 16 * (t))

static inline float to_float(int32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline int32_t to_bits(float value)
{
    int32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

LANES(in_c_cvtepi32_ps, (__m512i a), to_bits((float)a.lanes[i]))
LANES(in_c_mul_ps, (__m512 a, __m512 b), to_bits(to_float(a.lanes[i]) * to_float(b.lanes[i])))
LANES(in_c_cvtps_epi32, (__m512 a), lrintf(to_float(a.lanes[i])))
LANES(in_c_set1_epi32, (int32_t a), a)
LANES(in_c_set1_epi8, (char a), (uint8_t)a * 0x01010101u)
LANES(in_c_add_epi32, (__m512i a, __m512i b), (uint32_t)a.lanes[i] + (uint32_t)b.lanes[i])
LANES(in_c_sub_epi32, (__m512i a, __m512i b), (uint32_t)a.lanes[i] - (uint32_t)b.lanes[i])
LANES(in_c_xor_si512, (__m512i a, __m512i b), a.lanes[i] ^ b.lanes[i])
LANES(in_c_and_si512, (__m512i a, __m512i b), a.lanes[i] & b.lanes[i])
LANES(in_c_set1_epi64, (int64_t a), HALF(a, i))
LANES(in_c_broadcast_i32x4, (__m128i a), ((int32_t *)&a)[i % 4])
LANES(in_c_broadcast_i64x4, (__m256i a), ((int32_t *)&a)[i % 8])
LANES(in_c_srlv_epi16, (__m512i a, __m512i n),
      (uint32_t)((uint16_t)WORD(a, i, 0) >> WORD(n, i, 0))
          | (uint32_t)((uint16_t)WORD(a, i, 1) >> WORD(n, i, 1)) << 16)
LANES(in_c_max_epi32, (__m512i a, __m512i b), a.lanes[i] > b.lanes[i] ? a.lanes[i] : b.lanes[i])
LANES(in_c_slli_epi32, (__m512i a, int n), (uint32_t)a.lanes[i] << n)
LANES(in_c_sllv_epi32, (__m512i a, __m512i n), (uint32_t)a.lanes[i] << n.lanes[i])
LANES(in_c_srai_epi32, (__m512i a, int n), a.lanes[i] >> n)
LANES(in_c_srav_epi32, (__m512i a, __m512i n), a.lanes[i] >> n.lanes[i])
LANES(in_c_srli_epi64, (__m512i a, int n), HALF((uint64_t)LONG(a, i) >> n, i))
LANES(in_c_mul_epi32, (__m512i a, __m512i b), HALF((int64_t)a.lanes[i & ~1] * b.lanes[i & ~1], i))
LANES(in_c_blend, (uint32_t k, __m512i a, __m512i b), k >> i & 1 ? b.lanes[i] : a.lanes[i])
LANES(in_c_cvtepi8_epi32, (__m128i a), ((int8_t *)&a)[i])
LANES(in_c_cvtepi8_epi16, (__m256i a),
      (uint32_t)(uint16_t)((int8_t *)&a)[2 * i] | (uint32_t)((int8_t *)&a)[2 * i + 1] << 16)
LANES(in_c_cvtepu8_epi16, (__m256i a),
      (uint32_t)((uint8_t *)&a)[2 * i] | (uint32_t)((uint8_t *)&a)[2 * i + 1] << 16)
LANES(in_c_dpbusd_epi32, (__m512i s, __m512i a, __m512i b),
      (uint32_t)s.lanes[i] + (uint32_t)(BYTE(a, i, 0, uint8_t) * BYTE(b, i, 0, int8_t)
                                        + BYTE(a, i, 1, uint8_t) * BYTE(b, i, 1, int8_t)
                                        + BYTE(a, i, 2, uint8_t) * BYTE(b, i, 2, int8_t)
                                        + BYTE(a, i, 3, uint8_t) * BYTE(b, i, 3, int8_t)))
LANES(in_c_dpwssd_epi32, (__m512i s, __m512i a, __m512i b),
      (uint32_t)s.lanes[i] + (uint32_t)(WORD(a, i, 0) * WORD(b, i, 0))
          + (uint32_t)(WORD(a, i, 1) * WORD(b, i, 1)))

static inline __m512i in_c_maskz_loadu_epi8(uint64_t some, const void *from)
{
    __m512i r = in_c_set1_epi32(0);

    for (int i = 0; i < 64; ++i) {
        if (some >> i & 1) {
            ((uint8_t *)&r)[i] = ((const uint8_t *)from)[i];
        }
    }
    return r;
}

/* Numbers of 16 or more are not used. */
static inline __m512i in_c_shuffle_epi8(__m512i values, __m512i numbers)
{
    __m512i r;

    for (int i = 0; i < 64; ++i) {
        ((uint8_t *)&r)[i] = ((uint8_t *)&values)[(i & ~15) + ((uint8_t *)&numbers)[i]];
    }
    return r;
}

static inline void in_c_store(void *to, uint64_t some, const void *from, int n)
{
    for (int i = 0; i < n; ++i) {
        if (some >> i & 1) {
            ((uint8_t *)to)[i] = ((const uint8_t *)from)[i];
        }
    }
}

static inline __m128i in_c_cvtusepi32_epi8(__m512i a)
{
    uint8_t bytes[16];

    for (int i = 0; i < 16; ++i) {
        bytes[i] = (uint8_t)((uint32_t)a.lanes[i] > 255 ? 255 : a.lanes[i]);
    }
    return _mm_loadu_si128((const void *)bytes);
}

#define _mm512_set1_epi32 in_c_set1_epi32
#define _mm512_set1_epi8 in_c_set1_epi8
#define _mm512_setzero_si512() in_c_set1_epi32(0)
#define _mm512_add_epi32 in_c_add_epi32
#define _mm512_sub_epi32 in_c_sub_epi32
#define _mm512_xor_si512 in_c_xor_si512
#define _mm512_and_si512 in_c_and_si512
#define _mm512_set1_epi64 in_c_set1_epi64
#define _mm512_broadcast_i32x4 in_c_broadcast_i32x4
#define _mm512_broadcast_i64x4 in_c_broadcast_i64x4
#define _mm512_srlv_epi16 in_c_srlv_epi16
#define _mm512_shuffle_epi8 in_c_shuffle_epi8
#define _mm512_max_epi32 in_c_max_epi32
#define _mm512_slli_epi32 in_c_slli_epi32
#define _mm512_sllv_epi32 in_c_sllv_epi32
#define _mm512_cvtepi32_ps in_c_cvtepi32_ps
#define _mm512_mul_ps in_c_mul_ps
#define _mm512_cvtps_epi32 in_c_cvtps_epi32
#define _mm512_castsi512_ps(a) (a)
#define _mm512_srai_epi32 in_c_srai_epi32
#define _mm512_srav_epi32 in_c_srav_epi32
#define _mm512_srli_epi64 in_c_srli_epi64
#define _mm512_mul_epi32 in_c_mul_epi32
#define _mm512_mask_blend_epi32 in_c_blend
#define _mm512_cvtepi8_epi32 in_c_cvtepi8_epi32
#define _mm512_cvtepi8_epi16 in_c_cvtepi8_epi16
#define _mm512_cvtepu8_epi16 in_c_cvtepu8_epi16
#define _mm512_cvtusepi32_epi8 in_c_cvtusepi32_epi8
#define _mm512_dpbusd_epi32 in_c_dpbusd_epi32
#define _mm512_dpwssd_epi32 in_c_dpwssd_epi32
#define _mm512_maskz_loadu_epi8 in_c_maskz_loadu_epi8
#define _mm512_loadu_si512(from) in_c_maskz_loadu_epi8(~(uint64_t)0, from)
#define _mm512_mask_storeu_epi8(to, some, a) in_c_store(to, some, (__m512i[]){a}, 64)
#define _mm_mask_storeu_epi8(to, some, a) in_c_store(to, some, (__m128i[]){a}, 16)

#endif
